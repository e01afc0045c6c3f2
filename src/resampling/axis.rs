//! One axis: which inputs an output is summed from, and with which taps.

use std::ops::Range;

use firelu_core::dtype::Compute;
use firelu_core::error::{Error, Result};
use firelu_filters::border::Border;

/// A filter along an axis: output `j` is the sum of input `i` times the tap at place `i · up − j · down`.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Places for each input.
    pub up: usize,
    /// Places from an output to the next.
    pub down: usize,
    /// The place of the first tap.
    pub first: isize,
    /// The taps, one for each place.
    pub taps: Vec<f64>,
    /// Which input is the first that there is.
    pub origin: isize,
    /// The first output that is computed.
    pub start: isize,
}

/// The filter that gives back what it gets.
impl Default for Filter {
    fn default() -> Self {
        Filter { up: 1, down: 1, first: 0, taps: vec![1.0], origin: 0, start: 0 }
    }
}

/// The taps of the outputs at one place of the period.
#[derive(Debug, Clone, Copy)]
struct Phase {
    start: usize,
    count: usize,
}

/// A filter with its taps in the order in which they are summed.
pub struct Axis<C> {
    /// After how many outputs the taps repeat.
    pub up: usize,
    /// How many inputs these are apart.
    pub down: usize,
    first: isize,
    start: isize,
    origin: isize,
    phases: Vec<Phase>,
    taps: Vec<C>,
}

impl<C: Compute> Axis<C> {
    /// Orders the taps of a filter by phases. Refuses what would overflow.
    pub fn new(filter: &Filter, inputs: usize, outputs: usize) -> Result<Self> {
        let Filter { up, down, first, ref taps, origin, start } = *filter;
        let small = |value: isize| value.unsigned_abs() < 1 << 40;
        let fits = (1..1 << 31).contains(&up) && (1..1 << 31).contains(&down) && !taps.is_empty();
        let placed = small(first) && small(origin) && small(start) && small(inputs as isize) && small(outputs as isize);
        let reach = (start.unsigned_abs().saturating_add(outputs)).saturating_mul(down.max(up));
        if !(fits && placed && taps.len() < 1 << 40 && reach < 1 << 60) {
            let got = format!("up={up}, down={down}, {} taps, {inputs} inputs", taps.len());
            return Err(Error::argument("resample", "factor", got, "numbers below 2^31, and lengths that fit memory"));
        }
        let mut axis = Axis { up, down, first, start, origin, phases: Vec::new(), taps: Vec::new() };
        for number in 0..up {
            let place = -((start + number as isize) * down as isize + first);
            let start = axis.taps.len();
            let phase = taps.iter().skip(place.rem_euclid(up as isize) as usize).step_by(up);
            axis.taps.extend(phase.map(|&tap| C::from_f64(tap)));
            axis.phases.push(Phase { start, count: axis.taps.len() - start });
        }
        Ok(axis)
    }

    /// The taps of an output, counted from the first that is computed.
    #[inline]
    pub fn taps(&self, output: usize) -> &[C] {
        let Phase { start, count } = self.phases[output % self.up];
        &self.taps[start..start + count]
    }

    /// Which input the first tap of an output belongs to, counted from the first that there is.
    #[inline]
    pub fn input(&self, output: usize) -> isize {
        let place = (self.start + output as isize) * self.down as isize + self.first;
        place.div_euclid(self.up as isize) + isize::from(place.rem_euclid(self.up as isize) != 0) - self.origin
    }

    /// Whether outputs are the sums of two inputs each, and no input is part of two.
    pub fn is_pairs(&self) -> bool {
        (self.up, self.down, self.taps.len()) == (1, 2, 2)
    }

    /// Whether every output is an input as it is, and no input is left out.
    pub fn is_repeated(&self) -> bool {
        let one = C::from_f64(1.0);
        self.down == 1 && self.phases.iter().all(|phase| phase.count == 1) && self.taps.iter().all(|&tap| tap == one)
    }

    /// How many outputs from the first on are summed from the same inputs.
    pub fn first_repeats(&self) -> usize {
        (1..self.up).find(|&output| self.input(output) != self.input(0)).unwrap_or(self.up)
    }

    /// The most taps of an output.
    pub fn most_taps(&self) -> usize {
        self.phases.iter().map(|phase| phase.count).max().unwrap_or(0)
    }

    /// The inputs of some outputs, at least one.
    pub fn inputs(&self, outputs: Range<usize>) -> Range<isize> {
        let first = self.input(outputs.start);
        // Phases may have a tap more or less than their neighbours.
        let end = outputs.rev().take(self.up).map(|output| self.input(output) + self.taps(output).len() as isize).max();
        first..end.unwrap_or(first)
    }

    /// Up to which output all inputs are there, where those before `end` are.
    pub fn complete(&self, end: isize) -> usize {
        let place = (end - self.most_taps() as isize + self.origin) * self.up as isize - self.first;
        (place.div_euclid(self.down as isize) - self.start + 1).max(0) as usize
    }
}

/// Where inputs inside and outside an axis are found, for a range of places.
pub fn sources(border: Border, places: Range<isize>, length: usize) -> Vec<Option<usize>> {
    places.map(|place| border.source(place, length)).collect()
}
