//! The registers that every processor has.

use std::ops::Range;

use super::kernel_gradient::{self, Job};
use super::phases;
use super::products::{self, Pairs, Part, Products};
use super::registers::Portable;
use super::rows::{Rows, Stores};
use super::scratch::Scratch;
use super::short::Short;
use super::sums::{self, Sums};
use super::tile::{Tile, Worker};
use super::twins::PairedRows;
use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;

// Such rows need shifts of whole registers; these take two passes instead.
impl<C: Compute, T: Element<Compute = C>> Short<T> for Portable<C> {}

impl<C: Compute> Products for Portable<C> {
    unsafe fn add_products(parts: &[Part], pairs: &Pairs<C>) {
        // SAFETY: the caller's promise.
        unsafe { products::add::<Self>(parts, pairs) }
    }
}

impl<C: Compute, S: Element<Compute = C>, D: Element<Compute = C>> Sums<S, D> for Portable<C> {
    unsafe fn write(sources: &[*const S], taps: &[C], target: *mut D, count: usize, rows: Rows, stores: Stores) {
        // SAFETY: the caller's promise.
        unsafe { sums::write::<S, D, Self>(sources, taps, target, count, rows, stores) }
    }
    unsafe fn write_phases<const P: usize>(
        terms: (&[*const S], &[C], &[usize]),
        target: *mut D,
        count: usize,
        rows: Rows,
        stores: Stores,
    ) {
        // SAFETY: the caller's promise.
        unsafe { phases::write::<S, D, Self, P>(terms, target, count, rows, stores) }
    }
    // Too few registers to keep two sums' terms in.
    unsafe fn write_pairs(_rows: &PairedRows<S>, _target: *mut D, _count: usize) -> bool {
        false
    }
}

/// Computes a tile.
///
/// # Safety
/// As [`Worker::run`].
pub unsafe fn tile<T: Element>(worker: &mut Worker<T::Compute>, tile: &Tile<T>, planes: Rows) {
    // SAFETY: the caller's promise; every processor has these registers.
    unsafe { worker.run::<T, Portable<T::Compute>>(tile, planes) }
}

/// Adds product sums for the kernel's gradient.
///
/// # Safety
/// As [`kernel_gradient::product_sums`].
pub unsafe fn product_sums<T: Element>(job: &Job<'_>, tiles: Range<usize>, scratch: &mut Scratch) -> Result<()> {
    // SAFETY: the caller's promise; every processor has these registers.
    unsafe { kernel_gradient::product_sums::<T, Portable<T::Compute>>(job, tiles, scratch) }
}
