//! DLPack's layouts, and what a description in them says.

use std::ffi::{CStr, c_void};

use super::device;
use crate::core::device::Device;
use crate::core::dtype::DType;
use crate::core::error::Error;
use crate::core::shape::{Shape, Strides};
use crate::core::tensor::TensorType;

/// How the protocol writes a device's default stream, which firelu uses.
pub const LEGACY_STREAM: i64 = 1;
pub const CPU: i32 = 1;
pub const CUDA: i32 = 2;
pub const FLOAT: u8 = 2;
pub const BFLOAT: u8 = 4;
pub const READ_ONLY: u64 = 1;
pub const IS_COPIED: u64 = 2;
/// The newest version of the protocol that is spoken here; another major version is another layout.
pub const VERSION: (u32, u32) = (1, 0);

/// The most dimensions that numpy knows: a larger number is rubbish, and its shape would not be there to read.
const MOST_DIMENSIONS: usize = 64;

pub const PLAIN: &CStr = c"dltensor";
pub const PLAIN_USED: &CStr = c"used_dltensor";
pub const VERSIONED: &CStr = c"dltensor_versioned";
pub const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// The layouts below are those of `dlpack.h`.
#[repr(C)]
pub struct DLTensor {
    pub data: *mut c_void,
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

impl DLTensor {
    /// Whether it is in memory that kernels can use, of the CPU or of a CUDA device, and has some.
    pub fn has_memory(&self) -> bool {
        (self.device_type == CPU || self.device_type == CUDA) && !self.data.is_null()
    }
}

#[repr(C)]
pub struct Managed {
    pub tensor: DLTensor,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
pub struct ManagedVersioned {
    pub major: u32,
    pub minor: u32,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    pub flags: u64,
    pub tensor: DLTensor,
}

const _: () = assert!(size_of::<DLTensor>() == 48 && size_of::<Managed>() == 64 && size_of::<ManagedVersioned>() == 80);

/// What a foreign description says, checked as far as it can be.
pub fn read(described: &DLTensor) -> Result<(TensorType, Strides, *mut u8, Device), Error> {
    let dtype = match (described.code, described.bits, described.lanes) {
        (FLOAT, 16, 1) => DType::Float16,
        (FLOAT, 32, 1) => DType::Float32,
        (FLOAT, 64, 1) => DType::Float64,
        (BFLOAT, 16, 1) => DType::BFloat16,
        (code, bits, lanes) => {
            let got = format!("type code {code} with {bits} bits and {lanes} lanes");
            return Err(Error::dtype("from_dlpack", "object", got, "float16, bfloat16, float32 or float64"));
        }
    };
    let device = match (described.device_type, u32::try_from(described.device_id)) {
        (CPU, _) => Device::Cpu,
        (CUDA, Ok(ordinal)) => device::require(ordinal)?,
        (kind, _) => {
            let device = format!("DLPack device ({kind}, {})", described.device_id);
            return Err(Error::Device {
                device,
                reason: "from_dlpack takes memory of the cpu or a CUDA device".into(),
            });
        }
    };
    let refuse = |got: String| Error::shape("from_dlpack", "object", got, "sizes that fit the address space");
    let rank = usize::try_from(described.ndim).ok().filter(|&rank| rank <= MOST_DIMENSIONS);
    let rank = rank.ok_or_else(|| refuse(format!("{} dimensions", described.ndim)))?;
    if rank > 0 && described.shape.is_null() {
        return Err(refuse(format!("{rank} dimensions without a shape")));
    }
    let list = |pointer: *mut i64| match rank {
        0 => &[][..],
        // SAFETY: the pointer is not null, and the protocol promises `ndim` numbers there.
        _ => unsafe { std::slice::from_raw_parts(pointer, rank) },
    };
    let sizes: Result<Vec<usize>, _> = list(described.shape).iter().map(|&n| usize::try_from(n)).collect();
    let shape = sizes.map(Shape::from).ok().filter(|shape| shape.checked_elements(dtype).is_some());
    let shape = shape.ok_or_else(|| refuse(format!("{:?}", list(described.shape))))?;
    let strides = match described.strides.is_null() {
        true => shape.row_major_strides(dtype),
        false => {
            let steps = list(described.strides).iter();
            let bytes: Option<Strides> =
                steps.map(|&step| isize::try_from(step).ok()?.checked_mul(dtype.size() as isize)).collect();
            bytes.ok_or_else(|| refuse(format!("strides {:?}", list(described.strides))))?
        }
    };
    let offset = usize::try_from(described.byte_offset).ok();
    if offset.and_then(|offset| described.data.addr().checked_add(offset)).is_none() {
        return Err(refuse(format!("an offset of {} bytes", described.byte_offset)));
    }
    let pointer = described.data.cast::<u8>().wrapping_add(described.byte_offset as usize);
    if pointer.is_null() && shape.elements() > 0 {
        return Err(refuse("elements without memory".into()));
    }
    device::check_alignment(device, pointer, &shape, dtype)?;
    Ok((TensorType { shape, dtype }, strides, pointer, device))
}
