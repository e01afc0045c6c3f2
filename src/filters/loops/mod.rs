//! All the arithmetic: loops over rows, written once over [`Register`](register::Register) and compiled once for each
//! instruction-set level and element type.
//!
//! **Comes in**: pointers to rows, taps, counts and strides. **Comes out**: rows. Who calls finds the loops in a table,
//! [`Loops`], of function pointers, which [`levels`](crate::levels) fills; no driver names a register.
//!
//! # What holds for every loop of the table
//!
//! Whoever calls one promises, and [`filter`](crate::filter) and [`kernel_gradient`](crate::kernel_gradient) keep it:
//! 1. **Level**: the table is that of a level which was detected on this processor.
//! 2. **Sources**: every source row is readable for as many elements as the loop is told to write, from the first term's
//!    place to the last's; one register further where stores are non-temporal, two for interleaved phases.
//! 3. **Target**: as many elements are writable, in every row, and no one else writes to them.
//! 4. **Apart**: the target overlaps no source.
//!
//! Below, `SAFETY: the caller's promise` means these four. Terms are added in their order, whatever the place of an
//! output in a register, a strip or a task, so the same sums have the same bits on every path of one level.

pub mod memory_access;
pub mod phases;
pub mod products;
pub mod rate;
pub mod register;
pub mod running;
pub mod short;
pub mod split;
pub mod sum;
pub mod two_rows;

use firelu_core::dtype::Element;
use memory_access::{Prefetch, Rows, Stores};
use products::{Pairs, Part};
use running::RunningSums;
use short::rows::ShortLoops;
use split::Columns;
use two_rows::PairedRows;

/// Sources and taps of all phases, and where each phase ends among them.
pub type PhaseTerms<'a, C> = (&'a [*const C], &'a [C], &'a [usize]);

/// `target[q] = Σ_k tap_k · source_k[q]` for some rows: [`sum::write`].
pub type SumLoop<S, D> = unsafe fn(&[*const S], &[<S as Element>::Compute], *mut D, usize, Rows, Stores);
/// Sums of several phases that take turns in the target: [`phases::write`].
pub type PhasesLoop<D> = unsafe fn(PhaseTerms<'_, <D as Element>::Compute>, *mut D, usize, Rows, Stores);
/// Sums of two rows at a time: [`two_rows::write`].
pub type PairsLoop<S> = unsafe fn(&PairedRows<S>, *mut <S as Element>::Compute, usize);
/// Sums along y that run down so many columns: [`running::write`].
pub type RunningLoop<C> = unsafe fn(&RunningSums<'_, C>, usize);
/// Columns deinterleaved into rows: [`split::columns`].
pub type SplitLoop<S> = unsafe fn(&Columns, *const S, *mut <S as Element>::Compute, Rows, Option<Prefetch>);
/// Outputs deinterleaved into phases: [`split::phases`].
pub type SplitPhasesLoop<S> = unsafe fn((usize, usize), *const S, *mut <S as Element>::Compute, Rows, Option<Prefetch>);
/// Products of inputs with outputs: [`products::add`].
pub type ProductsLoop<C> = unsafe fn(&[Part], &Pairs<C>);

/// Loops that read elements of type `S` into rows of compute numbers.
pub struct Reading<S: Element> {
    /// A sum of rows.
    pub sum: SumLoop<S, S::Compute>,
    /// Columns deinterleaved.
    pub split: SplitLoop<S>,
}

/// Loops that write rows of elements of type `D` from rows of compute numbers.
pub struct Writing<D: Element> {
    /// A sum of rows.
    pub sum: SumLoop<D::Compute, D>,
    /// Two, three and four interleaved phases.
    pub phases: [PhasesLoop<D>; 3],
}

/// The loops of one instruction-set level for element type `T`. A filter reads rows (`input`), may pass them on through
/// rows of compute numbers that stay in the caches (`between_out`, then `between_in`), and writes rows (`output`);
/// another loop may work on the rows between.
pub struct Loops<T: Element> {
    /// How many compute numbers a register holds.
    pub lanes: usize,
    /// Whether the level has non-temporal stores.
    pub non_temporal: bool,
    /// From the input's elements.
    pub input: Reading<T>,
    /// Two rows at a time from the input's elements.
    pub input_pairs: Option<PairsLoop<T>>,
    /// Sums that run down the columns of rows between two filters, of which one or two end with each step.
    pub running: Option<[RunningLoop<T::Compute>; 2]>,
    /// From rows between two filters.
    pub between_in: Reading<T::Compute>,
    /// To rows between two filters.
    pub between_out: Writing<T::Compute>,
    /// To the output's elements.
    pub output: Writing<T>,
    /// Kernels of three or four taps, whole filters in registers.
    pub short: ShortLoops<T>,
    /// For the kernel's gradient: outputs deinterleaved.
    pub split_phases: SplitPhasesLoop<T>,
    /// For the kernel's gradient: products of inputs with outputs.
    pub products: ProductsLoop<T::Compute>,
    /// So many multiply-adds in each of some registers, and nothing else: [`rate::run`].
    pub multiply_adds: unsafe fn(usize),
    /// Prefetches the lines of some memory.
    pub prefetch_lines: fn(*const u8, usize),
}
