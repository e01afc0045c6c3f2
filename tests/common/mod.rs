//! A CUDA device for the tests: the emulated driver unless `FIRELU_TEST_GPU=1` asks for a real one.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod operands;

use std::ffi::{CString, c_char, c_void};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The handle of the emulator; null on a real GPU.
static LIBRARY: LazyLock<usize> = LazyLock::new(|| {
    if std::env::var("FIRELU_TEST_GPU").is_ok_and(|value| value == "1") {
        return 0;
    }
    let executable = std::env::current_exe().expect("tests have a path");
    let folder = executable.parent().expect("tests live in a folder");
    let places: [PathBuf; 3] = [
        folder.join("libcuda_emulator.so"),
        folder.join("../libcuda_emulator.so"),
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/emulator/libcuda.so"),
    ];
    let found = places.iter().find(|place| place.exists());
    let found = found.expect("the emulated driver is built by `cargo test --workspace` or `make emulator`");
    let path = CString::new(found.to_str().expect("a path of plain text")).expect("no zero byte");
    // SAFETY: the emulator runs no code when it is loaded. Its SONAME makes it the library that cudarc finds.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!handle.is_null(), "{} cannot be loaded", found.display());
    handle as usize
});

/// A device, for one test at a time.
pub struct Cuda {
    _turn: MutexGuard<'static, ()>,
}

impl Cuda {
    /// Waits for the other tests.
    pub fn take() -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let cuda = Cuda { _turn: turn };
        cuda.reports();
        cuda
    }

    /// What the emulator has found since the last time; nothing on a real GPU.
    pub fn reports(&self) -> String {
        self.text("firelu_emulator_reports").unwrap_or_default()
    }

    /// The counters of every launch since they were cleared, as JSON.
    pub fn counters(&self) -> String {
        self.text("firelu_emulator_counters").unwrap_or_default()
    }

    /// Forgets the counters.
    pub fn clear_counters(&self) {
        let Some(symbol) = self.symbol("firelu_emulator_clear_counters") else { return };
        // SAFETY: the control interface declares this signature.
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(symbol)() };
    }

    /// Gives a loaded kernel the instructions that a PTX text has for it. False if the text is refused.
    pub fn replace(&self, kernel: &str, text: &str) -> bool {
        let symbol = self.symbol("firelu_emulator_replace").expect("kernels are replaced on the emulator alone");
        let [kernel, text] = [kernel, text].map(|text| CString::new(text).expect("no zero byte"));
        // SAFETY: the control interface declares this signature, and the texts live for the call.
        unsafe {
            let replace =
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char, *const c_char) -> i32>(symbol);
            replace(kernel.as_ptr(), text.as_ptr()) == 0
        }
    }

    /// Ends a failure that would otherwise end the context, and forgets its reports.
    pub fn recover(&self) {
        let symbol = self.symbol("firelu_emulator_recover").expect("no GPU recovers");
        // SAFETY: the control interface declares this signature.
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(symbol)() };
        self.reports();
    }

    /// Changes a setting of the emulator.
    pub fn set(&self, name: &str, value: &str) {
        let Some(symbol) = self.symbol("firelu_emulator_set") else { return };
        let [name, value] = [name, value].map(|text| CString::new(text).expect("no zero byte"));
        // SAFETY: the control interface declares this signature, and the texts live for the call.
        let status = unsafe {
            let set =
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char, *const c_char) -> i32>(symbol);
            set(name.as_ptr(), value.as_ptr())
        };
        assert_eq!(status, 0, "the emulator has this setting");
    }

    /// Whether this is a real GPU.
    pub fn is_real(&self) -> bool {
        *LIBRARY == 0
    }

    fn symbol(&self, name: &str) -> Option<*mut c_void> {
        if *LIBRARY == 0 {
            return None;
        }
        let symbol = CString::new(name).expect("no zero byte");
        // SAFETY: the handle is the emulator's and is never closed.
        let found = unsafe { libc::dlsym(*LIBRARY as *mut c_void, symbol.as_ptr()) };
        assert!(!found.is_null(), "the emulator has {name}");
        Some(found)
    }

    fn text(&self, name: &str) -> Option<String> {
        let symbol = self.symbol(name)?;
        // SAFETY: the control interface declares this signature; a null buffer asks for the size.
        unsafe {
            let read = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut u8, usize) -> usize>(symbol);
            let mut buffer = vec![0; read(std::ptr::null_mut(), 0) + 1];
            let size = read(buffer.as_mut_ptr(), buffer.len());
            buffer.truncate(size);
            Some(String::from_utf8(buffer).expect("texts are UTF-8"))
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.reports(), "", "the emulator has found nothing");
        }
    }
}
