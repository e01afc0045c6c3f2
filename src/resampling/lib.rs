//! Pictures made larger or smaller: a filter along columns and a filter along rows in one pass, from and to the types that
//! pictures are stored in.
//!
//! A band of as many output rows as a register holds numbers is in work at a time. Its columns are summed from the input's
//! rows ([`loops::sum_rows`]), turned on their side, so that a register holds one column, summed again along the rows
//! ([`loops::sum_columns`]), turned back, rounded and stored. Nothing but a few kilobytes of a band is ever widened to
//! floats, and any factor, any number of colours and any period of the taps take the same loops.
//!
//! | file | holds |
//! |---|---|
//! | [`axis`] | which inputs and taps an output has |
//! | [`samples`] | the types of samples: how registers load and store them |
//! | [`loops`] | the arithmetic |
//! | [`job`] | a call: what its bands share, and which loops serve it |
//! | [`band`] | one band: rows in, columns through, rows out |
//! | [`halves`] | half the size by means, which needs no turning |
//! | [`repeats`] | samples repeated as they are |
//! | [`levels`] | bands, compiled for each instruction-set level |

pub mod axis;
mod band;
mod columns;
mod halves;
mod job;
mod levels;
mod loops;
mod repeats;
mod samples;

use std::ops::Range;

use firelu_core::error::Result;
use firelu_cpu::parallel;
use firelu_filters::border::Border;

use axis::{Axis, Filter};
use job::Job;
pub use levels::Pair;
pub use samples::{Sample, Single};

/// Arrays of planes: some outer axes, rows, columns of `channels` samples next to each other.
#[derive(Debug, Clone)]
pub struct Request {
    /// The lengths of the outer axes.
    pub outer: Vec<usize>,
    /// Rows of the input and of the output.
    pub rows: [usize; 2],
    /// Columns of the input and of the output.
    pub columns: [usize; 2],
    /// Samples of a column, which lie next to each other, as columns do.
    pub channels: usize,
    /// Samples from one plane to the next along each outer axis, then from one row to the next, of the input.
    pub source_strides: Vec<isize>,
    /// As `source_strides`, of the output.
    pub target_strides: Vec<isize>,
    /// The filter along columns.
    pub vertical: Filter,
    /// The filter along rows.
    pub horizontal: Option<Filter>,
    /// What lies beyond the ends of both.
    pub border: Border,
}

/// Resamples.
///
/// # Safety
/// The source can be read, and the target written, at every place that the request names; they do not overlap.
pub unsafe fn run<S, D>(request: &Request, source: *const S, target: *mut D) -> Result<()>
where
    S: Pair<D>,
    D: Sample<Number = S::Number>,
{
    let planes: usize = request.outer.iter().product();
    if planes * request.rows[1] * request.columns[1] * request.channels == 0 {
        return Ok(());
    }
    let vertical = Axis::new(&request.vertical, request.rows[0], request.rows[1])?;
    let horizontal = match &request.horizontal {
        Some(filter) => Some(Axis::new(filter, request.columns[0], request.columns[1])?),
        None => None,
    };
    let job = Job::new(request, vertical, horizontal, source, target);
    let level = firelu_cpu::features::Level::current();
    let lanes = S::lanes(level);
    let row_bytes = request.channels
        * (request.columns[1] * size_of::<D>()
            + request.columns[0] * size_of::<S>() * request.rows[0] / request.rows[1]);
    let bands = request.rows[1].div_ceil(lanes);
    let at_once = (parallel::TASK_BYTES / (row_bytes * lanes).max(1)).clamp(1, bands);
    let tasks = bands.div_ceil(at_once);
    let bytes = row_bytes.saturating_mul(request.rows[1]).saturating_mul(planes);
    parallel::try_for_each(planes * tasks, bytes, |task| {
        let rows: Range<usize> =
            task % tasks * at_once * lanes..((task % tasks + 1) * at_once * lanes).min(request.rows[1]);
        // SAFETY: the level is the current one, which was detected; the rest is the caller's promise. Tasks write to rows
        // of their own.
        unsafe { S::run(level, &job, task / tasks, rows) }
    })
}
