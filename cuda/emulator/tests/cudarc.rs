//! An unmodified cudarc program on the emulator: contexts, streams, events, both kinds of allocation, copies, modules,
//! launches.

mod common;

use common::{Emulator, Kernel};
use cudarc::driver::{CudaContext, DeviceRepr, LaunchConfig, PushKernelArg, result, sys};

const ELEMENTWISE: &str = include_str!("kernels/elementwise.ptx");
const COOPERATIVE: &str = include_str!("kernels/cooperative.ptx");
const ARITHMETIC: &str = include_str!("kernels/arithmetic.ptx");

#[repr(C)]
struct Arguments {
    input: u64,
    output: u64,
    length: i64,
    slope: f32,
}

// SAFETY: a C structure of plain numbers, as the kernel declares it.
unsafe impl DeviceRepr for Arguments {}

fn shape(grid: u32, block: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (block, 1, 1), shared_mem_bytes: 0 }
}

fn leaky(x: f32, slope: f32) -> f32 {
    if x > 0.0 { x } else { x * slope }
}

#[test]
fn vector_loads_and_a_scalar_tail_give_the_right_bits() {
    let emulator = Emulator::fresh();
    let kernel = Kernel::load(ELEMENTWISE, "leaky_f32");
    for length in [1, 3, 4, 5, 127, 1000, 4099] {
        let input: Vec<f32> = (0..length).map(|i| (i as f32 - 500.0) * 0.37).collect();
        let source = kernel.stream.clone_htod(&input).expect("copy");
        // SAFETY: the kernel writes every element before anything reads it.
        let target = unsafe { kernel.stream.alloc::<f32>(length) }.expect("allocation");
        let arguments = {
            use cudarc::driver::DevicePtr;
            let (input, _first) = source.device_ptr(&kernel.stream);
            let (output, _second) = target.device_ptr(&kernel.stream);
            Arguments { input, output, length: length as i64, slope: 0.2 }
        };
        // SAFETY: the arguments are what the kernel declares.
        unsafe {
            kernel
                .stream
                .launch_builder(&kernel.function)
                .arg(&arguments)
                .launch(shape(length.div_ceil(512) as u32, 128))
        }
        .expect("launch");
        let output = kernel.stream.clone_dtoh(&target).expect("copy");
        kernel.stream.synchronize().expect("wait");
        let expected: Vec<f32> = input.iter().map(|&x| leaky(x, 0.2)).collect();
        assert_eq!(output, expected, "length {length}");
    }
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn a_tiled_filter_in_shared_memory_agrees_with_the_formula() {
    let emulator = Emulator::fresh();
    let kernel = Kernel::load(COOPERATIVE, "filter_rows");
    let (width, height) = (75usize, 19usize);
    let input: Vec<f32> = (0..width * height).map(|i| ((i * 37) % 101) as f32 * 0.25 - 7.0).collect();
    let taps = [0.25f32, -0.5, 1.0, 0.125];
    let source = kernel.stream.clone_htod(&input).expect("copy");
    let weights = kernel.stream.clone_htod(&taps).expect("copy");
    let mut target = kernel.stream.alloc_zeros::<f32>(width * height).expect("allocation");
    let config = LaunchConfig {
        grid_dim: (width.div_ceil(32) as u32, height.div_ceil(8) as u32, 1),
        block_dim: (32, 8, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the arguments are what the kernel declares.
    unsafe {
        kernel
            .stream
            .launch_builder(&kernel.function)
            .arg(&source)
            .arg(&weights)
            .arg(&mut target)
            .arg(&(width as i32))
            .arg(&(height as i32))
            .launch(config)
    }
    .expect("launch");
    let output = kernel.stream.clone_dtoh(&target).expect("copy");
    kernel.stream.synchronize().expect("wait");
    for y in 0..height {
        for x in 0..width {
            let at = |t: usize| if x + t < width { input[y * width + x + t] } else { 0.0 };
            let expected = (0..4).fold(0.0f32, |sum, t| at(t).mul_add(taps[t], sum));
            assert_eq!(output[y * width + x].to_bits(), expected.to_bits(), "at {x}, {y}");
        }
    }
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn a_reduction_with_shuffles_and_dynamic_shared_memory_sums() {
    let emulator = Emulator::fresh();
    let kernel = Kernel::load(COOPERATIVE, "block_sums");
    let input: Vec<f32> = (0..10_000).map(|i| (i % 64) as f32).collect();
    let source = kernel.stream.clone_htod(&input).expect("copy");
    let mut target = kernel.stream.alloc_zeros::<f32>(8).expect("allocation");
    let config = LaunchConfig { grid_dim: (8, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 8 * 4 };
    // SAFETY: the arguments are what the kernel declares.
    unsafe {
        kernel.stream.launch_builder(&kernel.function).arg(&source).arg(&mut target).arg(&10_000i32).launch(config)
    }
    .expect("launch");
    let output = kernel.stream.clone_dtoh(&target).expect("copy");
    kernel.stream.synchronize().expect("wait");
    // Whole numbers below 2^24 are exact in any order.
    assert_eq!(output.iter().sum::<f32>(), input.iter().sum::<f32>());
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn warp_barriers_and_votes_work() {
    let emulator = Emulator::fresh();
    let kernel = Kernel::load(COOPERATIVE, "transpose_in_warp");
    let input: Vec<i32> = (0..32).collect();
    let source = kernel.stream.clone_htod(&input).expect("copy");
    let mut target = kernel.stream.alloc_zeros::<i32>(32).expect("allocation");
    // SAFETY: the arguments are what the kernel declares.
    unsafe { kernel.stream.launch_builder(&kernel.function).arg(&source).arg(&mut target).launch(shape(1, 32)) }
        .expect("launch");
    let output = kernel.stream.clone_dtoh(&target).expect("copy");
    kernel.stream.synchronize().expect("wait");
    let expected: Vec<i32> = (0..32).map(|lane| 31 - lane + 16).collect();
    assert_eq!(output, expected);
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn module_variables_hold_their_initial_values() {
    let emulator = Emulator::fresh();
    let kernel = Kernel::load(ARITHMETIC, "constants");
    let mut target = kernel.stream.alloc_zeros::<f32>(8).expect("allocation");
    // SAFETY: the arguments are what the kernel declares.
    unsafe { kernel.stream.launch_builder(&kernel.function).arg(&mut target).launch(shape(1, 8)) }.expect("launch");
    let output = kernel.stream.clone_dtoh(&target).expect("copy");
    kernel.stream.synchronize().expect("wait");
    assert_eq!(output, [7.5, 6.0, 9.0, 11.0, 7.5, 6.0, 9.0, 11.0]);
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn streams_and_events_order_work_and_nothing_leaks() {
    let emulator = Emulator::fresh();
    {
        let kernel = Kernel::load(ELEMENTWISE, "leaky_scalar");
        let (first, second) =
            (kernel.context.new_stream().expect("stream"), kernel.context.new_stream().expect("stream"));
        let input: Vec<f32> = (0..5000).map(|i| i as f32 - 2500.0).collect();
        let source = first.clone_htod(&input).expect("copy");
        let mut middle = first.alloc_zeros::<f32>(5000).expect("allocation");
        let mut target = second.alloc_zeros::<f32>(5000).expect("allocation");
        let config = shape(5, 256);
        // SAFETY: the arguments are what the kernel declares.
        unsafe {
            first
                .launch_builder(&kernel.function)
                .arg(&source)
                .arg(&mut middle)
                .arg(&5000i64)
                .arg(&0.5f32)
                .launch(config)
                .expect("launch");
            second
                .launch_builder(&kernel.function)
                .arg(&middle)
                .arg(&mut target)
                .arg(&5000i64)
                .arg(&0.5f32)
                .launch(config)
                .expect("launch");
        }
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let start = first.record_event(flags).expect("event");
        let end = second.record_event(flags).expect("event");
        assert!(start.elapsed_ms(&end).expect("both are reached") >= 0.0);
        let output = second.clone_dtoh(&target).expect("copy");
        second.synchronize().expect("wait");
        let expected: Vec<f32> = input.iter().map(|&x| leaky(leaky(x, 0.5), 0.5)).collect();
        assert_eq!(output, expected);
    }
    assert_eq!(emulator.reports(), [""; 0]);
    assert_eq!(emulator.leaks(), [""; 0]);
}

#[test]
fn plain_memory_pinned_memory_and_attributes_work_without_pools() {
    let emulator = Emulator::fresh();
    {
        let context = CudaContext::new(0).expect("a device");
        assert_eq!(context.compute_capability().expect("attribute"), (7, 5));
        assert!(context.name().expect("name").contains("emulated"));
        let stream = context.default_stream();
        // SAFETY: every pointer is used within its size and freed once.
        unsafe {
            let pointer = result::malloc_sync(64).expect("allocation");
            let numbers: Vec<u32> = (0..16).collect();
            result::memcpy_htod_sync(pointer, &numbers).expect("copy");
            let mut back = vec![0u32; 16];
            result::memcpy_dtoh_sync(&mut back, pointer).expect("copy");
            assert_eq!(back, numbers);
            result::free_sync(pointer).expect("free");
            let mut pinned = context.alloc_pinned::<u32>(16).expect("pinned");
            pinned.as_mut_slice().expect("slice").copy_from_slice(&numbers);
            let device = stream.clone_htod(&pinned).expect("copy");
            let mut other = context.alloc_pinned::<u32>(16).expect("pinned");
            stream.memcpy_dtoh(&device, &mut other).expect("copy");
            // With a single stream cudarc records no event for pinned memory, so its slices do not wait by themselves.
            stream.synchronize().expect("wait");
            assert_eq!(other.as_slice().expect("slice"), numbers);
        }
        let (free, total) = context.mem_get_info().expect("info");
        assert!(free <= total);
    }
    assert_eq!(emulator.reports(), [""; 0]);
    assert_eq!(emulator.leaks(), [""; 0]);
}
