//! The one place where kernels are launched.

use crate::core::device::Stream;
use crate::core::error::{Error, Result};
use crate::devices::cuda::calls;
use crate::devices::cuda::context::{Context, handle};
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{Parameters, THREADS};

/// The most blocks a grid has along x.
pub const MAX_BLOCKS: u64 = (1 << 31) - 1;

/// A kernel and how it is started.
pub struct Launch<'a> {
    /// The module that has it.
    pub module: &'a Module,
    /// The entry point.
    pub kernel: &'a str,
    /// Blocks of [`THREADS`] threads; none is no work.
    pub blocks: u64,
    /// Bytes of shared memory beyond what the kernel declares.
    pub shared_bytes: u32,
}

impl Context {
    /// Puts a kernel on a stream. Nothing is waited for.
    ///
    /// # Safety
    /// Every address in `parameters` must be memory of this device, as large as the kernel takes it to be by the other
    /// parameters, that stays allocated until the stream has come past this launch; what the kernel writes nobody else
    /// may use meanwhile unless ordered by the stream.
    pub unsafe fn launch<P: Parameters>(&self, launch: &Launch<'_>, parameters: &P, stream: Stream) -> Result<()> {
        if launch.blocks == 0 {
            return Ok(());
        }
        let Launch { kernel, .. } = launch;
        let refuse = |reason| Err(Error::Device { device: self.device().to_string(), reason });
        if launch.blocks > MAX_BLOCKS {
            return refuse(format!("{kernel}: {} blocks, a grid has at most {MAX_BLOCKS}", launch.blocks));
        }
        let (function, bytes) = self.function(launch.module, kernel)?;
        if bytes != size_of::<P>() {
            return refuse(format!("{kernel} takes {bytes} bytes of parameters, the host has {}", size_of::<P>()));
        }
        let mut parameters = *parameters;
        let mut pointers = [(&raw mut parameters).cast()];
        self.with(&format!("launching {kernel}"), || {
            let (blocks, shared, stream) = (launch.blocks as u32, launch.shared_bytes, handle(stream));
            let (parameters, extra) = (pointers.as_mut_ptr(), std::ptr::null_mut());
            // SAFETY: the function belongs to this context; its parameter is one struct of the size just compared, read
            // by the driver before the call returns; what the struct says is the caller's promise.
            unsafe { calls::cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, shared, stream, parameters, extra) }
        })
    }
}
