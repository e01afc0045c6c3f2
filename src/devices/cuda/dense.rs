//! Row-major memory for the moment of one call, for kernels that take no other.

use crate::core::device::Stream;
use crate::core::error::Result;
use crate::core::tensor::Parts;
use crate::devices::cuda::context::Context;
use crate::devices::cuda::copy::copy;
use crate::devices::cuda::memory::Memory;

/// A tensor for the moment of one call: the caller's own memory, or a row-major copy of it.
pub struct Dense {
    parts: Parts,
    _memory: Option<Memory>,
}

impl Dense {
    /// Where it is.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }
}

fn scratch(context: &'static Context, like: &Parts, stream: Stream) -> Result<Dense> {
    let memory = Memory::new(context, like.kind.bytes(), stream)?;
    let parts = Parts {
        pointer: memory.address() as *mut u8,
        kind: like.kind.clone(),
        strides: like.shape().row_major_strides(like.dtype()),
        device: like.device,
    };
    Ok(Dense { parts, _memory: Some(memory) })
}

/// The tensor itself where it is row-major, else a copy that is.
pub fn dense(context: &'static Context, parts: &Parts, stream: Stream) -> Result<Dense> {
    if parts.is_row_major() {
        return Ok(Dense { parts: parts.clone(), _memory: None });
    }
    let dense = scratch(context, parts, stream)?;
    copy(context, &dense.parts, parts, stream)?;
    Ok(dense)
}

/// Memory to compute into where the output is not row-major; the caller then copies it there.
pub fn dense_target(context: &'static Context, output: &Parts, stream: Stream) -> Result<Option<Dense>> {
    if output.is_row_major() { Ok(None) } else { scratch(context, output, stream).map(Some) }
}
