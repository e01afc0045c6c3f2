//! Four phases from two, for registers that can mix two.

/// The numbers of two registers in turn, and back.
pub trait Zip: Copy {
    /// The first number of each, then the second of each, and so on.
    fn zip(self, other: Self) -> (Self, Self);
    /// The inverse of `zip`: the numbers at even places, and those at odd ones.
    fn unzip(self, other: Self) -> (Self, Self);

    /// The numbers of four registers in turn.
    #[inline(always)]
    fn zip_four([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        let (even, odd) = (a.zip(c), b.zip(d));
        let (first, second) = (even.0.zip(odd.0), even.1.zip(odd.1));
        [first.0, first.1, second.0, second.1]
    }

    /// The inverse of `zip_four`.
    #[inline(always)]
    fn unzip_four([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        let (first, second) = (a.unzip(b), c.unzip(d));
        let (even, odd) = (first.0.unzip(second.0), first.1.unzip(second.1));
        [even.0, odd.0, even.1, odd.1]
    }
}
