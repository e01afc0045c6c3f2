//! What CUDA offers here, for whoever asks `firelu doctor`.

use firelu_guarded::guarded;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

#[cfg(feature = "cuda")]
use super::entry;
use super::errors::raise;
use crate::core::device::Device;

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
            Ok::<_, crate::Error>((description, loaded.transpose()))
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
            Err(crate::Error::Device { reason, .. }) => reason,
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

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cuda_status, module)?)
}
