//! The exponential and what is made of it.

use super::{inverse, near_inverse, near_inverse_up_to_two, negative, number, of, polynomial};
use crate::simd::{Lane, shifter};
use firelu_core::dtype::Compute;

/// `(e^r - 1 - r) / r²` for |r| up to ln 2 / 2.
const EXP32: &[f64] =
    &[0.4999999701976776, 0.1666654497385025, 0.04166743904352188, 0.00836645346134901, 0.0013870554976165295];
const EXP64: &[f64] = &[
    0.5,
    0.16666666666666677,
    0.0416666666666667,
    0.008333333333321341,
    0.0013888888888866334,
    0.000198412698869455,
    2.4801587361561615e-05,
    2.755724330728849e-06,
    2.755724189526622e-07,
    2.5109375844076164e-08,
    2.0924711595698815e-09,
];
/// `(ln(1 + e) - e) / e²` for e from 0 to 1.
const LOG32: &[f64] = &[
    -0.4999993145465851,
    0.33330464363098145,
    -0.24958020448684692,
    0.1969212144613266,
    -0.15344977378845215,
    0.10661371052265167,
    -0.0574604831635952,
    0.02008846029639244,
    -0.003291074186563492,
];
const LOG64: &[f64] = &[
    -0.5,
    0.33333333333332466,
    -0.2499999999987205,
    0.1999999999247163,
    -0.1666666643097834,
    0.14285709745445543,
    -0.12499941281507687,
    0.11110571142855806,
    -0.09996324347550137,
    0.09071835292534261,
    -0.0825618541627825,
    0.07444817019942226,
    -0.06504010366036855,
    0.053223522460321214,
    -0.03912505115233944,
    0.024682950191684934,
    -0.012732150528247672,
    0.005081090478548994,
    -0.0014569248473329174,
    0.000265295970542531,
    -2.2938856818471438e-05,
];

/// Powers of two are moved by this exponent, so that those of subnormal results are normal numbers; the results are moved
/// back last, and rounded once.
#[inline(always)]
fn moved_by<C: Compute>() -> f64 {
    of::<C, _>(48.0, 400.0)
}

/// Two to the power [`moved_by`].
#[inline(always)]
fn scale<C: Compute>() -> f64 {
    of::<C, _>((1u64 << 48) as f64, f64::from_bits((1023 + 400) << 52))
}

/// `x = n ln 2 + r`.
struct Reduced<L> {
    /// n, moved so that [`Lane::power_of_two`] gives its power.
    n: L,
    r: L,
}

/// The reduction of an `x` that is not too large for [`shifter`]; the power of n is moved by so many exponents.
#[inline(always)]
fn reduced<C: Compute, L: Lane<C>>(x: L, by: f64) -> Reduced<L> {
    let shifter = x.splat(shifter::<C>() + C::from_f64(by));
    reduced_by(x, x.mul_add(number(x, std::f64::consts::LOG2_E), shifter), shifter)
}

/// As [`reduced`], with an n that was found already.
#[inline(always)]
fn reduced_by<C: Compute, L: Lane<C>>(x: L, moved: L, shifter: L) -> Reduced<L> {
    let n = moved.sub(shifter);
    // The upper part has few enough bits for an exact product with n.
    let (upper, lower) =
        of::<C, _>((0.693145751953125, 1.428606765330187e-06), (0.6931471805601177, -1.7239444525614835e-13));
    Reduced { n: moved, r: n.mul_add(number(x, -lower), n.mul_add(number(x, -upper), x)) }
}

impl<L> Reduced<L> {
    #[inline(always)]
    fn power<C: Compute>(&self) -> L
    where
        L: Lane<C>,
    {
        self.n.power_of_two()
    }

    /// `(e^r - 1 - r) / r²`, with the square of r.
    #[inline(always)]
    fn series<C: Compute>(&self) -> (L, L)
    where
        L: Lane<C>,
    {
        let square = self.r.mul(self.r);
        (polynomial(self.r, square, of::<C, _>(EXP32, EXP64)), square)
    }

    /// `e^r - 1`.
    #[inline(always)]
    fn expm1<C: Compute>(&self) -> L
    where
        L: Lane<C>,
    {
        let (series, square) = self.series();
        square.mul_add(series, self.r)
    }
}

/// `e^x` below this is zero, and so is a thousand times that.
#[inline(always)]
fn lowest<C: Compute>() -> f64 {
    of::<C, _>(-120.0, -760.0)
}

/// Beyond this `e^-x` is nothing beside one.
#[inline(always)]
fn highest<C: Compute>() -> f64 {
    of::<C, _>(20.0, 40.0)
}

/// `e^x`.
#[inline(always)]
pub fn exp<C: Compute, L: Lane<C>>(x: L) -> L {
    let x = x.at_least(number(x, lowest::<C>())).at_most(number(x, of::<C, _>(89.5, 710.5)));
    let reduced = reduced(x, 0.0);
    let shifter = x.splat(shifter::<C>());
    // The power in two factors: the first is a normal number, and the second is one unless the first would not be.
    let limit = of::<C, _>(100.0, 1000.0);
    let first = reduced.n.at_least(shifter.sub(number(x, limit))).at_most(shifter.add(number(x, limit)));
    let second = reduced.n.sub(first).add(shifter);
    reduced.expm1().add(number(x, 1.0)).mul(first.power_of_two()).mul(second.power_of_two())
}

/// `e^x` for `x` that is not positive; nothing that counts for others.
#[inline(always)]
pub fn exp_of_negative<C: Compute, L: Lane<C>>(x: L) -> L {
    let reduced = reduced(x.at_least(number(x, lowest::<C>())), moved_by::<C>());
    let power = reduced.power();
    reduced.expm1().mul_add(power, power).mul(number(x, 1.0 / scale::<C>()))
}

/// `e^x - 1` is -1 from here on.
#[inline(always)]
fn lowest_expm1<C: Compute>() -> f64 {
    of::<C, _>(-30.0, -60.0)
}

/// `e^x - 1` for `x` that is not positive; nothing that counts for others.
#[inline(always)]
pub fn expm1<C: Compute, L: Lane<C>>(x: L) -> L {
    let reduced = reduced(x.at_least(number(x, lowest_expm1::<C>())), 0.0);
    let power = reduced.power();
    reduced.expm1().mul_add(power, power.sub(number(x, 1.0)))
}

/// As [`expm1`], times a factor.
#[inline(always)]
pub fn expm1_times<C: Compute, L: Lane<C>>(x: L, factor: f64) -> L {
    let reduced = reduced(x.at_least(number(x, lowest_expm1::<C>())), 0.0);
    let factor = number(x, factor);
    let (r, power) = (reduced.r, reduced.power().mul(factor));
    let (series, square) = reduced.series();
    let rest = square.mul(series);
    let expm1 = r.add(rest);
    let low = r.sub(expm1).add(rest);
    expm1.mul_add(power, low.mul_add(power, power.sub(factor)))
}

/// `1 / (1 + e^-x)` times a power of two, for `x` that [`lowest`] bounds.
#[inline(always)]
fn scaled_logistic<C: Compute, L: Lane<C>>(x: L) -> L {
    let reduced = reduced(negative(x), -moved_by::<C>());
    let (power, one) = (reduced.power(), number(x, 1.0 / scale::<C>()));
    // One and e^-x are three numbers without a rounding error; their sum has one, which the remainder finds.
    let rest = reduced.expm1().mul(power);
    let inverse = near_inverse(power.add(one).add(rest));
    let minus = negative(inverse);
    let remainder = minus.mul_add(rest, minus.mul_add(one, minus.mul_add(power, number(x, 1.0))));
    remainder.mul_add(inverse, inverse)
}

/// The logistic function `1 / (1 + e^-t)`.
#[inline(always)]
pub fn logistic<C: Compute, L: Lane<C>>(t: L) -> L {
    let x = t.at_least(number(t, lowest::<C>())).at_most(number(t, highest::<C>()));
    scaled_logistic(x).mul(number(t, 1.0 / scale::<C>()))
}

/// `t / (1 + e^-t)`.
#[inline(always)]
pub fn swish<C: Compute, L: Lane<C>>(t: L) -> L {
    let x = t.at_least(number(t, lowest::<C>()));
    let product = scaled_logistic(x).mul(x).mul(number(t, 1.0 / scale::<C>()));
    t.where_greater(number(t, highest::<C>()), t, product)
}

/// The logistic function of `-|t|` and that of `|t|`, which add up to one: what derivatives are made of.
pub struct Logistics<L> {
    /// `e^-|t|`, moved so that it keeps its bits.
    exponential: L,
    /// What of that makes the lesser.
    inverse: L,
    /// The greater of both.
    pub greater: L,
}

/// Both logistic functions.
#[inline(always)]
pub fn logistics<C: Compute, L: Lane<C>>(t: L) -> Logistics<L> {
    let x = negative(t.abs()).at_least(number(t, lowest::<C>()));
    let reduced = reduced(x, moved_by::<C>());
    let (power, one) = (reduced.power(), number(t, scale::<C>()));
    let exponential = reduced.expm1().mul_add(power, power);
    let inverse = inverse(exponential.add(one));
    Logistics { exponential, inverse, greater: inverse.mul(one) }
}

impl<L> Logistics<L> {
    /// The lesser of both.
    #[inline(always)]
    pub fn lesser<C: Compute>(&self) -> L
    where
        L: Lane<C>,
    {
        self.exponential.mul(self.inverse)
    }

    /// The lesser times a number, of which a small product keeps its bits.
    #[inline(always)]
    pub fn lesser_times<C: Compute>(&self, factor: L) -> L
    where
        L: Lane<C>,
    {
        self.exponential.mul(factor).mul(self.inverse)
    }
}

/// `ln(1 + e^t)`.
#[inline(always)]
pub fn softplus<C: Compute, L: Lane<C>>(t: L) -> L {
    let (one, back) = (number(t, 1.0), number(t, 1.0 / scale::<C>()));
    let x = negative(t.abs()).at_least(number(t, lowest::<C>()));
    let reduced = reduced(x, moved_by::<C>());
    let (power, expm1) = (reduced.power(), reduced.expm1());
    let number_of_e = one.add(expm1);
    let lost = expm1.sub(number_of_e.sub(one));
    let unmoved = power.mul(back);
    let e = number_of_e.mul(unmoved);
    // ln(1 + e) is what `e` loses counts for about 1 - e/2, and a series.
    let low = lost.mul(e.mul_add(number(t, -0.5), one));
    let rest = number_of_e.mul(e).mul_add(polynomial(e, e.mul(e), of::<C, _>(LOG32, LOG64)), low);
    let logarithm = number_of_e.add(rest);
    let low = number_of_e.sub(logarithm).add(rest);
    let positive = t.at_least(number(t, 0.0));
    low.mul_add(unmoved, positive).add(logarithm.mul(power).mul(back))
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<C: Compute, L: Lane<C>>(t: L) -> L {
    let one = number(t, 1.0);
    let (size, shifter) = (t.abs(), t.splat(shifter::<C>()));
    let x = number(t, -2.0).mul(size).at_least(number(t, of::<C, _>(-18.5, -40.0)));
    // The least n, -23 or -52, has a power that can be added to one; so little is left there that any digit of it will do.
    let limited = size.at_most(number(t, of::<C, _>(8.1, 18.1)));
    let reduced = reduced_by(x, limited.mul_add(number(t, -2.0 * std::f64::consts::LOG2_E), shifter), shifter);
    // (1 - e) / (1 + e) of e^x, which is the sum of two numbers without a rounding error.
    let power = reduced.power();
    let rest = reduced.expm1().mul(power);
    let (less, more) = (one.sub(power), one.add(power));
    let divisor = more.add(rest);
    let inverse = near_inverse_up_to_two(divisor);
    let quotient = less.sub(rest).mul(inverse);
    let remainder = negative(rest).mul_add(quotient, negative(quotient).mul_add(more, less).sub(rest));
    remainder.mul_add(inverse, quotient).with_sign_of(t)
}

/// The derivative of the hyperbolic tangent: `4 e / (1 + e)²` of `e = e^(-2 |t|)`, which keeps its bits far out.
#[inline(always)]
pub fn tanh_slope<C: Compute, L: Lane<C>>(t: L) -> L {
    let logistics = logistics(t.add(t));
    logistics.lesser_times(logistics.greater.mul(number(t, 4.0)))
}
