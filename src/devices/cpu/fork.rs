//! What `fork` leaves behind. A child has one thread: a lock that another thread of the parent held at that moment
//! stays locked for ever, and what it guards stays half-changed.
//!
//! So locks that are taken while other threads may fork are taken in a [`steady`] section, for which a fork waits: in
//! the child they are open. What is held for longer than a moment is a [`Turn`], which a child takes over.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockWriteGuard};

/// Sections share it, a fork has it alone.
static GATE: RwLock<()> = RwLock::new(());
/// How many forks lie between the first process and this one. Stays below every stamp's 32 bits.
static GENERATION: AtomicU32 = AtomicU32::new(1);
static REGISTERED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The gate, in the thread that forks, from before the fork until after it.
    static CLOSED: Cell<Option<RwLockWriteGuard<'static, ()>>> = const { Cell::new(None) };
    static THREAD: u32 = {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// Runs a section that no fork interrupts. It lasts a moment, takes no second one, never waits for the interpreter
/// and drops nothing that might.
pub fn steady<R>(section: impl FnOnce() -> R) -> R {
    register();
    let _open = GATE.read().unwrap_or_else(PoisonError::into_inner);
    section()
}

/// The value of a cell, made in a [`steady`] section where it is not there yet.
pub fn once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    match cell.get() {
        Some(value) => value,
        None => steady(|| cell.get_or_init(make)),
    }
}

/// Makes forks of this process wait for sections; done once, at the first section.
pub fn register() {
    if REGISTERED.load(Ordering::Relaxed) || REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    #[cfg(unix)]
    // SAFETY: the handlers are functions of this library, which is never unloaded, and touch only its own statics.
    unsafe {
        libc::pthread_atfork(Some(close), Some(open), Some(begin));
    }
}

/// A number that a process shares with no process that it was forked from.
pub fn generation() -> u32 {
    register();
    GENERATION.load(Ordering::Relaxed)
}

#[cfg(unix)]
extern "C" fn close() {
    let closed = GATE.write().unwrap_or_else(PoisonError::into_inner);
    // Where the thread is about to end the gate opens again at once.
    let _ = CLOSED.try_with(|held| held.set(Some(closed)));
}

#[cfg(unix)]
extern "C" fn open() {
    let _ = CLOSED.try_with(Cell::take);
}

#[cfg(unix)]
extern "C" fn begin() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    open();
}

/// Who may go on: one thread at a time, for as long as it likes. Nobody is woken; whoever waits asks again.
#[derive(Default)]
pub struct Turn(AtomicU64);

/// Why a turn is not to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// This very thread has it: waiting would last for ever.
    Mine,
    /// Another thread has it.
    Others,
}

/// A turn that was taken; it ends when this is dropped.
pub struct Taken<'a>(&'a Turn);

impl Turn {
    /// Takes the turn where it is free, or was taken by a thread that a fork has left behind.
    pub fn take(&self) -> Result<Taken<'_>, Busy> {
        let generation = u64::from(generation());
        let mine = generation << 32 | u64::from(THREAD.try_with(|thread| *thread).unwrap_or(0));
        let taken = self
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |holder| (holder >> 32 != generation).then_some(mine));
        match taken {
            Ok(_) => Ok(Taken(self)),
            Err(holder) if holder == mine => Err(Busy::Mine),
            Err(_) => Err(Busy::Others),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_for_one_thread() {
        let turn = Turn::default();
        let taken = turn.take().ok();
        assert!(taken.is_some());
        assert_eq!(turn.take().err(), Some(Busy::Mine));
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(turn.take().err(), Some(Busy::Others)));
        });
        drop(taken);
        assert!(turn.take().is_ok());
    }

    /// Forks while another thread has a turn, and while others run sections without a pause.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_finds_sections_closed_and_turns_free() {
        static VALUE: RwLock<u64> = RwLock::new(0);
        static TURN: Turn = Turn(AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        steady(|| *VALUE.write().unwrap() += 1);
                    }
                });
            }
            let taken = scope.spawn(|| {
                let _taken = TURN.take().ok();
                while !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            });
            while TURN.take().is_ok() {
                std::thread::yield_now();
            }
            for _ in 0..50 {
                // SAFETY: the child calls nothing but atomics, these locks and `_exit`.
                let status = unsafe {
                    match libc::fork() {
                        0 => {
                            libc::alarm(20);
                            let free = TURN.take().is_ok();
                            let open = steady(|| VALUE.try_write().is_ok());
                            libc::_exit(if free && open { 0 } else { 1 });
                        }
                        child => {
                            let mut status = -1;
                            libc::waitpid(child, &mut status, 0);
                            status
                        }
                    }
                };
                assert_eq!(status, 0, "the child of a fork failed, or waited until its alarm");
            }
            stop.store(true, Ordering::Relaxed);
            taken.join().unwrap();
        });
    }
}
