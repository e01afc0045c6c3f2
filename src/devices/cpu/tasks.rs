//! The list of tasks that the threads of one call share: a counter and a sign to stop.

use super::sync::{AtomicBool, AtomicUsize, Ordering};

/// Tasks `0 .. count`, each handed out once.
pub struct Tasks {
    count: usize,
    next: AtomicUsize,
    stopped: AtomicBool,
}

impl Tasks {
    /// A list of which nothing is handed out yet.
    pub fn new(count: usize) -> Self {
        Tasks { count, next: AtomicUsize::new(0), stopped: AtomicBool::new(false) }
    }

    /// A task that nobody else has, or `None` where none is left or the work was stopped. Whoever joins
    /// the threads sees what they wrote: the counter itself orders nothing.
    pub fn claim(&self) -> Option<usize> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < self.count).then_some(index)
    }

    /// Whether this is the last task of the list.
    pub fn is_last(&self, index: usize) -> bool {
        index + 1 == self.count
    }

    /// Lets no thread start a further task.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
