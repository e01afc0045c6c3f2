//! sin² and sin of twice an angle. sin² has the period π and the same values mirrored: the angle is reduced by π/2, and
//! only whether the quotient is odd counts.

// NaN is no large angle, and an infinity or NaN less itself is NaN.
#![allow(clippy::neg_cmp_op_on_partial_ord, clippy::eq_op)]

use super::{negative, number, of, polynomial};
use crate::simd::{Fused, Lane, shifter};
use firelu_core::dtype::Compute;

/// `(sin²(r) - r²) / r⁴`, of r², for |r| up to π/4.
const SQUARE32: &[f64] = &[-0.333333283662796, 0.04444370046257973, -0.003171108663082123, 0.00013456963642966002];
const SQUARE64: &[f64] = &[
    -0.3333333333333333,
    0.044444444444444224,
    -0.0031746031745992433,
    0.00014109347439329224,
    -4.275559673027051e-06,
    9.396791326202063e-08,
    -1.5654452723712954e-09,
    1.9875557678436042e-11,
];
/// `(sin(2r) / 2r - 1) / r²`, of r², for |r| up to π/4.
const DOUBLE32: &[f64] =
    &[-0.6666666865348816, 0.13333360850811005, -0.012699577957391739, 0.0007072442094795406, -2.610584670037497e-05];
const DOUBLE64: &[f64] = &[
    -0.6666666666666666,
    0.13333333333333333,
    -0.012698412698412574,
    0.0007054673721327209,
    -2.5653358978828403e-05,
    6.577784071360672e-07,
    -1.2529049625172906e-08,
    1.8416613079998028e-10,
    -2.0910224660382343e-12,
];
/// π/2 in three numbers.
const HALF_PI32: [f64; 3] = [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15];
const HALF_PI64: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33];

/// The bits of 2/π behind the point.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// Up to here three parts of π/2 reduce an angle to all its bits; beyond, its product with 2/π is computed exactly.
#[inline(always)]
fn largest<C: Compute>() -> f64 {
    of::<C, _>(131_072.0, 1_073_741_824.0)
}

/// An angle, of which sines are wanted.
pub struct Angle<L> {
    sine_squared: L,
    sine_of_double: L,
}

impl<L: Copy> Angle<L> {
    /// sin² of the angle.
    #[inline(always)]
    pub fn sine_squared(&self) -> L {
        self.sine_squared
    }

    /// The sine of twice the angle.
    #[inline(always)]
    pub fn sine_of_double(&self) -> L {
        self.sine_of_double
    }

    /// The cosine of twice the angle.
    #[inline(always)]
    pub fn cosine_of_double<C: Compute>(&self) -> L
    where
        L: Lane<C>,
    {
        self.sine_squared.mul_add(number(self.sine_squared, -2.0), number(self.sine_squared, 1.0))
    }
}

/// The sines of an angle; the compiler leaves out those that nobody asks for.
#[inline(always)]
pub fn angle<C: Compute, L: Lane<C>>(z: L) -> Angle<L> {
    if z.abs().any_greater(number(z, largest::<C>())) {
        // Registers with a large angle are rare: theirs are computed one by one.
        let sine_squared = z.each(|z| any_size(z).sine_squared.0);
        return Angle { sine_squared, sine_of_double: z.each(|z| any_size(z).sine_of_double.0) };
    }
    small(z)
}

/// One angle of any size.
#[cold]
#[inline(never)]
fn any_size<C: Compute>(z: C) -> Angle<Fused<C>> {
    if !(z.magnitude() > C::from_f64(largest::<C>())) {
        return small(Fused(z));
    }
    if z - z != C::default() {
        return Angle { sine_squared: Fused(z - z), sine_of_double: Fused(z - z) };
    }
    let (r, low, is_odd) = large(z);
    let [even, odd] = of_reduced(Fused(r), Fused(low));
    if is_odd { odd } else { even }
}

#[inline(always)]
fn small<C: Compute, L: Lane<C>>(z: L) -> Angle<L> {
    let shifter = z.splat(shifter::<C>());
    let moved = z.mul_add(number(z, std::f64::consts::FRAC_2_PI), shifter);
    let n = moved.sub(shifter);
    let [first, second, third] = of::<C, _>(HALF_PI32, HALF_PI64).map(|part| number(z, -part));
    // Exact: both are multiples of the same power of two, and the difference is small. What is taken off it next may be
    // nearly all of it, so that what that rounds off is kept.
    let upper = n.mul_add(first, z);
    let product = n.mul(second);
    let product_low = n.mul_add(second, negative(product));
    let r = upper.add(product);
    let of_product = r.sub(upper);
    let lost = upper.sub(r.sub(of_product)).add(product.sub(of_product));
    let low = lost.add(n.mul_add(third, product_low));
    let [even, odd] = of_reduced(r, low);
    Angle {
        sine_squared: moved.where_odd(odd.sine_squared, even.sine_squared),
        sine_of_double: moved.where_odd(odd.sine_of_double, even.sine_of_double),
    }
}

/// The sines of a reduced angle with its rounding error, for an even quotient and for an odd one.
#[inline(always)]
fn of_reduced<C: Compute, L: Lane<C>>(r: L, low: L) -> [Angle<L>; 2] {
    let one = number(r, 1.0);
    let (square, double) = (r.mul(r), r.add(r));
    let fourth = square.mul(square);
    // What the square rounds off and what r rounds off count as the derivative by the square has it, which is about 1 - 2/3
    // of the square. The latter is known last, and is added last.
    let derivative = square.mul_add(number(r, -2.0 / 3.0), one);
    let square_low = r.mul_add(r, negative(square)).mul(derivative);
    let known = fourth.mul_add(polynomial(square, fourth, of::<C, _>(SQUARE32, SQUARE64)), square_low);
    // Next to a zero of the sine of a large angle, what was rounded off is no small part of r.
    let rest = double.mul(derivative).mul_add(low, low.mul_add(low, known));
    let (sine_squared, cosine_squared) = (square.add(rest), one.sub(square).sub(rest));
    // The cosine of 2r is about 1 - 2 r².
    let sine_low = square.mul_add(number(r, -4.0), number(r, 2.0)).mul(low);
    let cube = double.mul(square);
    let (first, others) = of::<C, _>(DOUBLE32, DOUBLE64).split_first().expect("there are coefficients");
    let known = cube.mul(square).mul_add(polynomial(square, fourth, others), sine_low);
    let sine = double.add(cube.mul_add(number(r, *first), known));
    let even = Angle { sine_squared, sine_of_double: sine };
    [even, Angle { sine_squared: cosine_squared, sine_of_double: negative(sine) }]
}

/// A large finite angle less the nearest multiple of π/2, with the rounding error, and whether that multiple is odd.
fn large<C: Compute>(z: C) -> (C, C, bool) {
    let (integer, exponent) = z.integer_and_exponent();
    // Half of 2/π times the power of two, without what gives whole numbers: 192 bits from this place on.
    let from = exponent - 1;
    let word = |index: i32| usize::try_from(index).ok().and_then(|index| TWO_OVER_PI.get(index)).copied().unwrap_or(0);
    let bits = |place: i32| {
        let (index, shift) = (place.div_euclid(64), place.rem_euclid(64));
        let pair = (u128::from(word(index)) << 64) | u128::from(word(index + 1));
        (pair >> (64 - shift)) as u64
    };
    let multiply = |word: u64, carry: u64| u128::from(word) * u128::from(integer) + u128::from(carry);
    let lowest = multiply(bits(from + 128), 0);
    let middle = multiply(bits(from + 64), (lowest >> 64) as u64);
    let upper = multiply(bits(from), (middle >> 64) as u64);
    // The fraction of half the quotient; its first bit says whether the quotient is odd, the others are its fraction.
    let half = (u128::from(upper as u64) << 64) | u128::from(middle as u64);
    let fraction = (half << 1) | u128::from(lowest as u64 >> 63);
    let is_beyond = fraction >> 127 == 1;
    let is_odd = (half >> 127 == 1) != is_beyond;
    let magnitude = if is_beyond { fraction.wrapping_neg() } else { fraction };
    let zeros = magnitude.leading_zeros();
    let normal = magnitude.checked_shl(zeros).unwrap_or(0);
    let scale = f64::from_bits(u64::from(1023 - 53 - zeros) << 52);
    let first = (normal >> 75) as f64 * scale;
    let second = ((normal >> 22) as u64 & ((1 << 53) - 1)) as f64 * (scale / (1u64 << 53) as f64);
    let [upper, lower, _] = HALF_PI64;
    let product = first * upper;
    let product_low = first.mul_add(upper, -product) + (first * lower + second * upper);
    let r = product + product_low;
    let low = product_low - (r - product);
    let sign = if is_beyond != (z < C::default()) { -1.0 } else { 1.0 };
    let rounded = C::from_f64(sign * r);
    (rounded, C::from_f64((sign * r - rounded.to_f64()) + sign * low), is_odd)
}
