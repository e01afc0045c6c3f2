//! The emulator's own interface for tests, usable from C, Rust and Python.
//!
//! Texts are answered as the number of bytes they need without a final zero; what fits the buffer is copied and always
//! ended by a zero byte. A null buffer asks for the size alone, and then nothing is taken.

use super::arguments::Text;
use crate::driver::{Driver, lock, settings::Failure};
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

/// Driver calls so far.
#[unsafe(no_mangle)]
pub extern "C" fn firelu_emulator_calls() -> u64 {
    lock().total_calls()
}

/// Replaces the injected failures by a list such as `cuMemAllocAsync:3,cuLaunchKernel:1:700`, counted from now.
/// An empty text ends them. Answers 0, or 1 if the text is not such a list.
///
/// # Safety
/// `text` is a null-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firelu_emulator_fail(text: Text) -> i32 {
    let Ok(text) = text.read() else { return 1 };
    let failures: Option<Vec<Failure>> =
        text.split(',').filter(|part| !part.is_empty()).map(Failure::parse).collect();
    match failures {
        Some(failures) => {
            let mut driver = lock();
            driver.restart_counting();
            driver.settings.failures = failures;
            0
        }
        None => 1,
    }
}

/// Loses the device at the n-th driver call from now, with the given result code; n of zero brings it back.
#[unsafe(no_mangle)]
pub extern "C" fn firelu_emulator_lose_device(calls: u64, code: i32) {
    let mut driver = lock();
    driver.restart_counting();
    driver.settings.lost = (calls > 0).then_some((calls, crate::driver::code::Code(code)));
}

/// Sets the number and architecture of the devices, the driver version and the memory, and resets. Zero keeps a value.
#[unsafe(no_mangle)]
pub extern "C" fn firelu_emulator_configure(devices: u32, architecture: u32, driver_version: i32, memory: u64) {
    let mut driver = lock();
    let settings = &mut driver.settings;
    let last = settings.architectures.last().copied().unwrap_or(75);
    let architecture = if architecture == 0 { last } else { architecture };
    let count = if devices == 0 { settings.architectures.len() } else { devices as usize };
    settings.architectures = vec![architecture; count];
    if driver_version != 0 {
        settings.driver_version = driver_version;
    }
    if memory != 0 {
        settings.memory = memory;
    }
    driver.reset();
}

/// Registers the report at exit, once.
pub(super) fn watch_exit() {
    extern "C" fn at_exit() {
        let mut driver = lock();
        for label in driver.abandoned() {
            driver.report(Kind::AbandonedWork, || format!("{label} was queued and never waited for"));
        }
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

