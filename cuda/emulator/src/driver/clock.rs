//! Happens-before between the operations of streams and the host.

use std::collections::BTreeMap;

/// Identity of a stream; never used again after its end.
pub type StreamId = usize;

/// For each stream, the number of its last operation that is known to come before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VectorClock(BTreeMap<StreamId, u64>);

impl VectorClock {
    /// Takes over everything another clock knows.
    pub fn join(&mut self, other: &Self) {
        for (&stream, &number) in &other.0 {
            self.raise(stream, number);
        }
    }

    /// Learns of one operation and, with it, of all before it in the same stream.
    pub fn raise(&mut self, stream: StreamId, number: u64) {
        let known = self.0.entry(stream).or_default();
        *known = number.max(*known);
    }

    /// Whether an operation comes before.
    pub fn covers(&self, stream: StreamId, number: u64) -> bool {
        self.0.get(&stream).is_some_and(|&known| known >= number)
    }

    /// Every stream and its last known operation.
    pub fn entries(&self) -> impl Iterator<Item = (StreamId, u64)> {
        self.0.iter().map(|(&stream, &number)| (stream, number))
    }
}
