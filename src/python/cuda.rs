//! What CUDA offers here, for whoever asks `firelu doctor`.

use firelu_guarded::guarded;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

#[cfg(feature = "cuda")]
use super::entry;

/// Say whether CUDA can be used and why, and describe each device.
///
/// Asking starts the driver and loads the kernels, which nothing does before the first tensor on a device.
#[guarded]
#[pyfunction]
fn cuda_status(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let status = PyDict::new(py);
    match driver(py) {
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
fn driver(py: Python<'_>) -> Result<Driver<'_>, String> {
    use crate::devices::cuda::{available, context};
    use crate::registry::cuda_modules;

    let driver = entry::detach(py, available::driver)?;
    let version = available::version_name(driver.version);
    let describe = |ordinal: u32| {
        let found = entry::detach(py, || {
            let context = context::context(ordinal)?;
            Ok::<_, crate::Error>((context.describe()?, context.load_all(cuda_modules())))
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
        device.set_item("kernels_load", loads.is_ok())?;
        let reason = match loads {
            Ok(()) => "every kernel that ships was loaded".to_string(),
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
fn driver(_: Python<'_>) -> Result<Driver<'_>, String> {
    Err("this build of firelu has no CUDA device".into())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cuda_status, module)?)
}
