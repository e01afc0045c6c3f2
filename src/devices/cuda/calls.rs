//! The driver's functions by the names under which its library has them.
//!
//! A result is a number here. A newer driver answers with codes that no list of today has, and a value that a Rust `enum`
//! lacks, coming from foreign code, would be undefined behaviour; so the binding's own functions, which answer with such
//! an `enum`, are not called.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;

/// A call of the driver that failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed {
    /// The function's name.
    pub call: &'static str,
    /// The driver's code.
    pub code: u32,
}

/// What a call of the driver answers.
pub(crate) type Answer<R> = Result<R, Failed>;

pub(super) const INVALID_VALUE: u32 = 1;
pub(super) const OUT_OF_MEMORY: u32 = 2;
/// What a library for linking alone answers.
pub(super) const STUB: u32 = 34;
/// Also what a function answers that the library lacks.
pub(super) const NOT_FOUND: u32 = 500;
/// Work that is not done yet.
pub(super) const NOT_READY: u32 = 600;
pub(super) const NOT_SUPPORTED: u32 = 801;
/// Something that the capture of a stream does not allow.
pub(super) const CAPTURED: u32 = 900;

/// Attributes of devices and addresses, by the numbers of the driver's interface.
pub(super) const CAPABILITY_MAJOR: i32 = 75;
pub(super) const CAPABILITY_MINOR: i32 = 76;
pub(super) const HAS_POOLS: i32 = 115;
pub(super) const DEVICE_ORDINAL: i32 = 9;
/// An event that orders and takes no times.
pub(super) const WITHOUT_TIMING: u32 = 2;
/// Memory that a pool keeps instead of giving it back to the system when something is waited for.
pub(super) const RELEASE_THRESHOLD: i32 = 4;
/// The mode of a thread in which nothing that it does breaks the capture of a stream.
pub(super) const RELAXED: i32 = 2;

/// What a pool of memory is made of, as the driver's header lays it out.
#[repr(C)]
pub(super) struct PoolProperties {
    /// 1: memory of the device's own.
    pub kind: i32,
    /// 0: for this process alone.
    pub handles: i32,
    /// 1: the place is a device.
    pub place: i32,
    /// Its number.
    pub ordinal: i32,
    pub security: *mut c_void,
    /// 0: as much as there is.
    pub most: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}

const _: () = assert!(size_of::<PoolProperties>() == 88);

/// The address of a function; `None` where the library lacks it.
fn find<F: Copy>(name: &str) -> Option<F> {
    // SAFETY: a driver was found before anything is called, so the library is there; the type is that of the driver's
    // documentation for this name.
    unsafe { sys::culib().get::<F>(name.as_bytes()).ok().map(|function| *function) }
}

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {$(
        /// The driver's function of this name.
        ///
        /// # Safety
        /// What the driver's documentation asks of its caller.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's names and lists")]
        pub(super) unsafe fn $name($($argument: $kind),*) -> Answer<()> {
            type Function = unsafe extern "C" fn($($kind),*) -> u32;
            static FOUND: OnceLock<Option<Function>> = OnceLock::new();
            let code = match FOUND.get_or_init(|| find(stringify!($name))) {
                // SAFETY: the caller's promise.
                Some(function) => unsafe { function($($argument),*) },
                None => NOT_FOUND,
            };
            if code == 0 { Ok(()) } else { Err(Failed { call: stringify!($name), code }) }
        }
    )*};
}

functions! {
    fn cuInit(flags: u32);
    fn cuDriverGetVersion(version: *mut i32);
    fn cuGetErrorName(code: u32, text: *mut *const c_char);
    fn cuGetErrorString(code: u32, text: *mut *const c_char);
    fn cuDeviceGet(device: *mut i32, ordinal: i32);
    fn cuDeviceGetCount(count: *mut i32);
    fn cuDeviceGetName(name: *mut c_char, length: i32, device: i32);
    fn cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32);
    fn cuDevicePrimaryCtxRetain(context: *mut sys::CUcontext, device: i32);
    fn cuCtxGetCurrent(context: *mut sys::CUcontext);
    fn cuCtxSetCurrent(context: sys::CUcontext);
    fn cuCtxSynchronize();
    fn cuModuleLoadData(module: *mut sys::CUmodule, image: *const c_void);
    fn cuModuleUnload(module: sys::CUmodule);
    fn cuModuleGetFunction(function: *mut sys::CUfunction, module: sys::CUmodule, name: *const c_char);
    fn cuLaunchKernel(
        function: sys::CUfunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: sys::CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void,
    );
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize);
    fn cuMemFree_v2(address: u64);
    fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: sys::CUstream);
    fn cuMemFreeAsync(address: u64, stream: sys::CUstream);
    fn cuMemPoolCreate(pool: *mut sys::CUmemoryPool, properties: *const PoolProperties);
    fn cuMemPoolSetAttribute(pool: sys::CUmemoryPool, attribute: i32, value: *mut c_void);
    fn cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: sys::CUmemoryPool, stream: sys::CUstream);
    fn cuMemcpyHtoD_v2(target: u64, source: *const c_void, bytes: usize);
    fn cuMemcpyDtoH_v2(target: *mut c_void, source: u64, bytes: usize);
    fn cuMemsetD16Async(target: u64, value: u16, count: usize, stream: sys::CUstream);
    fn cuMemsetD32Async(target: u64, value: u32, count: usize, stream: sys::CUstream);
    fn cuPointerGetAttribute(value: *mut c_void, attribute: i32, address: u64);
    fn cuStreamSynchronize(stream: sys::CUstream);
    fn cuStreamWaitEvent(stream: sys::CUstream, event: sys::CUevent, flags: u32);
    fn cuStreamIsCapturing(stream: sys::CUstream, status: *mut i32);
    fn cuThreadExchangeStreamCaptureMode(mode: *mut i32);
    fn cuEventCreate(event: *mut sys::CUevent, flags: u32);
    fn cuEventRecord(event: sys::CUevent, stream: sys::CUstream);
    fn cuEventQuery(event: sys::CUevent);
    fn cuCtxRecordEvent(context: sys::CUcontext, event: sys::CUevent);
}
