//! What CUDA offers here, for whoever asks `firelu doctor`, and what the self-test of its kernels needs.

use firelu_guarded::guarded;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

#[cfg(feature = "cuda")]
use super::entry;
use super::errors::raise;
use super::tensor::PyTensor;
use crate::core::device::Device;
use crate::core::dtype::{BFloat16, DType};
use crate::core::error::Error;
use crate::core::tensor::{Tensor, TensorType};
use crate::devices;

/// Say whether CUDA can be used and why, and describe each device.
///
/// Asking starts the driver and no device: no context is made and nothing is loaded. With `load`, such as "cuda:0", the
/// kernels are loaded on that device, and "kernels_load" says of it whether that worked; elsewhere it is None.
#[guarded]
#[pyfunction]
#[pyo3(signature = (load=None))]
fn cuda_status<'py>(py: Python<'py>, load: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
    let load = load.map(|device| device.parse::<Device>().map_err(raise)).transpose()?;
    let status = PyDict::new(py);
    match driver(py, load) {
        Ok((version, devices)) => {
            status.set_item("usable", true)?;
            status.set_item("reason", "a driver and a device were found")?;
            status.set_item("driver", version)?;
            status.set_item("devices", devices?)?;
        }
        Err(reason) => {
            status.set_item("usable", false)?;
            status.set_item("reason", reason)?;
            status.set_item("driver", py.None())?;
            status.set_item("devices", PyList::empty(py))?;
        }
    }
    Ok(status)
}

type Driver<'py> = (String, PyResult<Bound<'py, PyList>>);

#[cfg(feature = "cuda")]
fn driver(py: Python<'_>, load: Option<Device>) -> Result<Driver<'_>, String> {
    use crate::devices::cuda::{available, context};
    use crate::registry::cuda_modules;

    let driver = entry::detach(py, available::driver)?;
    let version = available::version_name(driver.version);
    let describe = |ordinal: u32| {
        let found = entry::detach(py, || {
            let description = context::describe(ordinal)?;
            let wanted = load == Some(Device::Cuda(ordinal));
            let loaded = wanted.then(|| context::context(ordinal)?.load_all(cuda_modules()));
            Ok::<_, Error>((description, loaded.transpose()))
        });
        let device = PyDict::new(py);
        device.set_item("device", format!("cuda:{ordinal}"))?;
        let loads = match found {
            Ok((description, loads)) => {
                let (major, minor) = description.capability;
                device.set_item("name", description.name)?;
                device.set_item("compute_capability", format!("{major}.{minor}"))?;
                device.set_item("memory_bytes", description.memory)?;
                loads
            }
            Err(error) => Err(error),
        };
        device.set_item("kernels_load", loads.as_ref().map_or(Some(false), |loaded| loaded.map(|()| true)))?;
        let reason = match loads {
            Ok(Some(())) => "every kernel that ships was loaded".to_string(),
            Ok(None) => "kernels are loaded when they are first used".to_string(),
            // The device is named beside it.
            Err(Error::Device { reason, .. }) => reason,
            Err(error) => error.to_string(),
        };
        device.set_item("reason", reason)?;
        Ok(device)
    };
    let devices = (0..driver.devices).map(describe).collect::<PyResult<Vec<_>>>().and_then(|all| PyList::new(py, all));
    Ok((version, devices))
}

#[cfg(not(feature = "cuda"))]
fn driver(_: Python<'_>, _: Option<Device>) -> Result<Driver<'_>, String> {
    Err("this build of firelu has no CUDA device".into())
}

/// A view of a tensor's memory with other sizes and strides, counted in elements; no element may lie outside. For tests.
#[guarded]
#[pyfunction]
fn as_strided(tensor: &Bound<'_, PyTensor>, shape: Vec<usize>, strides: Vec<isize>) -> PyResult<PyTensor> {
    let tensor = tensor.get().tensor();
    let size = tensor.dtype().size() as isize;
    let strides = strides.into_iter().map(|stride| stride.saturating_mul(size)).collect();
    let kind = TensorType::new(shape, tensor.dtype());
    Ok(Tensor::from_storage(tensor.storage().clone(), 0, kind, strides).map_err(raise)?.into())
}

/// A bfloat16 tensor on the cpu of these bits, for whoever has no such type: numpy alone has none.
#[guarded]
#[pyfunction]
fn bfloat16_of_bits(bits: PyReadonlyArrayDyn<'_, u16>) -> PyResult<PyTensor> {
    let values: Vec<BFloat16> = bits.as_array().iter().map(|&bits| BFloat16::from_bits(bits)).collect();
    Ok(Tensor::from_vec(bits.shape().to_vec(), values).map_err(raise)?.into())
}

/// The bits of a bfloat16 tensor on the cpu, row by row.
#[guarded]
#[pyfunction]
fn bits_of_bfloat16<'py>(py: Python<'py>, tensor: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyAny>> {
    let tensor = tensor.get().tensor();
    if tensor.dtype() != DType::BFloat16 || tensor.device() != Device::Cpu {
        return Err(raise(Error::argument(
            "bits_of_bfloat16",
            "tensor",
            tensor.kind(),
            "a bfloat16 tensor on the cpu",
        )));
    }
    let rows = tensor.shape().row_major_strides(tensor.dtype());
    let mut dense = devices::allocate(Device::Cpu, tensor.kind().clone(), rows).map_err(raise)?;
    let target = dense.view_mut().expect("new memory has one owner");
    devices::cpu::assign::assign(&target, &tensor.view()).map_err(raise)?;
    drop(target);
    // SAFETY: the copy is row-major, so that its elements, two bytes each, lie one after the other.
    let bits = unsafe { std::slice::from_raw_parts(dense.view().pointer.cast::<u16>(), dense.shape().elements()) };
    PyArray1::from_slice(py, bits).reshape(tensor.shape().to_vec()).map(Bound::into_any)
}

/// Use the kernels that count in 64 bits where 32 would do, so that a test reaches them without memory of that size.
#[guarded]
#[pyfunction]
fn set_cuda_wide_indices(wide: bool) {
    #[cfg(feature = "cuda")]
    crate::devices::cuda::layout::set_wide(wide);
    #[cfg(not(feature = "cuda"))]
    let _ = wide;
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cuda_status, module)?)?;
    module.add_function(wrap_pyfunction!(as_strided, module)?)?;
    module.add_function(wrap_pyfunction!(bfloat16_of_bits, module)?)?;
    module.add_function(wrap_pyfunction!(bits_of_bfloat16, module)?)?;
    module.add_function(wrap_pyfunction!(set_cuda_wide_indices, module)?)
}
