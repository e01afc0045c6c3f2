//! How a thread rounds and what it makes of subnormals: a control word of the processor's, each thread's own.
//! Helpers take over the caller's, so that results have the same bits whichever thread computes them.

/// The control word that floating-point arithmetic obeys: MXCSR on x86-64, FPCR on arm64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatMode(u64);

impl FloatMode {
    /// This thread's.
    #[inline]
    pub fn current() -> Self {
        FloatMode(read())
    }

    /// Runs `body` in this mode; the thread's own comes back afterwards, also where `body` panics.
    pub fn during<R>(self, body: impl FnOnce() -> R) -> R {
        struct Restore(FloatMode);
        impl Drop for Restore {
            fn drop(&mut self) {
                write(self.0.0);
            }
        }
        let own = FloatMode::current();
        if own == self {
            return body();
        }
        write(self.0);
        let _restore = Restore(own);
        body()
    }
}

/// MXCSR's lower six bits record what happened; the others say what to do.
#[cfg(target_arch = "x86_64")]
const CONTROL: u32 = !0x3f;

#[cfg(target_arch = "x86_64")]
#[inline]
fn read() -> u64 {
    let mut word = 0u32;
    // SAFETY: SSE is part of x86-64; the instruction writes these four bytes.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    u64::from(word & CONTROL)
}

#[cfg(target_arch = "x86_64")]
fn write(word: u64) {
    let word = word as u32;
    // SAFETY: the word was read from a thread's MXCSR, so that no reserved bit is set. As the arithmetic around it
    // reads and writes memory, which this may touch for all the compiler knows, none of it moves across.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn read() -> u64 {
    let word: u64;
    // SAFETY: every program may read this register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "aarch64")]
fn write(word: u64) {
    // SAFETY: the word was read from a thread's FPCR. As on x86-64 no arithmetic on memory moves across.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read() -> u64 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn write(_: u64) {}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Rounding upwards: MXCSR has the mode in bits 13 and 14, FPCR in bits 22 and 23.
    #[cfg(target_arch = "x86_64")]
    const UPWARD: u64 = 2 << 13;
    #[cfg(target_arch = "aarch64")]
    const UPWARD: u64 = 1 << 22;

    #[test]
    fn a_mode_holds_inside_and_the_own_one_comes_back() {
        let own = FloatMode::current();
        // Arithmetic on no memory could be moved out of the mode.
        let sum = || black_box(black_box(1.0f32) + black_box(f32::EPSILON / 4.0));
        assert_eq!(sum(), 1.0);
        let upward = FloatMode(own.0 | UPWARD).during(|| {
            assert_eq!(FloatMode::current().0, own.0 | UPWARD);
            sum()
        });
        assert_eq!(upward, 1.0 + f32::EPSILON);
        let panicked = std::panic::catch_unwind(|| FloatMode(own.0 | UPWARD).during(|| panic!("as a test")));
        assert!(panicked.is_err());
        assert_eq!((FloatMode::current(), sum()), (own, 1.0));
    }

    #[test]
    fn helpers_round_as_their_caller_does() {
        use crate::parallel::{for_each, with_threads};
        let own = FloatMode::current();
        let seen = std::sync::Mutex::new(Vec::new());
        let upward = FloatMode(own.0 | UPWARD);
        let task = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            seen.lock().unwrap().push((std::thread::current().id(), FloatMode::current()));
        };
        upward.during(|| with_threads(3, || for_each(64, usize::MAX, task))).unwrap();
        let seen = seen.into_inner().unwrap();
        assert!(seen.iter().any(|(thread, _)| *thread != std::thread::current().id()), "no helper had a task");
        assert!(seen.iter().all(|(_, mode)| *mode == upward));
        let after = std::sync::Mutex::new(Vec::new());
        let task = |_| after.lock().unwrap().push(FloatMode::current());
        with_threads(3, || for_each(64, usize::MAX, task)).unwrap();
        assert!(after.into_inner().unwrap().iter().all(|mode| *mode == own));
    }
}
