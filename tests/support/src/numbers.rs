//! One generator of numbers for every test.

/// Numbers that look random (xorshift64): the same for one seed, everywhere.
pub struct Numbers(u64);

impl Numbers {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Any 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A whole number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_bits() >> 33) as usize % n
    }

    /// From 0 to below 1.
    pub fn next_unit(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Between -1 and 1, one in sixteen exactly zero.
    pub fn next_number(&mut self) -> f64 {
        let bits = self.next_bits();
        if bits & 0xf == 0 { 0.0 } else { (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0 }
    }

    /// From -2 to below 2, one in sixteen a zero, of either sign.
    pub fn next_signed_zero_or_number(&mut self) -> f64 {
        let bits = self.next_bits();
        match bits >> 59 {
            0 => 0.0,
            1 => -0.0,
            _ => ((bits >> 20) % (1 << 24)) as f64 / (1 << 22) as f64 - 2.0,
        }
    }

    /// From -2 to 2 in steps of 1/64: so few digits that every element type holds them.
    pub fn next_of_few_digits(&mut self) -> f64 {
        ((self.next_bits() >> 40) % 257) as f64 / 64.0 - 2.0
    }

    /// From 0.2 to 1, of either sign: away from zero, where leaky ReLU has its corner.
    pub fn next_away_from_zero(&mut self) -> f64 {
        let size = 0.2 + 0.8 * self.next_unit();
        if self.next_unit() < 0.5 { -size } else { size }
    }

    /// A whole number from -3 to 3, but zero.
    pub fn next_whole(&mut self) -> f64 {
        [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0][self.below(6)]
    }

    /// So many numbers, each by the same method.
    pub fn list(&mut self, count: usize, next: impl Fn(&mut Self) -> f64) -> Vec<f64> {
        (0..count).map(|_| next(self)).collect()
    }
}
