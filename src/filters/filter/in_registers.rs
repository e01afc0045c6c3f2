//! Tiles of short kernels, whose sums never leave the registers: the loops of [`short`](crate::loops::short) are handed
//! one row group after the other.

use smallvec::SmallVec;
use std::ops::Range;

use super::worker::{AT_ONCE_ELEMENTS, Tile, Worker};
use crate::loops::memory_access::{Prefetch, Rows, Stores};
use crate::loops::short::rows::{Form, ShortRows};
use crate::plan::path::{Path, terms};
use crate::plan::row_groups::{ZEROS, group_of_all, rows_inside};
use firelu_core::dtype::Element;

impl<T: Element> Worker<T> {
    /// Some rows of the strip, summed from these sources in so many phases, from this place on.
    fn short_rows<'s>(
        &self,
        (sources, phases): (&'s [*const T], usize),
        (target, rows, planes): (*mut T, Rows, Rows),
        prefetch: Option<Prefetch>,
    ) -> ShortRows<'s, T> {
        ShortRows {
            start: self.strip.start(),
            inside: self.strip.inside_length(),
            pixel: self.plan.pixel,
            sources,
            phases,
            target,
            count: self.strip.columns.len(),
            rows,
            planes,
            zeros: self.prepared as *const T,
            prefetch,
            non_temporal: self.plan.non_temporal,
        }
    }

    /// A tile of a separable kernel, of several planes at once.
    ///
    /// # Safety
    /// As [`Worker::run`].
    pub(super) unsafe fn in_registers(&mut self, form: Form, tile: &Tile<T>, planes: Rows) {
        let Some(write) = Path::separable_loop(&self.plan, form, self.loops) else { return };
        let width = self.strip.columns.len();
        let prefetch = self.plan.prefetch.then(|| self.prefetch(tile, self.plan.geometry.y.down as usize));
        // Planes of the same size have the same groups.
        if !self.groups.fit(&tile.at) {
            let y = &self.plan.geometry.y;
            // Rows whose phases take turns pass through the cache once.
            let in_turn = y.up == 1 || y.taps == y.up * terms(form) as i64;
            let at_once = if in_turn { tile.at.rows.len() } else { (AT_ONCE_ELEMENTS / width).max(1) };
            self.groups.refill(y, &self.taps, &tile.at, at_once, terms(form));
        }
        let first = tile.source.wrapping_add(self.strip.inside.start as usize * self.plan.pixel);
        // Filled by index: extending takes longer than summing a short row does.
        let mut sources: SmallVec<[*const T; 16]> = SmallVec::new();
        sources.resize(self.groups.most_terms(), std::ptr::null());
        for group in &self.groups.list {
            let target = tile.target.wrapping_byte_offset(group.target);
            // SAFETY: the promise of `run`.
            unsafe {
                if group.terms.is_empty() {
                    for plane in 0..planes.count as isize {
                        let target = target.wrapping_byte_offset(plane * planes.target);
                        let count = width * self.plan.pixel;
                        (self.loops.output.sum)(&[], &[], target, count, group.rows, Stores::Cached);
                    }
                    continue;
                }
                for (source, &at) in sources.iter_mut().zip(&self.groups.offsets[group.terms.clone()]) {
                    *source = if at == ZEROS { self.prepared as *const T } else { first.wrapping_byte_offset(at) };
                }
                let (terms, place) = ((&sources[..group.terms.len()], group.phases), (target, group.rows, planes));
                let taps = [&self.groups.taps[group.terms.clone()], &self.terms.taps[..]];
                write(&self.short_rows(terms, place, prefetch), taps);
            }
        }
    }

    /// Of a kernel that is not separable, all rows inside the picture: those at the border have fewer terms. Returns
    /// which rows were written.
    ///
    /// # Safety
    /// As [`Worker::run`].
    pub(super) unsafe fn direct_in_registers(&self, tile: &Tile<T>) -> Range<usize> {
        let y = &self.plan.geometry.y;
        let (Path::DirectInRegisters, Some(write)) = (self.path, self.loops.short.direct) else { return 0..0 };
        let Some(group) = group_of_all(y, &tile.at.rows) else { return 0..0 };
        let (inputs, _) = rows_inside(y, group.support);
        let sources: SmallVec<[*const T; 16]> = inputs.map(|input| self.source(tile, input)).collect();
        let prefetch = self.plan.prefetch.then(|| self.prefetch(tile, group.inputs));
        let source = group.inputs as isize * tile.at.source_row;
        let rows = Rows { count: group.count, source, target: tile.at.target_row };
        let place = (self.target(tile, group.first), rows, Rows::ONE);
        // SAFETY: the promise of `run`.
        unsafe { write(&self.short_rows((&sources, 1), place, prefetch), &self.taps.full) };
        group.first..group.first + group.count
    }
}
