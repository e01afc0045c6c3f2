//! Modules of PTX: what they need, and what a context keeps of those that it has loaded. Which modules there are their
//! owners know: each stands beside the code that launches its kernels.

use std::collections::HashMap;
use std::sync::Mutex;

use cudarc::driver::sys;

/// Kernels that ship together as one PTX text.
#[derive(Debug, Clone, Copy)]
pub struct Module {
    /// The stem of its file in `cuda/ptx`.
    pub name: &'static str,
    /// The PTX.
    pub text: &'static str,
}

/// The version that every module declares.
pub const PTX_VERSION: &str = "6.0";
/// The oldest driver that reads this version, as the driver counts: CUDA 9.0.
pub const DRIVER_NEEDED: i32 = 9000;
/// The compute capability that every module is written for; newer devices run it too.
pub const CAPABILITY_NEEDED: (i32, i32) = (5, 0);

/// Modules and functions by their names; with a function, the size of its parameters.
#[derive(Default)]
pub(super) struct Table {
    pub(super) modules: HashMap<&'static str, sys::CUmodule>,
    pub(super) functions: HashMap<String, (sys::CUfunction, usize)>,
}

/// What a context has loaded.
#[derive(Default)]
pub(super) struct Modules(pub(super) Mutex<Table>);

/// Where each kernel of a text begins.
const ENTRY: &str = ".visible .entry ";

/// The text of one kernel as a module of its own: what stands before the first one, and the kernel.
pub fn alone(text: &str, kernel: &str) -> Option<String> {
    let header = &text[..text.find(ENTRY)?];
    let start = text.find(&format!("{ENTRY}{kernel}("))?;
    let after = start + ENTRY.len();
    let end = text[after..].find(ENTRY).map_or(text.len(), |next| after + next);
    Some([header, &text[start..end]].concat())
}

/// The size of a kernel's one parameter struct, as its PTX declares it.
pub fn parameter_bytes(text: &str, kernel: &str) -> Option<usize> {
    let declaration = format!("{kernel}_param_0[");
    let start = text.find(&format!(".b8 {declaration}"))? + 4 + declaration.len();
    text[start..].split_once(']')?.0.parse().ok()
}
