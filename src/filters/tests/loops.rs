//! Every loop of every level through the table, against plain sums.

use firelu_cpu::features::Level;
use firelu_filters::levels::FilterElement;
use firelu_filters::loops::Loops;
use firelu_filters::loops::memory_access::{Prefetch, Rows, Stores};
use firelu_filters::loops::split::Columns;
use firelu_filters::loops::two_rows::PairedRows;

/// The float32 table of each level that was detected.
fn tables() -> impl Iterator<Item = &'static Loops<f32>> {
    Level::available().iter().map(|&level| f32::loops(level))
}

/// Every length and every alignment, non-temporal or not: the same values, nothing beyond them.
unsafe fn check_sums(loops: &Loops<f32>) {
    let rows: Vec<Vec<f32>> = (0..7).map(|k| (0..200).map(|q| (k * 1000 + q) as f32).collect()).collect();
    let taps = [1.0, -2.0, 0.5, 4.0, 1.0, 3.0, -1.0];
    for (terms, count, shift) in (0..=7).flat_map(|t| (0..70).map(move |c| (t, c, (t * 5 + c * 3) % 17))) {
        let sources: Vec<*const f32> = rows[..terms].iter().map(|row| row.as_ptr()).collect();
        let expected = |q: usize| (0..terms).map(|k| taps[k] * rows[k][q]).sum::<f32>();
        let prefetch = Prefetch { first: 64, ..Prefetch::NONE };
        for stores in [Stores::Cached, Stores::CachedPrefetchingSources(prefetch), Stores::NonTemporal] {
            let mut target = [f32::NAN; 120];
            // SAFETY: the caller's promise; rows and the target are long enough.
            unsafe {
                (loops.input.sum)(&sources, &taps[..terms], target[shift..].as_mut_ptr(), count, Rows::ONE, stores)
            };
            assert!((0..count).all(|q| target[shift + q] == expected(q)), "{terms} terms, {count} values");
            assert!(target[..shift].iter().chain(&target[shift + count..]).all(|value| value.is_nan()));
        }
    }
}

#[test]
fn sums_of_every_length_and_alignment() {
    // SAFETY: each register is used where its level was detected.
    tables().for_each(|loops| unsafe { check_sums(loops) });
}

unsafe fn check_phases(loops: &Loops<f32>) {
    let rows: Vec<Vec<f32>> = (0..7).map(|k| (0..200).map(|q| (k * 1000 + q) as f32).collect()).collect();
    let taps = [1.0, -2.0, 0.5, 4.0, 1.0, 3.0, -1.0];
    for count in 0..100 {
        let sources: Vec<*const f32> = rows.iter().map(|row| row.as_ptr()).collect();
        let bounds = [2, 4, 7];
        let mut target = [f32::NAN; 120];
        // SAFETY: as above.
        unsafe {
            (loops.output.phases[1])((&sources, &taps, &bounds), target.as_mut_ptr(), count, Rows::ONE, Stores::Cached)
        };
        for (at, value) in target[..count].iter().enumerate() {
            let (p, q) = (at % 3, at / 3);
            let range = [0..2, 2..4, 4..7][p].clone();
            assert_eq!(*value, range.map(|k| taps[k] * rows[k][q]).sum::<f32>());
        }
        assert!(target[count..].iter().all(|value| value.is_nan()));
    }
}

#[test]
fn phases_of_every_length() {
    // SAFETY: each register is used where its level was detected.
    tables().for_each(|loops| unsafe { check_phases(loops) });
}

/// Every compiled pair and every length, split or not: the same values as by single rows, nothing beyond them.
unsafe fn check_pairs(loops: &Loops<f32>) {
    let inputs: Vec<Vec<f32>> = (0..20).map(|k| (0..120).map(|q| (k * 7 + q * 3) as f32).collect()).collect();
    let mut compiled = 0;
    for (terms, shift, sets, split) in
        [(6, 0, 2, false), (6, 1, 2, false), (12, 2, 1, true), (7, 1, 1, false), (5, 3, 2, false), (3, 1, 1, false)]
    {
        for (count, moved) in (0..90_usize).map(|count| (count, count % 3)) {
            let mut rows = PairedRows {
                moved: (moved * size_of::<f32>()) as isize,
                shift,
                places: if split { [2, 101] } else { [2, 3] },
                second: 300 * size_of::<f32>() as isize,
                rows: Rows { count: 2, source: 4 * size_of::<f32>() as isize, target: 600 * size_of::<f32>() as isize },
                ..PairedRows::default()
            };
            rows.sources.extend(inputs[..terms + shift].iter().map(|input| input.as_ptr()));
            rows.taps.extend((0..terms * sets).map(|k| (k % 5) as f32 - 1.0));
            let mut target = vec![f32::NAN; 1200];
            let Some(write) = loops.input_pairs.filter(|_| rows.choose(count, loops.lanes).is_some()) else { continue };
            // SAFETY: sources and target are long enough for two pairs of such rows.
            unsafe { write(&rows, target.as_mut_ptr(), count) };
            compiled += 1;
            for (row, values) in target.chunks(300).enumerate() {
                let (first, taps) = (row % 2 * shift, &rows.taps[row % 2 * (sets - 1) * terms..][..terms]);
                let column = moved + row / 2 * 4;
                let sum = |q: usize| (0..terms).map(|k| taps[k] * inputs[first + k][column + q]).sum::<f32>();
                let place = |q: usize| if split { rows.places[q % 2] + q / 2 } else { rows.places[0] + q };
                (0..count).for_each(|q| assert_eq!(values[place(q)], sum(q), "{terms} {shift} {count} {row} {q}"));
                assert_eq!(values.iter().filter(|value| !value.is_nan()).count(), count);
            }
        }
    }
    assert_eq!(compiled > 200, loops.input_pairs.is_some());
}

#[test]
fn pairs_of_every_length() {
    // SAFETY: each register is used where its level was detected.
    tables().for_each(|loops| unsafe { check_pairs(loops) });
}

#[test]
fn columns_and_phases_are_split_as_indices_say() {
    let source: Vec<f32> = (0..300).map(|value| value as f32).collect();
    for (step, start, length) in (2..6).flat_map(|s| (0..7).flat_map(move |f| (1..150).map(move |n| (s, f, n)))) {
        let (pitch, end) = (160 / step + 8, start + length);
        for loops in tables() {
            let (mut split, mut phases) = (vec![f32::NAN; 600], vec![f32::NAN; 600]);
            let columns = Columns { step, pitch, start, end };
            // SAFETY: the level was detected, and all arrays are long enough.
            unsafe {
                (loops.input.split)(&columns, source.as_ptr(), split.as_mut_ptr(), Rows::ONE, None);
                if length >= step {
                    (loops.split_phases)((step, length), source.as_ptr(), phases.as_mut_ptr(), Rows::ONE, None);
                }
            }
            for column in start..end {
                assert_eq!(split[column % step * pitch + column / step], source[column - start]);
            }
            assert_eq!(split.iter().filter(|value| !value.is_nan()).count(), length);
            let in_turn = (0..step).flat_map(|phase| (phase..length).step_by(step)).map(|at| source[at]);
            if length >= step {
                assert!(phases.iter().copied().take(length).eq(in_turn));
                assert!(phases[length..].iter().all(|value| value.is_nan()));
            }
        }
    }
}
