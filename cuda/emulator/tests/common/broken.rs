//! Kernels broken on purpose, and their mended twins.

use super::{Emulator, code};
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg, sys::CUresult};
use cudarc::nvrtc::Ptx;

/// A kernel around a body. `%rd4` and `%rd5` are this thread's words of `input` (written) and `output` (never written),
/// `%rd7` its word of the shared array `tile` of 64 words; `%r1` is the thread, `%r2` the block.
pub fn kernel(body: &str) -> String {
    format!(
        "
.version 6.0
.target sm_50
.address_size 64
.visible .entry kernel(.param .u64 input, .param .u64 output)
{{
    .reg .pred %p<8>;
    .reg .b32 %r<32>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<16>;
    .shared .align 16 .b8 tile[256];
    .shared .align 16 .b8 neighbour[256];
    ld.param.u64 %rd1, [input];
    ld.param.u64 %rd2, [output];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    mov.u64 %rd6, tile;
    add.s64 %rd7, %rd6, %rd3;
    {body}
    ret;
}}
"
    )
}

/// What a run of a kernel gave.
pub struct Outcome {
    pub code: CUresult,
    pub reports: Vec<String>,
}

impl Outcome {
    pub fn find(&self, kind: &str) -> &str {
        let found = self.reports.iter().find(|report| report.starts_with(&format!("{kind}: ")));
        found.unwrap_or_else(|| panic!("no {kind} among {:?}", self.reports))
    }
}

/// Runs a kernel over 64 words of input and 128 of output.
pub fn run(body: &str, grid: u32, block: u32) -> Outcome {
    let emulator = Emulator::with(&[("WATCHDOG", "10000")]);
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(kernel(body))).unwrap_or_else(|error| {
        panic!("{error}: {:?}", emulator.reports());
    });
    let function = module.load_function("kernel").expect("the kernel exists");
    let input = stream.clone_htod(&(0..64u32).collect::<Vec<_>>()).expect("copy");
    // SAFETY: whatever reads these words unwritten is the subject of the test.
    let mut output = unsafe { stream.alloc::<u32>(128) }.expect("allocation");
    let config = LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (block, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the arguments are what the kernel declares; the emulator survives what the kernel does with them.
    unsafe { stream.launch_builder(&function).arg(&input).arg(&mut output).launch(config) }.expect("launch");
    Outcome { code: code(stream.synchronize()), reports: emulator.reports() }
}

/// The broken body gives a report of this kind, naming its place, and this code; the mended one gives nothing.
/// What follows from the defect (a racing read may also be early) may be reported beside it.
pub fn check(kind: &str, expected: CUresult, grid: u32, block: u32, broken: &str, mended: &str) {
    let outcome = run(broken, grid, block);
    let report = outcome.find(kind);
    for part in ["kernel kernel", "PTX line ", "block [", "thread ["] {
        assert!(report.contains(part), "{report} names {part}");
    }
    assert_eq!(outcome.code, expected, "{report}");
    let outcome = run(mended, grid, block);
    assert_eq!(outcome.reports, [""; 0], "{kind}, mended");
    assert_eq!(outcome.code, CUresult::CUDA_SUCCESS, "{kind}, mended");
}

pub const ILLEGAL: CUresult = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
pub const FAILED: CUresult = CUresult::CUDA_ERROR_LAUNCH_FAILED;
