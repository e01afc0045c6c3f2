//! Several registers as one: each step of a formula is done for all of them before the next one. Steps of a long chain
//! wait for each other, and a processor looks ahead over no more than a few hundred instructions; so those that need not
//! wait stand side by side.

use super::{Lane, Row};
use firelu_core::dtype::Compute;

/// So many that the longest formulas are not kept waiting; more would not stay in registers.
const COUNT: usize = 4;

/// Registers that compute the same.
#[derive(Clone, Copy)]
pub struct Together<R>([R; COUNT]);

/// One register, or several as one.
pub trait Registers<R> {
    /// One of them.
    fn register(&self, place: usize) -> R;
}

impl<R: Copy> Registers<R> for Together<R> {
    #[inline(always)]
    fn register(&self, place: usize) -> R {
        self.0[place]
    }
}

impl<R: Copy> Registers<R> for R {
    #[inline(always)]
    fn register(&self, _place: usize) -> R {
        *self
    }
}

/// The methods of [`Together`] that are those of each register. No closures: they would not have the caller's
/// instruction set.
macro_rules! each {
    ($($method:ident($($operand:ident),*)),+) => {
        $(
            #[inline(always)]
            fn $method(self, $($operand: Self),*) -> Self {
                Together([
                    self.0[0].$method($($operand.0[0]),*),
                    self.0[1].$method($($operand.0[1]),*),
                    self.0[2].$method($($operand.0[2]),*),
                    self.0[3].$method($($operand.0[3]),*),
                ])
            }
        )+
    };
}

impl<C: Compute, R: Lane<C>> Lane<C> for Together<R> {
    each!(
        add(other),
        sub(other),
        mul(other),
        mul_add(factor, term),
        at_most(limit),
        at_least(limit),
        abs(),
        with_sign_of(sign),
        where_positive(then, otherwise),
        where_greater(than, then, otherwise),
        where_odd(then, otherwise),
        power_of_two(),
        about_inverse()
    );
    #[inline(always)]
    fn splat(self, value: C) -> Self {
        Together([self.0[0].splat(value); COUNT])
    }
    #[inline(always)]
    fn any_greater(self, than: Self) -> bool {
        let [a, b, c, d] = self.0;
        let [of_a, of_b, of_c, of_d] = than.0;
        a.any_greater(of_a) | b.any_greater(of_b) | c.any_greater(of_c) | d.any_greater(of_d)
    }
    #[inline(always)]
    fn each(self, function: impl Fn(C) -> C) -> Self {
        let [a, b, c, d] = self.0;
        Together([a.each(&function), b.each(&function), c.each(&function), d.each(&function)])
    }
}

impl<C: Compute, R: Row<C>> Row<C> for Together<R> {
    const LANES: usize = COUNT * R::LANES;
    #[inline(always)]
    unsafe fn load(source: *const C) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Together([
                R::load(source),
                R::load(source.add(R::LANES)),
                R::load(source.add(2 * R::LANES)),
                R::load(source.add(3 * R::LANES)),
            ])
        }
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut C) {
        let [a, b, c, d] = self.0;
        // SAFETY: the caller's promise.
        unsafe {
            a.store(target);
            b.store(target.add(R::LANES));
            c.store(target.add(2 * R::LANES));
            d.store(target.add(3 * R::LANES));
        }
    }
    #[inline(always)]
    unsafe fn stream(self, target: *mut C) {
        let [a, b, c, d] = self.0;
        // SAFETY: the caller's promise.
        unsafe {
            a.stream(target);
            b.stream(target.add(R::LANES));
            c.stream(target.add(2 * R::LANES));
            d.stream(target.add(3 * R::LANES));
        }
    }
}
