//! Streams, events and the host: work is ordered only by what the program asked for, and what it forgot is reported.

mod common;

use common::{Emulator, code};
use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg, result};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;

/// `add_one(pointer, words)` adds one to each word.
const ADD_ONE: &str = "
.version 6.0
.target sm_50
.address_size 64
.visible .entry add_one(.param .u64 pointer)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [pointer];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd3], %r2;
    ret;
}
";

const WORDS: usize = 64;

struct Setup {
    context: Arc<CudaContext>,
    function: CudaFunction,
    first: Arc<CudaStream>,
    second: Arc<CudaStream>,
}

impl Setup {
    fn new() -> Self {
        let context = CudaContext::new(0).expect("a device");
        // SAFETY: the tests order work themselves; that is what they are about.
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(Ptx::from_src(ADD_ONE)).expect("module");
        let function = module.load_function("add_one").expect("kernel");
        let (first, second) = (context.new_stream().expect("stream"), context.new_stream().expect("stream"));
        Self { context, function, first, second }
    }

    /// A buffer of ones that every stream may use.
    fn buffer(&self) -> u64 {
        // SAFETY: the buffer is written within its size, and the host waits for it.
        unsafe {
            let pointer = result::malloc_sync(WORDS * 4).expect("allocation");
            result::memcpy_htod_async(pointer, &[1u32; WORDS], self.first.cu_stream()).expect("copy");
            self.first.synchronize().expect("wait");
            pointer
        }
    }

    fn add_one(&self, stream: &CudaStream, pointer: u64) {
        let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (WORDS as u32, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the argument is what the kernel declares.
        unsafe { stream.launch_builder(&self.function).arg(&pointer).launch(config) }.expect("launch");
    }

    fn read(&self, stream: &CudaStream, pointer: u64, target: &mut [u32]) {
        // SAFETY: the target outlives the copy in every test that waits for it.
        unsafe { result::memcpy_dtoh_async(target, pointer, stream.cu_stream()) }.expect("copy");
    }
}

fn has(reports: &[String], kind: &str) -> bool {
    reports.iter().any(|report| report.starts_with(&format!("{kind}: ")))
}

#[test]
fn a_result_is_not_there_before_the_program_waits() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    let mut target = vec![0u32; WORDS];
    setup.add_one(&setup.first, pointer);
    setup.read(&setup.first, pointer, &mut target);
    assert_eq!(target, [u32::MAX; WORDS], "the target is poisoned until the copy runs");
    setup.first.synchronize().expect("wait");
    assert_eq!(target, [2; WORDS]);
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn copies_into_pageable_memory_can_be_told_to_block() {
    let _emulator = Emulator::with(&[("PAGEABLE", "blocking")]);
    let setup = Setup::new();
    let pointer = setup.buffer();
    let mut target = vec![0u32; WORDS];
    setup.read(&setup.first, pointer, &mut target);
    assert_eq!(target, [1; WORDS]);
}

#[test]
fn waiting_for_another_stream_does_not_help() {
    let _emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    let mut target = vec![0u32; WORDS];
    setup.read(&setup.first, pointer, &mut target);
    setup.second.synchronize().expect("wait");
    assert_eq!(target, [u32::MAX; WORDS]);
    setup.context.synchronize().expect("wait");
    assert_eq!(target, [1; WORDS]);
}

#[test]
fn two_streams_without_an_event_race_and_with_one_do_not() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    setup.add_one(&setup.first, pointer);
    setup.add_one(&setup.second, pointer);
    assert_eq!(code(setup.context.synchronize()), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    let reports = emulator.reports();
    assert!(has(&reports, "stream-race"), "{reports:?}");
    assert!(reports[0].contains("kernel add_one"), "{reports:?}");
    drop(setup);
    drop(emulator);

    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    setup.add_one(&setup.first, pointer);
    setup.second.join(&setup.first).expect("event");
    setup.add_one(&setup.second, pointer);
    let mut target = vec![0u32; WORDS];
    setup.read(&setup.second, pointer, &mut target);
    setup.second.synchronize().expect("wait");
    assert_eq!(target, [3; WORDS]);
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn the_race_is_found_whichever_stream_is_waited_for_first() {
    for first_first in [true, false] {
        let emulator = Emulator::fresh();
        let setup = Setup::new();
        let pointer = setup.buffer();
        let mut target = vec![0u32; WORDS];
        setup.add_one(&setup.first, pointer);
        setup.read(&setup.second, pointer, &mut target);
        let order = if first_first { [&setup.first, &setup.second] } else { [&setup.second, &setup.first] };
        for stream in order {
            let _ = stream.synchronize();
        }
        let reports = emulator.reports();
        assert!(has(&reports, "stream-race"), "{reports:?}");
    }
}

#[test]
fn an_event_recorded_too_early_orders_too_little() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    let event = setup.first.record_event(None).expect("event");
    setup.add_one(&setup.first, pointer);
    setup.second.wait(&event).expect("wait");
    setup.add_one(&setup.second, pointer);
    let _ = setup.context.synchronize();
    assert!(has(&emulator.reports(), "stream-race"));
}

#[test]
fn concurrent_readers_are_no_race_but_a_writer_after_one_of_them_is() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    let third = setup.context.new_stream().expect("stream");
    let (mut left, mut right) = (vec![0u32; WORDS], vec![0u32; WORDS]);
    setup.read(&setup.first, pointer, &mut left);
    setup.read(&setup.second, pointer, &mut right);
    setup.second.join(&setup.first).expect("both reads are over");
    third.join(&setup.second).expect("event");
    setup.add_one(&third, pointer);
    setup.context.synchronize().expect("wait");
    assert_eq!(emulator.reports(), [""; 0]);
    setup.read(&setup.first, pointer, &mut left);
    setup.read(&setup.second, pointer, &mut right);
    // Ordered after the second reader alone; the first one was summarised away in a lesser shadow.
    third.join(&setup.second).expect("event");
    setup.add_one(&third, pointer);
    let _ = setup.context.synchronize();
    assert!(has(&emulator.reports(), "stream-race"));
}

#[test]
fn the_legacy_stream_orders_blocking_streams_alone() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let legacy = setup.context.default_stream();
    let pointer = setup.buffer();
    let blocking = result::stream::create(result::stream::StreamKind::Default).expect("stream");
    // SAFETY: the stream belongs to this context and is destroyed after its last use.
    let wrapped = unsafe { setup.context.wrap_borrowed_stream(blocking) };
    setup.add_one(&legacy, pointer);
    setup.add_one(&wrapped, pointer);
    setup.add_one(&legacy, pointer);
    let mut target = vec![0u32; WORDS];
    setup.read(&legacy, pointer, &mut target);
    legacy.synchronize().expect("wait");
    assert_eq!(target, [4; WORDS]);
    assert_eq!(emulator.reports(), [""; 0]);
    setup.add_one(&legacy, pointer);
    setup.add_one(&setup.first, pointer);
    let _ = setup.context.synchronize();
    assert!(has(&emulator.reports(), "stream-race"), "a non-blocking stream does not wait for the legacy one");
}

#[test]
fn a_synchronous_copy_from_pageable_memory_does_not_order_other_streams() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    // SAFETY: the copy stays within the allocation.
    let pointer = unsafe {
        let pointer = result::malloc_sync(WORDS * 4).expect("allocation");
        result::memcpy_htod_sync(pointer, &[1u32; WORDS]).expect("copy");
        pointer
    };
    setup.add_one(&setup.first, pointer);
    let _ = setup.context.synchronize();
    let reports = emulator.reports();
    assert!(!reports.is_empty(), "the bytes are only staged when the call returns");
}

#[test]
fn memory_freed_while_work_is_pending() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    setup.add_one(&setup.first, pointer);
    // SAFETY: freeing too early is the subject of the test; the emulator survives it.
    unsafe { result::free_sync(pointer) }.expect("free");
    assert_eq!(code(setup.first.synchronize()), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(has(&emulator.reports(), "use-after-free"));
    drop(setup);
    drop(emulator);

    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    setup.add_one(&setup.first, pointer);
    setup.first.synchronize().expect("wait");
    // SAFETY: the only user has ended.
    unsafe { result::free_sync(pointer) }.expect("free");
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn stream_ordered_memory_used_by_a_stream_that_does_not_know_it() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let allocate = || {
        // SAFETY: the memory is filled within its size before anything reads it.
        unsafe {
            let pointer = result::malloc_async(setup.first.cu_stream(), WORDS * 4).expect("allocation");
            result::memset_d8_async(pointer, 0, WORDS * 4, setup.first.cu_stream()).expect("fill");
            pointer
        }
    };
    let pointer = allocate();
    setup.second.join(&setup.first).expect("event");
    setup.add_one(&setup.second, pointer);
    setup.context.synchronize().expect("wait");
    assert_eq!(emulator.reports(), [""; 0]);
    let pointer = allocate();
    setup.add_one(&setup.second, pointer);
    let _ = setup.context.synchronize();
    assert!(has(&emulator.reports(), "unordered-use"));
}

#[test]
fn stream_ordered_memory_freed_before_another_stream_is_done() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    for wait in [true, false] {
        // SAFETY: the memory is filled within its size before anything reads it; freeing too early is the subject.
        let pointer = unsafe {
            let pointer = result::malloc_async(setup.first.cu_stream(), WORDS * 4).expect("allocation");
            result::memset_d8_async(pointer, 0, WORDS * 4, setup.first.cu_stream()).expect("fill");
            pointer
        };
        setup.second.join(&setup.first).expect("event");
        setup.add_one(&setup.second, pointer);
        if wait {
            setup.first.join(&setup.second).expect("event");
        }
        // SAFETY: as above.
        unsafe { result::free_async(pointer, setup.first.cu_stream()) }.expect("free");
        // The stream that still uses the memory runs first; the defect must be found all the same.
        let _ = setup.second.synchronize();
        let _ = setup.first.synchronize();
        assert_eq!(has(&emulator.reports(), "stream-race"), !wait);
    }
}

#[test]
fn frees_of_what_is_not_there() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    // SAFETY: wrong frees are the subject of the test; the emulator answers them with an error.
    unsafe {
        assert_eq!(code(result::free_sync(pointer + 4)), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(code(result::free_sync(emulator.calls())), CUresult::CUDA_ERROR_INVALID_VALUE);
        result::free_sync(pointer).expect("free");
        assert_eq!(code(result::free_sync(pointer)), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let reports = emulator.reports();
    assert_eq!(reports.len(), 3, "{reports:?}");
    for (report, why) in reports.iter().zip(["not its start", "no device address", "already freed"]) {
        assert!(report.starts_with("invalid-free: ") && report.contains(why), "{report}");
    }
}

#[test]
fn pinned_memory_changed_under_a_copy() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    // SAFETY: the pinned memory is used within its size and freed once, after the copies.
    unsafe {
        let pinned = result::malloc_host(WORDS * 4, 0).expect("pinned").cast::<u32>();
        let slice = std::slice::from_raw_parts_mut(pinned, WORDS);
        slice.fill(5);
        result::memcpy_htod_async(pointer, slice, setup.first.cu_stream()).expect("copy");
        setup.first.synchronize().expect("wait");
        assert_eq!(emulator.reports(), [""; 0]);
        result::memcpy_htod_async(pointer, slice, setup.first.cu_stream()).expect("copy");
        slice[3] = 6;
        let _ = setup.first.synchronize();
        assert!(has(&emulator.reports(), "host-buffer-changed"));
        result::free_host(pinned.cast()).expect("free");
    }
}

#[test]
fn a_target_that_is_gone_or_reused_is_reported_and_left_alone() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    let mut target = vec![0u32; WORDS];
    setup.read(&setup.first, pointer, &mut target);
    target[0] = 77;
    let _ = setup.first.synchronize();
    assert_eq!(target[0], 77, "the program's own value stays");
    assert!(has(&emulator.reports(), "host-buffer-changed"));
}

#[test]
fn copies_outside_an_allocation_are_refused_at_once() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    let mut target = vec![0u32; WORDS];
    // SAFETY: the ranges are wrong on purpose; the emulator refuses them.
    let status = unsafe { result::memcpy_dtoh_sync(&mut target, pointer + 4) };
    assert_eq!(code(status), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(has(&emulator.reports(), "invalid-copy"));
}

#[test]
fn a_copy_of_unwritten_memory_keeps_it_unwritten() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let pointer = setup.buffer();
    // SAFETY: every range lies inside its allocation.
    unsafe {
        let half = result::malloc_sync(WORDS * 4).expect("allocation");
        result::memset_d8_async(half, 7, WORDS * 2, setup.first.cu_stream()).expect("fill");
        result::memcpy_dtod_async(pointer, half, WORDS * 4, setup.first.cu_stream()).expect("copy");
        setup.first.synchronize().expect("copying what was never written is no error yet");
        assert_eq!(emulator.reports(), [""; 0]);
        let mut written = vec![0u8; WORDS * 2];
        result::memcpy_dtoh_async(&mut written, pointer, setup.first.cu_stream()).expect("copy");
        setup.first.synchronize().expect("wait");
        assert_eq!(written, [7; WORDS * 2]);
        let mut rest = vec![0u8; WORDS * 2];
        result::memcpy_dtoh_async(&mut rest, pointer + WORDS as u64 * 2, setup.first.cu_stream()).expect("copy");
        assert_eq!(code(setup.first.synchronize()), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    }
    assert!(has(&emulator.reports(), "uninitialised-read"));
}

#[test]
fn a_failed_context_answers_every_call_with_its_error() {
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    setup.add_one(&setup.first, 0x1000);
    let illegal = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_eq!(code(setup.first.synchronize()), illegal);
    assert_eq!(code(setup.second.synchronize()), illegal);
    // SAFETY: nothing is allocated.
    assert_eq!(code(unsafe { result::malloc_sync(16) }), illegal);
    assert_eq!(code(setup.first.record_event(None)), illegal);
    assert_eq!(emulator.reports().len(), 1);
}

#[test]
fn memory_of_another_device_needs_peer_access() {
    let emulator = Emulator::with(&[("DEVICES", "2")]);
    let setup = Setup::new();
    let other = CudaContext::new(1).expect("a second device");
    let foreign = other.default_stream().clone_htod(&[1u32; WORDS]).expect("copy");
    other.default_stream().synchronize().expect("wait");
    let pointer = {
        use cudarc::driver::DevicePtr;
        foreign.device_ptr(&other.default_stream()).0
    };
    setup.context.bind_to_thread().expect("bind");
    // SAFETY: both contexts are alive.
    let enabled = unsafe { sys::cuCtxEnablePeerAccess(other.cu_ctx(), 0) };
    assert_eq!(enabled, CUresult::CUDA_SUCCESS);
    setup.add_one(&setup.first, pointer);
    setup.first.synchronize().expect("peer access is enabled");
    assert_eq!(emulator.reports(), [""; 0]);
    // SAFETY: both contexts are alive.
    assert_eq!(unsafe { sys::cuCtxDisablePeerAccess(other.cu_ctx()) }, CUresult::CUDA_SUCCESS);
    setup.add_one(&setup.first, pointer);
    assert_eq!(code(setup.first.synchronize()), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(has(&emulator.reports(), "foreign-address"));
}

#[test]
fn host_functions_run_when_their_stream_is_waited_for() {
    unsafe extern "C" fn raise(data: *mut std::ffi::c_void) {
        // SAFETY: the test passes a pointer to a number that lives until the stream is done.
        unsafe { *data.cast::<u32>() += 1 };
    }
    let emulator = Emulator::fresh();
    let setup = Setup::new();
    let mut count = 0u32;
    let data = (&raw mut count).cast();
    // SAFETY: `count` lives until the stream is done.
    unsafe { result::stream::launch_host_function(setup.first.cu_stream(), raise, data) }.expect("queue");
    assert_eq!(count, 0);
    setup.first.synchronize().expect("wait");
    assert_eq!(count, 1);
    assert_eq!(emulator.reports(), [""; 0]);
}
