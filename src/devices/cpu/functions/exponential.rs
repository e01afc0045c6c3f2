//! The exponential and what is made of it.

use super::{number, of, polynomial, power};
use crate::simd::{Lane, shifter};
use firelu_core::dtype::Compute;

/// `(e^r - 1 - r) / r²` for |r| up to ln 2 / 2.
const EXP32: &[f64] =
    &[0.5, 0.1666666716337204, 0.04166635125875473, 0.00833327230066061, 0.0013941311044618487, 0.00019914597214665264];
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
/// `(atanh(s) / s - 1) / s²`, of s², for s up to 1/3.
const ATANH32: &[f64] = &[0.3333320617675781, 0.2001088708639145, 0.1399877667427063, 0.14016835391521454];
const ATANH64: &[f64] = &[
    0.3333333333333316,
    0.20000000000076873,
    0.1428571427410927,
    0.11111111975103515,
    0.09090872266842104,
    0.07693274115143921,
    0.06650556959515515,
    0.06052530338158536,
    0.04172138318583678,
    0.08505657691024297,
];

/// `x = n ln 2 + r`, and `e^r - 1` with its rounding error.
struct Reduced<L> {
    n: L,
    expm1: L,
    low: L,
}

/// The reduction of an `x` that is not too large for [`shifter`].
#[inline(always)]
fn reduced<C: Compute, L: Lane<C>>(x: L) -> Reduced<L> {
    let shifter = x.splat(shifter::<C>());
    let n = x.mul_add(number(x, std::f64::consts::LOG2_E), shifter).sub(shifter);
    // The upper part has few enough bits for an exact product with n.
    let (upper, lower) =
        of::<C, _>((0.693145751953125, 1.428606765330187e-06), (0.6931471805601177, -1.7239444525614835e-13));
    let r = n.mul_add(number(x, -lower), n.mul_add(number(x, -upper), x));
    let rest = r.mul(r).mul(polynomial(r, of::<C, _>(EXP32, EXP64)));
    let expm1 = r.add(rest);
    Reduced { n, expm1, low: r.sub(expm1).add(rest) }
}

/// `e^x` below this is zero, and so is a thousand times that.
#[inline(always)]
fn lowest<C: Compute>() -> f64 {
    of::<C, _>(-120.0, -760.0)
}

/// A power of two in two factors: the first is a normal number, and the second is one unless the first would not be.
#[inline(always)]
fn powers<C: Compute, L: Lane<C>>(n: L) -> (L, L) {
    let first = n.at_least(number(n, of::<C, _>(-100.0, -1000.0))).at_most(number(n, of::<C, _>(100.0, 1000.0)));
    (power(first), power(n.sub(first)))
}

/// `e^x`.
#[inline(always)]
pub fn exp<C: Compute, L: Lane<C>>(x: L) -> L {
    let x = x.at_least(number(x, lowest::<C>())).at_most(number(x, of::<C, _>(89.5, 710.5)));
    let Reduced { n, expm1, low } = reduced(x);
    let (first, second) = powers(n);
    expm1.add(low).add(number(x, 1.0)).mul(first).mul(second)
}

/// `e^x - 1` for `x` that is not positive, and what its rounding lost.
#[inline(always)]
pub fn expm1<C: Compute, L: Lane<C>>(x: L) -> (L, L) {
    // From here on it is -1.
    let Reduced { n, expm1, low } = reduced(x.at_least(number(x, -80.0)));
    let (power, one) = (power(n), number(x, 1.0));
    let (whole, part) = (power.sub(one), expm1.mul(power));
    let sum = whole.add(part);
    let whole_low = power.sub(whole.add(one));
    (sum, low.mul_add(power, whole.sub(sum).add(part).add(whole_low)))
}

/// The logistic function of `-|t|`, a number times a power of two.
pub struct Logistic<L> {
    /// The number, in a range where it keeps its bits.
    unscaled: L,
    first: L,
    second: L,
}

/// The logistic function `1 / (1 + e^|t|)`: the lesser of those of `t` and of `-t`, which add up to one.
#[inline(always)]
pub fn logistic<C: Compute, L: Lane<C>>(t: L) -> Logistic<L> {
    let one = number(t, 1.0);
    let x = number(t, 0.0).sub(t.abs()).at_least(number(t, lowest::<C>()));
    let Reduced { n, expm1, low } = reduced(x);
    let (first, second) = powers(n);
    let numerator = one.add(expm1);
    let low = expm1.sub(numerator.sub(one)).add(low);
    let small = numerator.mul(first);
    let divisor = one.add(small);
    let divisor_low = small.sub(divisor.sub(one));
    let unscaled = quotient((numerator, low), (divisor, divisor_low), (1.457, -0.5));
    Logistic { unscaled, first, second }
}

impl<L> Logistic<L> {
    /// The function of `-|t|`.
    #[inline(always)]
    pub fn value<C: Compute>(&self) -> L
    where
        L: Lane<C>,
    {
        self.unscaled.mul(self.first).mul(self.second)
    }

    /// The function of `-|t|`, times a number.
    #[inline(always)]
    pub fn times<C: Compute>(&self, factor: L) -> L
    where
        L: Lane<C>,
    {
        self.unscaled.mul(factor).mul(self.first).mul(self.second)
    }
}

/// A quotient of numbers with their rounding errors, rounded once; `line` has about one over the divisor.
#[inline(always)]
fn quotient<C: Compute, L: Lane<C>>(numerator: (L, L), divisor: (L, L), line: (f64, f64)) -> L {
    let (quotient, low) = quotient_with_low(numerator, divisor, line);
    quotient.add(low)
}

/// As [`quotient`], with what the division lost.
#[inline(always)]
fn quotient_with_low<C: Compute, L: Lane<C>>(
    (numerator, numerator_low): (L, L),
    (divisor, divisor_low): (L, L),
    (constant, slope): (f64, f64),
) -> (L, L) {
    let quotient = numerator.div(divisor);
    let negative = number(quotient, 0.0).sub(quotient);
    let remainder = negative.mul_add(divisor_low, negative.mul_add(divisor, numerator)).add(numerator_low);
    let inverse = divisor.mul_add(number(divisor, slope), number(divisor, constant));
    (quotient, remainder.mul(inverse))
}

/// `ln(1 + e^-|t|)`: what softplus adds to the positive part of `t`.
#[inline(always)]
pub fn log1p_exp<C: Compute, L: Lane<C>>(t: L) -> L {
    let (one, two) = (number(t, 1.0), number(t, 2.0));
    let x = number(t, 0.0).sub(t.abs()).at_least(number(t, lowest::<C>()));
    let Reduced { n, expm1, low } = reduced(x);
    let (first, second) = powers(n);
    let numerator = one.add(expm1);
    let low = expm1.sub(numerator.sub(one)).add(low);
    let small = numerator.mul(first);
    let divisor = two.add(small);
    let divisor_low = small.sub(divisor.sub(two));
    // ln(1 + e) = 2 atanh(e / (2 + e)).
    let (s, low) = quotient_with_low((numerator, low), (divisor, divisor_low), (0.8266, -1.0 / 6.0));
    let scaled = s.mul(first);
    let square = scaled.mul(scaled);
    let series = square.mul(polynomial(square, of::<C, _>(ATANH32, ATANH64)));
    let half = s.add(s.mul_add(series, low));
    half.add(half).mul(first).mul(second)
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<C: Compute, L: Lane<C>>(t: L) -> L {
    let zero = number(t, 0.0);
    let (expm1, low) = expm1(number(t, -2.0).mul(t.abs()));
    let (numerator, two) = (zero.sub(expm1), number(t, 2.0));
    let divisor = two.add(expm1);
    let divisor_low = expm1.sub(divisor.sub(two)).add(low);
    quotient((numerator, zero.sub(low)), (divisor, divisor_low), (1.457, -0.5)).with_sign_of(t)
}

/// The derivative of the hyperbolic tangent: `4 e / (1 + e)²` of `e = e^(-2 |t|)`, which keeps its bits far out.
#[inline(always)]
pub fn tanh_slope<C: Compute, L: Lane<C>>(t: L) -> L {
    let logistic = logistic(t.add(t));
    let value = logistic.value();
    logistic.times(number(t, 4.0).mul(number(t, 1.0).sub(value)))
}
