//! One deliberately broken kernel for each kind of report, found; the mended twin silent.

mod common;

use common::{Emulator, code};
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg, sys::CUresult};
use cudarc::nvrtc::Ptx;

/// A kernel around a body. `%rd4` and `%rd5` are this thread's words of `input` (written) and `output` (never written),
/// `%rd7` its word of the shared array `tile` of 64 words; `%r1` is the thread, `%r2` the block.
fn kernel(body: &str) -> String {
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
struct Outcome {
    code: CUresult,
    reports: Vec<String>,
}

impl Outcome {
    fn find(&self, kind: &str) -> &str {
        let found = self.reports.iter().find(|report| report.starts_with(&format!("{kind}: ")));
        found.unwrap_or_else(|| panic!("no {kind} among {:?}", self.reports))
    }
}

/// Runs a kernel over 64 words of input and 128 of output.
fn run(body: &str, grid: u32, block: u32) -> Outcome {
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
fn check(kind: &str, expected: CUresult, grid: u32, block: u32, broken: &str, mended: &str) {
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

const ILLEGAL: CUresult = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
const FAILED: CUresult = CUresult::CUDA_ERROR_LAUNCH_FAILED;

#[test]
fn a_read_past_the_end() {
    check("out-of-bounds", ILLEGAL, 1, 64, "ld.global.u32 %r3, [%rd4+4];", "ld.global.u32 %r3, [%rd4];");
}

#[test]
fn a_write_before_the_start() {
    check("out-of-bounds", ILLEGAL, 1, 64, "st.global.u32 [%rd5+-4], %r1;", "st.global.u32 [%rd5], %r1;");
}

#[test]
fn an_address_that_never_was() {
    check(
        "out-of-bounds",
        ILLEGAL,
        1,
        1,
        "mov.u64 %rd8, 4096;\nld.global.u32 %r3, [%rd8];",
        "ld.global.u32 %r3, [%rd4];",
    );
}

#[test]
fn a_vector_that_runs_over_the_end() {
    check(
        "out-of-bounds",
        ILLEGAL,
        1,
        1,
        "add.s64 %rd8, %rd1, 256;\nld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd8];",
        "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd1+240];",
    );
}

#[test]
fn a_misaligned_word() {
    check(
        "misaligned",
        CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        1,
        32,
        "ld.global.u32 %r3, [%rd4+2];",
        "ld.global.u16 %r3, [%rd4+2];",
    );
}

#[test]
fn a_misaligned_vector() {
    check(
        "misaligned",
        CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        1,
        32,
        "ld.global.v2.u32 {%r3, %r4}, [%rd4];",
        "shl.b64 %rd8, %rd3, 1;\nadd.s64 %rd8, %rd1, %rd8;\nld.global.v2.u32 {%r3, %r4}, [%rd8];",
    );
}

#[test]
fn a_read_of_memory_never_written() {
    check(
        "uninitialised-read",
        FAILED,
        1,
        64,
        "ld.global.u32 %r3, [%rd5];",
        "st.global.u32 [%rd5], %r1;\nld.global.u32 %r3, [%rd5];",
    );
}

#[test]
fn a_read_of_which_one_byte_was_never_written() {
    check(
        "uninitialised-read",
        FAILED,
        1,
        64,
        "st.global.u16 [%rd5], %r1;\nst.global.u8 [%rd5+2], %r1;\nld.global.u32 %r3, [%rd5];",
        "st.global.u16 [%rd5], %r1;\nst.global.u16 [%rd5+2], %r1;\nld.global.u32 %r3, [%rd5];",
    );
}

#[test]
fn a_read_of_shared_memory_never_written() {
    check(
        "uninitialised-read",
        FAILED,
        2,
        64,
        "ld.shared.u32 %r3, [%rd7];",
        "st.shared.u32 [%rd7], %r1;\nld.shared.u32 %r3, [%rd7];",
    );
}

#[test]
fn shared_memory_past_its_variable() {
    // The next variable follows, so only the variable's own extent can tell.
    check("shared-out-of-bounds", ILLEGAL, 1, 64, "st.shared.u32 [%rd7+4], %r1;", "st.shared.u32 [%rd7], %r1;");
}

#[test]
fn two_blocks_write_the_same_word() {
    check(
        "global-race",
        FAILED,
        2,
        64,
        "st.global.u32 [%rd5], %r1;",
        "mul.wide.u32 %rd8, %r2, 256;\nadd.s64 %rd5, %rd5, %rd8;\nst.global.u32 [%rd5], %r1;",
    );
}

#[test]
fn one_block_reads_what_another_writes() {
    check(
        "global-race",
        FAILED,
        2,
        1,
        "setp.ne.u32 %p1, %r2, 0;\n@%p1 ld.global.u32 %r3, [%rd1];\n@!%p1 st.global.u32 [%rd1], %r2;",
        "ld.global.u32 %r3, [%rd1];",
    );
}

#[test]
fn two_warps_share_a_word_without_a_barrier() {
    check(
        "global-race",
        FAILED,
        1,
        64,
        "st.global.u32 [%rd5], %r1;\nxor.b32 %r3, %r1, 32;\nmul.wide.u32 %rd8, %r3, 4;\nadd.s64 %rd8, %rd2, %rd8;\nld.global.u32 %r4, [%rd8];",
        "st.global.u32 [%rd5], %r1;\nbar.sync 0;\nxor.b32 %r3, %r1, 32;\nmul.wide.u32 %rd8, %r3, 4;\nadd.s64 %rd8, %rd2, %rd8;\nld.global.u32 %r4, [%rd8];",
    );
}

#[test]
fn a_write_after_reads_of_another_warp() {
    let reads = "st.shared.u32 [%rd7], %r1;\nbar.sync 0;\nld.shared.u32 %r3, [tile];\nsetp.eq.u32 %p1, %r1, 40;";
    check(
        "shared-race",
        FAILED,
        1,
        64,
        &format!("{reads}\n@%p1 st.shared.u32 [tile], %r1;"),
        &format!("{reads}\nbar.sync 0;\n@%p1 st.shared.u32 [tile], %r1;"),
    );
}

#[test]
fn shared_memory_without_a_barrier() {
    check(
        "shared-race",
        FAILED,
        2,
        64,
        "st.shared.u32 [%rd7], %r1;\nld.shared.u32 %r3, [tile+252];",
        "st.shared.u32 [%rd7], %r1;\nbarrier.sync.aligned 0;\nld.shared.u32 %r3, [tile+252];",
    );
}

#[test]
fn lanes_of_a_warp_without_a_warp_barrier() {
    check(
        "shared-race",
        FAILED,
        1,
        32,
        "st.shared.u32 [%rd7], %r1;\nld.shared.u32 %r3, [tile+124];",
        "st.shared.u32 [%rd7], %r1;\nbar.warp.sync 0xffffffff;\nld.shared.u32 %r3, [tile+124];",
    );
}

#[test]
fn a_warp_barrier_of_half_the_lanes_orders_only_that_half() {
    let halves = "setp.lt.u32 %p1, %r1, 16;\nselp.b32 %r8, 0x0000ffff, 0xffff0000, %p1;\nst.shared.u32 [%rd7], %r1;\n@%p1 bra LOW;\nbar.warp.sync 0xffff0000;\nbra MEET;\nLOW: bar.warp.sync 0x0000ffff;\nMEET:";
    check(
        "shared-race",
        FAILED,
        1,
        32,
        &format!(
            "{halves} xor.b32 %r3, %r1, 16;\nmul.wide.u32 %rd8, %r3, 4;\nadd.s64 %rd8, %rd6, %rd8;\nld.shared.u32 %r4, [%rd8];"
        ),
        &format!(
            "{halves} xor.b32 %r3, %r1, 8;\nmul.wide.u32 %rd8, %r3, 4;\nadd.s64 %rd8, %rd6, %rd8;\nld.shared.u32 %r4, [%rd8];"
        ),
    );
}

#[test]
fn a_fence_alone_orders_nothing() {
    check(
        "shared-race",
        FAILED,
        1,
        64,
        "st.shared.u32 [%rd7], %r1;\nmembar.cta;\nld.shared.u32 %r3, [tile+252];",
        "st.shared.u32 [%rd7], %r1;\nmembar.cta;\nbar.sync 0;\nld.shared.u32 %r3, [tile+252];",
    );
}

#[test]
fn a_noncoherent_load_of_what_the_launch_writes() {
    check(
        "noncoherent-load",
        FAILED,
        1,
        32,
        "st.global.u32 [%rd4], %r1;\nld.global.nc.u32 %r3, [%rd4];",
        "st.global.u32 [%rd4], %r1;\nld.global.u32 %r3, [%rd4];",
    );
}

#[test]
fn a_store_to_what_the_launch_loads_noncoherently() {
    check(
        "noncoherent-load",
        FAILED,
        1,
        32,
        "ld.global.nc.u32 %r3, [%rd4];\nst.global.u32 [%rd4], %r3;",
        "ld.global.u32 %r3, [%rd4];\nst.global.u32 [%rd4], %r3;",
    );
}

#[test]
fn a_barrier_that_half_a_warp_skips() {
    check(
        "divergent-barrier",
        FAILED,
        1,
        32,
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra SKIP;\nbar.sync 0;\nSKIP:",
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra SKIP;\nadd.u32 %r3, %r1, 1;\nSKIP: bar.sync 0;",
    );
}

#[test]
fn a_predicated_barrier() {
    check(
        "divergent-barrier",
        FAILED,
        1,
        32,
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 bar.sync 0;",
        "setp.lt.u32 %p1, %r1, 99;\n@%p1 bar.sync 0;",
    );
}

#[test]
fn warps_that_wait_at_different_barriers() {
    check(
        "divergent-barrier",
        FAILED,
        1,
        64,
        "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra FIRST;\nbar.sync 0;\nbra DONE;\nFIRST: bar.sync 0;\nDONE:",
        "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra FIRST;\nadd.u32 %r3, %r1, 1;\nbra DONE;\nFIRST: add.u32 %r3, %r1, 2;\nDONE: bar.sync 0;",
    );
}

#[test]
fn a_barrier_after_a_warp_has_ended() {
    check(
        "missing-barrier",
        FAILED,
        1,
        64,
        "setp.lt.u32 %p1, %r1, 32;\n@%p1 exit;\nbar.sync 0;",
        "setp.lt.u32 %p1, %r1, 32;\nbar.sync 0;\n@%p1 exit;",
    );
}

#[test]
fn a_barrier_after_some_lanes_have_ended() {
    check(
        "missing-barrier",
        FAILED,
        1,
        32,
        "setp.lt.u32 %p1, %r1, 5;\n@%p1 ret;\nbar.sync 0;",
        "setp.lt.u32 %p1, %r1, 5;\nbar.sync 0;\n@%p1 ret;",
    );
}

#[test]
fn a_shuffle_whose_mask_leaves_out_a_lane_that_takes_part() {
    check(
        "wrong-members",
        FAILED,
        1,
        32,
        "shfl.sync.bfly.b32 %r3|%p1, %r1, 16, 31, 0xfffffffe;",
        "shfl.sync.bfly.b32 %r3|%p1, %r1, 16, 31, 0xffffffff;",
    );
}

#[test]
fn a_shuffle_whose_mask_names_lanes_on_another_path() {
    check(
        "wrong-members",
        FAILED,
        1,
        32,
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.bfly.b32 %r3, %r1, 1, 31, 0xffffffff;",
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.bfly.b32 %r3, %r1, 1, 31, 0x0000ffff;",
    );
}

#[test]
fn lanes_that_name_different_masks() {
    check(
        "wrong-members",
        FAILED,
        1,
        32,
        "setp.lt.u32 %p1, %r1, 16;\nselp.b32 %r8, 0xffffffff, 0x7fffffff, %p1;\nbar.warp.sync %r8;",
        "setp.lt.u32 %p1, %r1, 99;\nselp.b32 %r8, 0xffffffff, 0x7fffffff, %p1;\nbar.warp.sync %r8;",
    );
}

#[test]
fn a_shuffle_from_a_lane_that_does_not_take_part() {
    check(
        "shuffle-from-inactive",
        FAILED,
        1,
        32,
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.idx.b32 %r3, %r1, 20, 31, 0x0000ffff;",
        "setp.lt.u32 %p1, %r1, 16;\n@%p1 shfl.sync.idx.b32 %r3, %r1, 4, 31, 0x0000ffff;",
    );
}

#[test]
fn a_shuffle_from_a_lane_the_block_does_not_have() {
    check(
        "shuffle-from-inactive",
        FAILED,
        1,
        20,
        "shfl.sync.down.b32 %r3, %r1, 16, 31, 0xffffffff;",
        "shfl.sync.down.b32 %r3, %r1, 16, 19, 0xffffffff;",
    );
}

#[test]
fn an_integer_divided_by_zero() {
    check("division-by-zero", FAILED, 1, 32, "div.u32 %r3, %r1, %r1;", "add.u32 %r3, %r1, 1;\ndiv.u32 %r3, %r1, %r3;");
}

#[test]
fn a_loop_without_end() {
    check(
        "watchdog",
        CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        1,
        32,
        "LOOP: bra LOOP;",
        "mov.u32 %r3, 0;\nLOOP: add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, 100;\n@%p1 bra LOOP;",
    );
}

#[test]
fn a_race_names_both_sides() {
    let outcome = run("st.shared.u32 [%rd7], %r1;\nld.shared.u32 %r3, [tile+252];", 1, 64);
    let report = outcome.find("shared-race");
    assert!(report.contains("written by") || report.contains("read by"), "{report}");
    assert_eq!(report.matches("PTX line").count(), 2, "{report}");
    assert_eq!(report.matches("thread [").count(), 2, "{report}");
}

#[test]
fn findings_a_gpu_would_miss_can_be_left_to_the_reports() {
    let emulator = Emulator::with(&[("STRICT", "0")]);
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(kernel("ld.global.u32 %r3, [%rd5];"))).expect("module");
    let function = module.load_function("kernel").expect("kernel");
    // SAFETY: the test is about reading these words unwritten.
    let (input, mut output) = unsafe { (stream.alloc::<u32>(64), stream.alloc::<u32>(64)) };
    let (input, output) = (input.expect("allocation"), output.as_mut().expect("allocation"));
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the arguments are what the kernel declares.
    unsafe { stream.launch_builder(&function).arg(&input).arg(output).launch(config) }.expect("launch");
    stream.synchronize().expect("a finding alone does not fail the launch");
    let reports = emulator.reports();
    assert!(reports.len() == 1 && reports[0].contains("[64 times]"), "{reports:?}");
}
