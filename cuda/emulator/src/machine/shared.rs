//! The shared memory of a block and its banks.

use crate::memory::Shadow;
use crate::program::Program;
use std::ops::Range;

/// Banks of four bytes.
const BANKS: usize = 32;

/// Bytes, shadow and the extents of the variables.
pub(super) struct SharedMemory {
    pub bytes: Vec<u8>,
    pub shadow: Shadow,
    variables: Vec<Range<u64>>,
}

impl SharedMemory {
    pub fn new(program: &Program, dynamic: u64) -> Self {
        let variables: Vec<Range<u64>> = program
            .shared
            .iter()
            .map(|variable| variable.start..variable.start + variable.size.unwrap_or(dynamic))
            .collect();
        let end = variables.iter().map(|range| range.end).max().unwrap_or(0);
        let bytes = end.next_multiple_of(16) as usize;
        Self { bytes: vec![0xff; bytes], shadow: Shadow::new(bytes), variables }
    }

    /// Readies the memory for another block.
    pub fn clear(&mut self) {
        self.shadow.clear();
    }

    /// Whether a range lies inside one variable.
    #[inline]
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        self.variables.iter().any(|range| range.start <= address && end <= range.end)
    }
}

/// Passes over the banks that an access of all lanes takes, the fewest it could take, and the most of any part.
/// Wide accesses are served for half or a quarter of the warp at a time.
pub(super) fn waves(addresses: &[(usize, u64)], bytes: usize) -> (u64, u64, u64) {
    let lanes_per_group = (128 / bytes.max(4)).min(32);
    let (mut waves, mut ideal, mut worst) = (0, 0, 0);
    let mut rest = addresses;
    while let Some(&(first, _)) = rest.first() {
        let group = first / lanes_per_group;
        let count = rest.iter().take_while(|(lane, _)| lane / lanes_per_group == group).count();
        let words = || rest[..count].iter().flat_map(|&(_, at)| at / 4..(at + bytes as u64).div_ceil(4));
        let passes = if meets_in_a_bank(words()) { busiest_bank(words()) } else { 1 };
        (waves, ideal, worst) = (waves + passes, ideal + 1, worst.max(passes));
        rest = &rest[count..];
    }
    (waves, ideal, worst)
}

/// Whether two different words share a bank.
fn meets_in_a_bank(words: impl Iterator<Item = u64>) -> bool {
    let mut taken = [u64::MAX; BANKS];
    for word in words {
        let bank = &mut taken[word as usize % BANKS];
        if *bank != u64::MAX && *bank != word {
            return true;
        }
        *bank = word;
    }
    false
}

/// The most different words in one bank.
fn busiest_bank(words: impl Iterator<Item = u64>) -> u64 {
    let mut banks = vec![Vec::new(); BANKS];
    for word in words {
        let bank = &mut banks[word as usize % BANKS];
        if !bank.contains(&word) {
            bank.push(word);
        }
    }
    banks.iter().map(Vec::len).max().unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::waves;

    fn strided(stride: u64, bytes: usize) -> (u64, u64, u64) {
        let addresses: Vec<(usize, u64)> = (0..32).map(|lane| (lane, lane as u64 * stride)).collect();
        waves(&addresses, bytes)
    }

    #[test]
    fn neighbours_take_one_pass_and_a_column_takes_thirty_two() {
        assert_eq!(strided(4, 4), (1, 1, 1));
        assert_eq!(strided(8, 4), (2, 1, 2));
        assert_eq!(strided(128, 4), (32, 1, 32));
        assert_eq!(strided(132, 4), (1, 1, 1));
        assert_eq!(strided(0, 4), (1, 1, 1));
        assert_eq!(strided(2, 2), (1, 1, 1));
    }

    #[test]
    fn wide_accesses_are_served_in_parts() {
        assert_eq!(strided(8, 8), (2, 2, 1));
        assert_eq!(strided(16, 16), (4, 4, 1));
        assert_eq!(strided(32, 16), (8, 4, 2));
    }
}
