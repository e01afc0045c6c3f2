//! Memory: one deliberately broken kernel for each kind of report, found; the mended twin silent.

mod common;

use common::broken::{FAILED, ILLEGAL, check, kernel, run};
use common::{Emulator, code};
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg, sys::CUresult};
use cudarc::nvrtc::Ptx;

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
        "setp.ne.u32 %p1, %r2, 0;
            @%p1 ld.global.u32 %r3, [%rd1];
            @!%p1 st.global.u32 [%rd1], %r2;",
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
        "st.global.u32 [%rd5], %r1;
            xor.b32 %r3, %r1, 32;
            mul.wide.u32 %rd8, %r3, 4;
            add.s64 %rd8, %rd2, %rd8;
            ld.global.u32 %r4, [%rd8];",
        "st.global.u32 [%rd5], %r1;
            bar.sync 0;
            xor.b32 %r3, %r1, 32;
            mul.wide.u32 %rd8, %r3, 4;
            add.s64 %rd8, %rd2, %rd8;
            ld.global.u32 %r4, [%rd8];",
    );
}

#[test]
fn a_write_after_reads_of_another_warp() {
    let reads = "st.shared.u32 [%rd7], %r1;
        bar.sync 0;
        ld.shared.u32 %r3, [tile];
        setp.eq.u32 %p1, %r1, 40;";
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
    let halves = "setp.lt.u32 %p1, %r1, 16;
        selp.b32 %r8, 0x0000ffff, 0xffff0000, %p1;
        st.shared.u32 [%rd7], %r1;
        @%p1 bra LOW;
        bar.warp.sync 0xffff0000;
        bra MEET;
        LOW: bar.warp.sync 0x0000ffff;
        MEET:";
    check(
        "shared-race",
        FAILED,
        1,
        32,
        &format!(
            "{halves} xor.b32 %r3, %r1, 16;
                mul.wide.u32 %rd8, %r3, 4;
                add.s64 %rd8, %rd6, %rd8;
                ld.shared.u32 %r4, [%rd8];"
        ),
        &format!(
            "{halves} xor.b32 %r3, %r1, 8;
                mul.wide.u32 %rd8, %r3, 4;
                add.s64 %rd8, %rd6, %rd8;
                ld.shared.u32 %r4, [%rd8];"
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
fn a_shuffle_moves_values_but_orders_no_memory() {
    let shuffle = "st.shared.u32 [%rd7], %r1;\nshfl.sync.bfly.b32 %r4, %r1, 1, 31, -1;";
    check(
        "shared-race",
        FAILED,
        1,
        32,
        &format!("{shuffle}\nld.shared.u32 %r3, [tile+124];"),
        &format!("{shuffle}\nbar.warp.sync -1;\nld.shared.u32 %r3, [tile+124];"),
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
fn a_race_names_both_sides() {
    let outcome = run("st.shared.u32 [%rd7], %r1;\nld.shared.u32 %r3, [tile+252];", 1, 64);
    let report = outcome.find("shared-race");
    assert!(report.contains("written by") || report.contains("read by"), "{report}");
    assert_eq!(report.matches("PTX line").count(), 2, "{report}");
    assert_eq!(report.matches("thread [").count(), 2, "{report}");
}

#[test]
fn a_race_between_blocks_is_found_with_any_number_of_workers() {
    for workers in ["1", "2", "7"] {
        let emulator = Emulator::with(&[("WORKERS", workers)]);
        let context = CudaContext::new(0).expect("a device");
        let stream = context.default_stream();
        // Every block writes its own word, and the last one also reads the word of the first.
        let body = "mul.wide.u32 %rd8, %r2, 4;
            add.s64 %rd9, %rd2, %rd8;
            st.global.u32 [%rd9], %r2;
            setp.eq.u32 %p1, %r2, 63;
            @%p1 ld.global.u32 %r3, [%rd2];";
        let module = context.load_module(Ptx::from_src(kernel(body))).expect("module");
        let function = module.load_function("kernel").expect("kernel");
        let mut output = stream.alloc_zeros::<u32>(64).expect("allocation");
        let config = LaunchConfig { grid_dim: (64, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are what the kernel declares; the first is not used.
        unsafe { stream.launch_builder(&function).arg(&0u64).arg(&mut output).launch(config) }.expect("launch");
        assert_eq!(code(stream.synchronize()), FAILED, "{workers} workers");
        let reports = emulator.reports();
        assert!(reports.len() == 1 && reports[0].starts_with("global-race: "), "{workers} workers: {reports:?}");
    }
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
