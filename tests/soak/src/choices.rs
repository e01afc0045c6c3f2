//! Where a case's choices come from.

/// A stream of choices: bytes first where there are any, then numbers that follow from a seed.
pub struct Choices<'a> {
    bytes: &'a [u8],
    state: u64,
}

impl<'a> Choices<'a> {
    /// Choices that follow from a seed.
    pub fn from_seed(seed: u64) -> Self {
        Choices { bytes: &[], state: seed }
    }

    /// Choices that a fuzzer makes; what it leaves open follows from what it gave.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        let state = bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Choices { bytes, state }
    }

    /// Any 64 bits (SplitMix64 where no bytes are left).
    pub fn bits(&mut self) -> u64 {
        if let Some((head, rest)) = self.bytes.split_first_chunk::<8>() {
            self.bytes = rest;
            return u64::from_le_bytes(*head);
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; one byte decides where that is enough.
    pub fn below(&mut self, n: usize) -> usize {
        if n <= 256
            && let Some((&head, rest)) = self.bytes.split_first()
        {
            self.bytes = rest;
            return usize::from(head) % n;
        }
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) + 1 == n
    }

    /// One of the items.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A real number from `low` to `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}
