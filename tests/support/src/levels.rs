//! Every instruction-set level that this processor has.

use std::sync::{Mutex, MutexGuard, PoisonError};

use firelu::devices::cpu::features::Level;

static TURN: Mutex<()> = Mutex::new(());

/// The levels, each of which is the process's until the next is asked for; see [`every_level`].
pub struct EveryLevel {
    before: Level,
    left: std::slice::Iter<'static, Level>,
    _turn: MutexGuard<'static, ()>,
}

/// Goes through the levels and makes each the process's, for one test at a time: the level is the process's. Afterwards
/// it is what it was.
pub fn every_level() -> EveryLevel {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    EveryLevel { before: Level::current(), left: Level::available().iter(), _turn: turn }
}

impl Iterator for EveryLevel {
    type Item = Level;

    fn next(&mut self) -> Option<Level> {
        let &level = self.left.next()?;
        Level::set_current(level).expect("the level is available");
        Some(level)
    }
}

impl Drop for EveryLevel {
    fn drop(&mut self) {
        Level::set_current(self.before).expect("the level was set before");
    }
}
