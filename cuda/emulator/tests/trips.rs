//! How often a block waits for memory, and what a register holds that nobody wrote.

mod common;

use common::{Emulator, Kernel};
use cudarc::driver::{LaunchConfig, PushKernelArg};

const HEADER: &str = "
.version 6.0
.target sm_50
.address_size 64
.visible .entry kernel(.param .u64 pointer)
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %rd1, [pointer];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
";

/// Runs a body in two blocks of 64 threads over 256 zeros; what they hold then, and the counters.
fn run(body: &str) -> (Vec<u32>, String) {
    let emulator = Emulator::fresh();
    let kernel = Kernel::load(&format!("{HEADER}{body}\n    ret;\n}}\n"), "kernel");
    let mut buffer = kernel.stream.alloc_zeros::<u32>(256).expect("allocation");
    let config = LaunchConfig { grid_dim: (2, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the argument is what the kernel declares.
    unsafe { kernel.stream.launch_builder(&kernel.function).arg(&mut buffer).launch(config) }.expect("launch");
    let found = kernel.stream.clone_dtoh(&buffer).expect("copy");
    kernel.stream.synchronize().expect("wait");
    assert_eq!(emulator.reports(), [""; 0]);
    (found, emulator.counters())
}

fn assert_trips(body: &str, most: u32) {
    let counters = run(body).1;
    let expected = format!("\"round_trips\": {}, \"most_round_trips\": {most}}}", 2 * most);
    assert!(counters.contains(&expected), "{expected} in {counters}");
}

#[test]
fn loads_that_are_under_way_together_are_one_trip() {
    assert_trips(
        "ld.global.u32 %r2, [%rd3];
        ld.global.u32 %r3, [%rd3+256];
        add.u32 %r4, %r2, %r3;
        add.u32 %r5, %r3, %r4;",
        1,
    );
}

#[test]
fn a_load_after_a_use_begins_another_trip() {
    assert_trips(
        "ld.global.u32 %r2, [%rd3];
        add.u32 %r4, %r2, 1;
        ld.global.u32 %r3, [%rd3+256];
        add.u32 %r5, %r3, %r4;",
        2,
    );
}

#[test]
fn a_copy_is_no_use_but_a_use_of_the_copy_is() {
    assert_trips(
        "ld.global.u32 %r2, [%rd3];
        mov.u32 %r6, %r2;
        ld.global.u32 %r3, [%rd3+256];
        add.u32 %r5, %r3, %r6;
        ld.global.u32 %r7, [%rd3+128];
        setp.eq.u32 %p1, %r7, 5;",
        2,
    );
    assert_trips("ld.global.u32 %r2, [%rd3];", 0);
}

#[test]
fn at_a_barrier_all_wait_for_the_slowest_warp() {
    // The first warp makes two trips before the barrier, each one more after it.
    assert_trips(
        "setp.ge.u32 %p1, %r1, 32;
        @%p1 bra MEET;
        ld.global.u32 %r2, [%rd3];
        add.u32 %r4, %r2, 1;
        ld.global.u32 %r3, [%rd3+256];
        add.u32 %r5, %r3, %r4;
    MEET:
        bar.sync 0;
        ld.global.u32 %r6, [%rd3];
        add.u32 %r7, %r6, 1;",
        3,
    );
}

#[test]
fn registers_that_nobody_wrote_hold_noise() {
    let (found, _) = run("mov.u32 %r2, %ctaid.x;
        mul.wide.u32 %rd4, %r2, 256;
        add.s64 %rd5, %rd3, %rd4;
        st.global.u32 [%rd5], %r9;");
    let (first, second) = (found[0], found[64]);
    assert!(first != 0 && second != 0 && first != second, "{first:#x} {second:#x}");
    assert!(found[..64].iter().all(|&value| value == first));
}

#[test]
fn predicates_can_be_set_to_constants() {
    let (found, _) = run("setp.ne.u32 %p3, %r1, %r1;
        mov.pred %p1, 0;
        mov.pred %p2, -1;
        selp.u32 %r2, 5, 7, %p1;
        selp.u32 %r3, 11, 13, %p2;
        add.u32 %r4, %r2, %r3;
        mov.u32 %r5, %ctaid.x;
        setp.eq.u32 %p3, %r5, 0;
        @%p3 st.global.u32 [%rd3], %r4;");
    assert!(found[..64].iter().all(|&value| value == 18), "{:?}", &found[..2]);
}
