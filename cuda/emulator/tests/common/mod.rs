//! What the integration tests share: the emulator opened in front of cudarc, its control interface, one test at a time.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod broken;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DriverError, sys::CUresult};
use cudarc::nvrtc::Ptx;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    // Reports are read through the control interface; nothing else may appear in the output of the tests.
    // SAFETY: the first test to come here holds the lock below, and no other thread reads the environment.
    unsafe { std::env::set_var("FIRELU_EMULATOR_REPORT", "none") };
    // SAFETY: the emulator runs no code when it is loaded.
    unsafe { Library::open(Some(library_path()), RTLD_NOW | RTLD_GLOBAL) }
        .expect("the emulator is built with the tests")
});

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The shared library that cargo built beside the tests.
pub fn library_path() -> PathBuf {
    let executable = std::env::current_exe().expect("tests have a path");
    let folder = executable.parent().expect("tests live in a folder");
    [folder.join("libcuda_emulator.so"), folder.join("../libcuda_emulator.so")]
        .into_iter()
        .find(|path| path.exists())
        .expect("libcuda_emulator.so stands beside the tests")
}

/// The emulator, fresh, for one test.
pub struct Emulator {
    _turn: MutexGuard<'static, ()>,
}

impl Emulator {
    /// Waits for the other tests and starts from nothing: one device sm_75, driver 12.9, 8 GiB.
    pub fn fresh() -> Self {
        Self::with(&[])
    }

    /// As [`Emulator::fresh`] with some settings changed.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let emulator = Self { _turn: turn };
        let defaults = [
            ("DEVICES", "1"),
            ("ARCH", "75"),
            ("DRIVER_VERSION", "12090"),
            ("MEMORY", "8G"),
            ("FAIL", ""),
            ("LOST_AT", ""),
            ("PAGEABLE", "deferred"),
            ("POOLS", "1"),
            ("STRICT", "1"),
            ("WATCHDOG", "100000000"),
            ("WORKERS", "2"),
        ];
        for (name, value) in defaults.iter().chain(settings) {
            emulator.set(name, value);
        }
        // SAFETY: the symbol has this signature in the emulator's control interface.
        unsafe { symbol::<unsafe extern "C" fn()>("firelu_emulator_reset")() };
        emulator
    }

    /// Changes a setting.
    pub fn set(&self, name: &str, value: &str) {
        assert!(self.try_set(name, value), "{name}={value} is a setting");
    }

    /// Changes a setting, or answers false.
    pub fn try_set(&self, name: &str, value: &str) -> bool {
        let [name, value] = [name, value].map(|text| CString::new(text).expect("no zero byte"));
        // SAFETY: the symbol has this signature, and the strings live for the call.
        unsafe {
            let set = symbol::<unsafe extern "C" fn(*const c_char, *const c_char) -> i32>("firelu_emulator_set");
            set(name.as_ptr(), value.as_ptr()) == 0
        }
    }

    /// Takes the reports as lines.
    pub fn reports(&self) -> Vec<String> {
        text("firelu_emulator_reports").lines().map(str::to_string).collect()
    }

    /// What is held now, as lines.
    pub fn leaks(&self) -> Vec<String> {
        text("firelu_emulator_leaks").lines().map(str::to_string).collect()
    }

    /// The counters of all launches as JSON.
    pub fn counters(&self) -> String {
        text("firelu_emulator_counters")
    }

    /// Driver calls so far.
    pub fn calls(&self) -> u64 {
        // SAFETY: the symbol has this signature.
        unsafe { symbol::<unsafe extern "C" fn() -> u64>("firelu_emulator_calls")() }
    }
}

fn symbol<T: Copy>(name: &str) -> T {
    // SAFETY: callers name a symbol of the control interface with its own signature.
    *unsafe { LIBRARY.get::<T>(name.as_bytes()) }.expect("the control interface is complete")
}

fn text(name: &str) -> String {
    let read = symbol::<unsafe extern "C" fn(*mut u8, usize) -> usize>(name);
    // SAFETY: a null buffer asks for the size; the second call gives a buffer of that size and one byte more.
    unsafe {
        let size = read(std::ptr::null_mut(), 0);
        let mut buffer = vec![0; size + 1];
        read(buffer.as_mut_ptr(), buffer.len());
        buffer.truncate(size);
        String::from_utf8(buffer).expect("texts are UTF-8")
    }
}

/// A context, its default stream and a kernel.
pub struct Kernel {
    /// The context.
    pub context: Arc<CudaContext>,
    /// The legacy default stream.
    pub stream: Arc<CudaStream>,
    /// The kernel.
    pub function: CudaFunction,
}

impl Kernel {
    /// Loads a kernel from PTX text.
    pub fn load(ptx: &str, name: &str) -> Self {
        let context = CudaContext::new(0).expect("a device");
        let stream = context.default_stream();
        let module = context.load_module(Ptx::from_src(ptx)).expect("the module loads");
        let function = module.load_function(name).expect("the kernel exists");
        Self { context, stream, function }
    }
}

/// The code of a failed call.
pub fn code<T>(result: Result<T, DriverError>) -> CUresult {
    match result {
        Ok(_) => CUresult::CUDA_SUCCESS,
        Err(DriverError(code)) => code,
    }
}
