//! The extension module `firelu._firelu`: the only place that knows Python and numpy.

mod arguments;
mod arrays;
mod autograd;
mod cuda;
mod custom;
mod definitions;
mod entry;
mod errors;
mod foreign;
mod interop;
mod resampling;
mod run;
mod schema;
mod settings;
mod tensor;
mod torch;
mod workspace;

use pyo3::prelude::*;

// Without a GIL, threads that share the registry have been seen to stand still: it asks for one.
#[pymodule(gil_used = true)]
fn _firelu(module: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::devices::cpu::fork::register();
    crate::devices::cpu::parallel::INTERRUPT_CHECK.get_or_init(|| run::interrupted);
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    run::register(module)?;
    resampling::register(module)?;
    schema::register(module)?;
    definitions::register(module)?;
    settings::register(module)?;
    cuda::register(module)?;
    tensor::register(module)?;
    interop::register(module)?;
    autograd::register(module)?;
    workspace::register(module)?;
    custom::register(module)?;
    torch::register(module)?;
    settings::warn_of_environment(module.py())
}
