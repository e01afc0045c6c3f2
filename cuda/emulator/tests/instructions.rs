//! The instructions that do more than compute: memory, predicates, vectors, shuffles, votes, control flow.

mod common;

use common::Emulator;
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

/// Words every thread stores at the end: `%r20` and the registers after it.
const RESULTS: usize = 4;

/// Runs a body on one block and returns `%r20` to `%r23` of every thread. `%rd1` points to 64 words with the bytes
/// 0x80, 0x81, 0x82 … and `%rd7` to this thread's 16 bytes of shared memory; `%r1` is the thread.
fn run(threads: u32, body: &str) -> Vec<[u32; RESULTS]> {
    let text = format!(
        "
.version 6.3
.target sm_50
.address_size 64
.visible .entry kernel(.param .u64 input, .param .u64 output, .param .align 4 .b8 pair[8], .param .s16 small)
{{
    .reg .pred %p<8>;
    .reg .b16 %h<8>;
    .reg .b32 %r<32>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<16>;
    .reg .f64 %d<4>;
    .shared .align 16 .b8 tile[16384];
    ld.param.u64 %rd1, [input];
    ld.param.u64 %rd2, [output];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, {stride};
    add.s64 %rd4, %rd2, %rd3;
    mov.u64 %rd6, tile;
    add.s64 %rd7, %rd6, %rd3;
    {body}
    st.global.v4.u32 [%rd4], {{%r20, %r21, %r22, %r23}};
    ret;
}}
",
        stride = RESULTS * 4
    );
    let emulator = Emulator::fresh();
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    let module =
        context.load_module(Ptx::from_src(text)).unwrap_or_else(|error| panic!("{error}: {:?}", emulator.reports()));
    let function = module.load_function("kernel").expect("kernel");
    let bytes: Vec<u8> = (0..=255u8).map(|byte| byte.wrapping_add(0x80)).collect();
    let input = stream.clone_htod(&bytes).expect("copy");
    let mut output = stream.alloc_zeros::<[u32; RESULTS]>(threads as usize).expect("allocation");
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the arguments are what the kernel declares.
    unsafe {
        let mut launch = stream.launch_builder(&function);
        launch.arg(&input).arg(&mut output).arg(&[11u32, 22]).arg(&-5i16).launch(config)
    }
    .expect("launch");
    let result = stream.clone_dtoh(&output).expect("copy");
    stream.synchronize().unwrap_or_else(|error| panic!("{error}: {:?}", emulator.reports()));
    assert_eq!(emulator.reports(), [""; 0]);
    result
}

fn one(body: &str) -> [u32; RESULTS] {
    run(1, body)[0]
}

#[test]
fn loads_extend_by_their_type() {
    let found = one("ld.global.u8 %r20, [%rd1+1];
            ld.global.s8 %r21, [%rd1+1];
            ld.global.u16 %r22, [%rd1+2];
            ld.global.s16 %r23, [%rd1+2];");
    assert_eq!(found, [0x81, 0xffff_ff81, 0x8382, 0xffff_8382]);
    let found = one("ld.global.b8 %h1, [%rd1+3];
            ld.global.s8 %h2, [%rd1+3];
            mov.b32 %r20, {%h1, %h2};
            ld.global.s32 %rd8, [%rd1];
            mov.b64 {%r21, %r22}, %rd8;
            ld.global.b32 %rd9, [%rd1];
            mov.b64 {_, %r23}, %rd9;");
    assert_eq!(found, [0xff83_0083, 0x8382_8180, 0xffff_ffff, 0]);
}

#[test]
fn vectors_load_and_store_in_order() {
    let found = one("ld.global.v4.u8 {%r20, %r21, _, %r23}, [%rd1+4];\nmov.u32 %r22, 7;");
    assert_eq!(found, [0x84, 0x85, 7, 0x87]);
    let found = one("ld.global.v2.u64 {%rd8, %rd9}, [%rd1+16];
            mov.b64 {%r20, %r21}, %rd8;
            mov.b64 {%r22, %r23}, %rd9;");
    assert_eq!(found, [0x9392_9190, 0x9796_9594, 0x9b9a_9998, 0x9f9e_9d9c]);
    let found = one("ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%rd1];
            st.shared.v4.u16 [%rd7], {%h4, %h3, %h2, %h1};
            ld.shared.v2.u32 {%r20, %r21}, [%rd7];
            mov.u32 %r22, 0;
            mov.u32 %r23, 0;");
    assert_eq!(found, [0x8584_8786, 0x8180_8382, 0, 0]);
}

#[test]
fn stores_write_only_their_bytes() {
    let found = one("mov.u32 %r2, 0x11223344;
            st.shared.u32 [%rd7], %r2;
            mov.u32 %r3, 0xaabbccdd;
            st.shared.u8 [%rd7+1], %r3;
            st.shared.u16 [%rd7+2], %r3;
            ld.shared.u32 %r20, [%rd7];
            st.shared.f32 [tile+8], 0f3F800000;
            ld.shared.u32 %r21, [tile+8];
            st.shared.u64 [tile+8], -1;
            ld.shared.u32 %r22, [tile+12];
            mov.u32 %r23, 0;");
    assert_eq!(found, [0xccdd_dd44, 0x3f80_0000, 0xffff_ffff, 0]);
}

#[test]
fn parameters_are_read_at_their_offsets() {
    let found = one("ld.param.v2.u32 {%r20, %r21}, [pair];
        ld.param.u32 %r22, [pair+4];
        ld.param.s16 %r23, [small];");
    assert_eq!(found, [11, 22, 22, -5i32 as u32]);
}

#[test]
fn generic_addresses_reach_shared_and_global_memory() {
    let found = one("cvta.shared.u64 %rd8, %rd7;
            st.u32 [%rd8+4], 77;
            ld.shared.u32 %r20, [%rd7+4];
            cvta.to.shared.u64 %rd9, %rd8;
            ld.shared.u32 %r21, [%rd9+4];
            ld.u32 %r22, [%rd1];
            cvt.u32.u64 %r5, %rd7;
            ld.shared.u32 %r23, [%r5+4];");
    assert_eq!(found, [77, 77, 0x8382_8180, 77]);
}

#[test]
fn every_lane_of_a_generic_access_goes_where_its_address_points() {
    let body = "st.shared.u32 [%rd7], %r1;
        cvta.shared.u64 %rd8, %rd7;
        and.b32 %r2, %r1, 1;
        setp.eq.u32 %p1, %r2, 0;
        selp.b64 %rd9, %rd8, %rd1, %p1;
        ld.u32 %r20, [%rd9];
        mov.u32 %r21, 0;
        mov.u32 %r22, 0;
        mov.u32 %r23, 0;";
    for (thread, found) in run(32, body).iter().enumerate() {
        assert_eq!(found[0], if thread % 2 == 0 { thread as u32 } else { 0x8382_8180 });
    }
}

#[test]
fn predicates_combine() {
    let select = "selp.u32 %r20, 1, 0, %p2;
            selp.u32 %r21, 1, 0, %p3;
            selp.u32 %r22, 1, 0, %p4;
            selp.u32 %r23, 1, 0, %p5;";
    let found = run(
        4,
        &format!(
            "and.b32 %r2, %r1, 1;
                setp.ne.u32 %p1, %r2, 0;
                setp.lt.and.u32 %p2|%p3, %r1, 2, %p1;
                setp.lt.or.u32 %p4, %r1, 2, !%p1;
                setp.lt.xor.u32 %p5, %r1, 2, %p1;
                {select}"
        ),
    );
    for (thread, found) in found.iter().enumerate() {
        let (low, odd) = (thread < 2, thread % 2 == 1);
        // The second destination is the opposite comparison joined with the same predicate.
        let expected = [low && odd, !low && odd, low || !odd, low != odd].map(u32::from);
        assert_eq!(*found, expected, "thread {thread}");
    }
    let found = run(
        4,
        &format!(
            "and.b32 %r2, %r1, 1;
                setp.ne.u32 %p1, %r2, 0;
                setp.gt.u32 %p6, %r1, 1;
                and.pred %p2, %p1, %p6;
                or.pred %p3, %p1, %p6;
                xor.pred %p4, %p1, %p6;
                not.pred %p5, %p1;
                {select}"
        ),
    );
    for (thread, found) in found.iter().enumerate() {
        let (odd, high) = (thread % 2 == 1, thread > 1);
        assert_eq!(*found, [odd && high, odd || high, odd != high, !odd].map(u32::from), "thread {thread}");
    }
}

#[test]
fn set_and_selp_choose() {
    let found = one("set.lt.u32.s32 %r20, -1, 1;
            set.gt.f32.u32 %f1, 2, 1;
            mov.b32 %r21, %f1;
            set.eq.s32.f32 %r22, 0f7FC00000, 0f7FC00000;
            setp.neu.f64 %p1, 0d7FF8000000000000, 0d0000000000000000;
            selp.f64 %d1, 0d3FF0000000000000, 0d0000000000000000, %p1;
            mov.b64 {%r4, %r23}, %d1;");
    assert_eq!(found, [u32::MAX, 1f32.to_bits(), 0, 0x3ff0_0000]);
    let found = one("mov.pred %p1, %p0;
            selp.b16 %h1, 5, 9, %p1;
            mov.b32 %r20, {%h1, %h1};
            selp.s64 %rd8, -1, 2, %p1;
            mov.b64 {%r21, %r22}, %rd8;
            selp.f32 %f1, 0f40000000, 0f3F800000, %p1;
            mov.b32 %r23, %f1;");
    assert_eq!(found, [0x0009_0009, 2, 0, 1f32.to_bits()]);
}

#[test]
fn special_registers_know_their_place() {
    let found = run(
        70,
        "mov.u32 %r20, %laneid;
            mov.u32 %r21, %warpid;
            mov.u32 %r2, %ntid.x;
            mov.u32 %r3, %nctaid.y;
            add.u32 %r22, %r2, %r3;
            mov.u32 %r23, %lanemask_lt;",
    );
    for (thread, found) in found.iter().enumerate() {
        let lane = thread as u32 % 32;
        assert_eq!(*found, [lane, thread as u32 / 32, 71, (1u32 << lane) - 1]);
    }
    let masks = run(
        32,
        "mov.u32 %r20, %lanemask_eq;
            mov.u32 %r21, %lanemask_le;
            mov.u32 %r22, %lanemask_gt;
            mov.u32 %r23, %lanemask_ge;",
    );
    for (lane, found) in masks.iter().enumerate() {
        let all = |keep: &dyn Fn(usize) -> bool| (0..32).filter(|&other| keep(other)).map(|other| 1u32 << other).sum();
        let expected: [u32; 4] = [
            all(&|other| other == lane),
            all(&|other| other <= lane),
            all(&|other| other > lane),
            all(&|other| other >= lane),
        ];
        assert_eq!(*found, expected, "lane {lane}");
    }
}

#[test]
fn shuffles_move_values_within_segments() {
    for width in [32u32, 16, 8, 2] {
        for argument in [0u32, 1, 2, 5, 16, 31] {
            let (upper, lower) = ((32 - width) << 8 | 31, (32 - width) << 8);
            let found = run(
                32,
                &format!(
                    "shfl.sync.up.b32 %r20|%p1, %r1, {argument}, {lower}, -1;
                        shfl.sync.down.b32 %r21|%p2, %r1, {argument}, {upper}, -1;
                        shfl.sync.bfly.b32 %r22|%p3, %r1, {argument}, {upper}, -1;
                        shfl.sync.idx.b32 %r23|%p4, %r1, {argument}, {upper}, -1;
                        @!%p1 add.u32 %r20, %r20, 100;
                        @!%p2 add.u32 %r21, %r21, 100;
                        @!%p3 add.u32 %r22, %r22, 100;
                        @!%p4 add.u32 %r23, %r23, 100;"
                ),
            );
            for (lane, found) in found.iter().enumerate() {
                let lane = lane as u32;
                let first = lane / width * width;
                // A lane that would read outside its segment keeps its own value, marked here by 100 more.
                let pick = |source: Option<u32>| source.unwrap_or(lane + 100);
                let up = lane.checked_sub(argument).filter(|&source| source >= first);
                let down = Some(lane + argument).filter(|&source| source < first + width);
                // Only the bound above is checked, so a butterfly may reach into a lower segment.
                let butterfly = Some(lane ^ argument).filter(|&source| source < first + width);
                let index = Some(first + argument % width);
                assert_eq!(
                    *found,
                    [pick(up), pick(down), pick(butterfly), pick(index)],
                    "lane {lane}, {argument} in {width}"
                );
            }
        }
    }
}

#[test]
fn votes_ask_the_members() {
    let body = |limit: u32| {
        format!(
            "setp.lt.u32 %p1, %r1, {limit};
                vote.sync.ballot.b32 %r20, %p1, -1;
                vote.sync.all.pred %p2, %p1, -1;
                vote.sync.any.pred %p3, !%p1, -1;
                vote.sync.uni.pred %p4, %p1, -1;
                selp.u32 %r21, 1, 0, %p2;
                selp.u32 %r22, 1, 0, %p3;
                selp.u32 %r23, 1, 0, %p4;"
        )
    };
    assert_eq!(run(32, &body(5))[9], [0b11111, 0, 1, 0]);
    assert_eq!(run(32, &body(32))[9], [u32::MAX, 1, 0, 1]);
    assert_eq!(run(32, &body(0))[9], [0, 0, 1, 1]);
    let found = run(
        32,
        "setp.lt.u32 %p1, %r1, 8;
            mov.u32 %r20, 0;
            @%p1 activemask.b32 %r20;
            mov.u32 %r21, 0;
            mov.u32 %r22, 0;
            mov.u32 %r23, 0;",
    );
    assert_eq!([found[0][0], found[8][0]], [0xff, 0]);
}

#[test]
fn lanes_diverge_in_nested_loops_and_meet_again() {
    // Sum over i < lane of (i odd ? j-loop of i rounds : 1), with a barrier of the whole warp after the loops.
    let found = run(
        64,
        "
    mov.u32 %r20, 0;
    mov.u32 %r2, 0;
OUTER:
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra DONE;
    and.b32 %r3, %r2, 1;
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra EVEN;
    mov.u32 %r4, 0;
INNER:
    add.u32 %r20, %r20, %r4;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, %r2;
    @%p3 bra INNER;
    bra NEXT;
EVEN:
    add.u32 %r20, %r20, 1;
NEXT:
    add.u32 %r2, %r2, 1;
    bra.uni OUTER;
DONE:
    bar.sync 0;
    shfl.sync.idx.b32 %r21, %r20, 31, 31, -1;
    mov.u32 %r22, 0;
    mov.u32 %r23, 0;",
    );
    let sum = |lane: u32| (0..lane).map(|i| if i % 2 == 1 { (0..i).sum::<u32>() } else { 1 }).sum::<u32>();
    for (thread, found) in found.iter().enumerate() {
        assert_eq!(found[..2], [sum(thread as u32), sum(thread as u32 / 32 * 32 + 31)], "thread {thread}");
    }
}

#[test]
fn blocks_laid_out_of_order_meet_where_both_paths_do() {
    // The side taken by some lanes stands after the meeting point, as compilers place it.
    let found = run(
        32,
        "
    setp.lt.u32 %p1, %r1, 10;
    @%p1 bra LATER;
    mov.u32 %r20, 1;
MEET:
    bar.sync 0;
    mov.u32 %r21, 3;
    bra END;
LATER:
    mov.u32 %r20, 2;
    bra MEET;
END:
    mov.u32 %r22, 0;
    mov.u32 %r23, 0;",
    );
    assert_eq!([found[9], found[10]], [[2, 3, 0, 0], [1, 3, 0, 0]]);
}

#[test]
fn inner_scopes_have_registers_of_their_own() {
    let found = one("mov.u32 %r20, 1;
            { .reg .b32 %r<30>;
            mov.u32 %r20, 9; }
            mov.u32 %r21, %r20;
            { .reg .b32 t;
            mov.u32 t, 4;
            add.u32 %r22, t, 1; }
            mov.u32 %r23, 0;");
    assert_eq!(found, [1, 1, 5, 0]);
}
