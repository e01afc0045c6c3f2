//! Barriers, shuffles and control: one deliberately broken kernel for each kind of report, the mended twin silent.

mod common;

use common::broken::{FAILED, check};
use cudarc::driver::sys::CUresult;

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
        "setp.lt.u32 %p1, %r1, 32;
            @%p1 bra FIRST;
            bar.sync 0;
            bra DONE;
            FIRST: bar.sync 0;
            DONE:",
        "setp.lt.u32 %p1, %r1, 32;
            @%p1 bra FIRST;
            add.u32 %r3, %r1, 1;
            bra DONE;
            FIRST: add.u32 %r3, %r1, 2;
            DONE: bar.sync 0;",
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
    check(
        "division-by-zero",
        FAILED,
        1,
        32,
        "div.u32 %r3, %r1, %r1;",
        "add.u32 %r3, %r1, 1;
        div.u32 %r3, %r1, %r3;",
    );
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
