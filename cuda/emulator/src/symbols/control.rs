//! The emulator's own interface for tests, usable from C, Rust and Python.
//!
//! Texts are answered as the number of bytes they need without a final zero; what fits the buffer is copied and always
//! ended by a zero byte. A null buffer asks for the size alone, and then nothing is taken.

use super::arguments::Text;
use crate::driver::{Driver, lock, try_lock};
use crate::report::Kind;
use std::sync::Once;

fn answer(text: &str, buffer: *mut u8, size: usize) -> usize {
    if !buffer.is_null() && size > 0 {
        let bytes = text.len().min(size - 1);
        // SAFETY: the caller gives a buffer of `size` bytes; `bytes + 1` is at most that.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, bytes);
            buffer.add(bytes).write(0);
        }
    }
    text.len()
}

fn lines(driver: &mut Driver, take: bool) -> String {
    driver.publish();
    let reports = if take { driver.take_reports() } else { driver.reports().to_vec() };
    reports.iter().map(|report| format!("{report}\n")).collect()
}

/// The reports since they were last taken, one per line; takes them unless the buffer is null.
///
/// # Safety
/// `buffer` is null or valid for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firelu_emulator_reports(buffer: *mut u8, size: usize) -> usize {
    answer(&lines(&mut lock(), !buffer.is_null()), buffer, size)
}

/// The counters of every launch since they were last cleared, as a JSON list.
///
/// # Safety
/// `buffer` is null or valid for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firelu_emulator_counters(buffer: *mut u8, size: usize) -> usize {
    answer(&lock().counters(), buffer, size)
}

/// Forgets the counters.
#[unsafe(no_mangle)]
pub extern "C" fn firelu_emulator_clear_counters() {
    lock().clear_counters();
}

/// What is held now, one line each.
///
/// # Safety
/// `buffer` is null or valid for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firelu_emulator_leaks(buffer: *mut u8, size: usize) -> usize {
    answer(&lock().leaks().iter().map(|leak| format!("{leak}\n")).collect::<String>(), buffer, size)
}

/// Forgets contexts, memory, streams, reports and counts; handles of before become invalid. Settings stay.
#[unsafe(no_mangle)]
pub extern "C" fn firelu_emulator_reset() {
    lock().reset();
}

/// Lets contexts that failed work again, which no GPU does: for tests of many faults in one process.
#[unsafe(no_mangle)]
pub extern "C" fn firelu_emulator_recover() {
    lock().recover();
}

/// Gives a loaded kernel other instructions: those of the kernel of that name in a PTX text. Answers 0, or 1 and a
/// report if there is no such kernel or the text is refused.
///
/// # Safety
/// Both texts are null-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firelu_emulator_replace(kernel: Text, text: Text) -> i32 {
    let (Ok(kernel), Ok(text)) = (kernel.read(), text.read()) else { return 1 };
    let mut driver = lock();
    match driver.replace_kernel(&kernel, &text) {
        Ok(()) => 0,
        Err(error) => {
            driver.report(Kind::RefusedModule, || error);
            driver.publish();
            1
        }
    }
}

/// Driver calls so far by function, a name and a number on each line; the line `held` counts those calls that wait for
/// the device, or compile, while the calling thread holds Python's interpreter.
///
/// # Safety
/// `buffer` is null or valid for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firelu_emulator_call_counts(buffer: *mut u8, size: usize) -> usize {
    answer(&lock().call_counts(), buffer, size)
}

/// Driver calls so far.
#[unsafe(no_mangle)]
pub extern "C" fn firelu_emulator_calls() -> u64 {
    lock().total_calls()
}

/// Changes a setting by its name without the prefix, such as `FAIL` to `cuMemAllocAsync:3`. `DEVICES`, `ARCH` and
/// `MEMORY` take effect at the next reset; `FAIL` and `LOST_AT` count calls from now, and an empty value ends them.
/// Answers 0, or 1 and a report if the name or the value is not understood.
///
/// # Safety
/// Both texts are null-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firelu_emulator_set(name: Text, value: Text) -> i32 {
    let (Ok(name), Ok(value)) = (name.read(), value.read()) else { return 1 };
    let mut driver = lock();
    match driver.set(&name, &value) {
        Ok(()) => 0,
        Err(error) => {
            driver.report(Kind::InvalidSetting, || error);
            driver.publish();
            1
        }
    }
}

/// Registers the report at exit, once.
pub(super) fn watch_exit() {
    extern "C" fn at_exit() {
        let Some(mut driver) = try_lock() else { return };
        driver.report_abandoned(None);
        if driver.settings.leaks {
            for leak in driver.leaks() {
                driver.report(Kind::Leak, || leak);
            }
        }
        driver.publish();
        if let Some(path) = driver.settings.counters.clone()
            && let Err(error) = std::fs::write(&path, driver.counters())
        {
            eprintln!("firelu emulator: cannot write {path}: {error}");
        }
    }
    static ONCE: Once = Once::new();
    // SAFETY: `at_exit` is a plain function of this library that takes nothing and does not unwind out.
    ONCE.call_once(|| unsafe {
        libc::atexit(at_exit);
    });
}
