//! What the emulator can be told: devices, versions, memory, failures, a lost device, and the files it leaves at exit.

mod common;

use common::{Emulator, code, library_path};
use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

fn module(version: &str, target: &str, body: &str) -> Ptx {
    Ptx::from_src(format!(
        ".version {version}
            .target {target}
            .address_size 64
            .visible .entry kernel()
            {{
            .reg .b32 %r<4>;
            .reg .f32 %f<4>;
            .reg .pred %p<4>;
            .reg .b64 %rd<4>;
            .shared .align 4 .b8 tile[1024];
            {body}
            ret;
            }}
            "
    ))
}

fn load(version: &str, target: &str, body: &str) -> (CUresult, Vec<String>, Emulator) {
    let emulator = Emulator::with(&[("DRIVER_VERSION", "11080"), ("ARCH", "61")]);
    let context = CudaContext::new(0).expect("a device");
    let status = code(context.load_module(module(version, target, body)));
    let reports = emulator.reports();
    (status, reports, emulator)
}

#[test]
fn devices_and_their_architecture() {
    let _emulator = Emulator::with(&[("DEVICES", "3"), ("ARCH", "50,86")]);
    assert_eq!(CudaContext::device_count().expect("count"), 3);
    let capability = |ordinal| CudaContext::new(ordinal).expect("device").compute_capability().expect("attribute");
    assert_eq!([capability(0), capability(1), capability(2)], [(5, 0), (8, 6), (8, 6)]);
    assert_eq!(code(CudaContext::new(3)), CUresult::CUDA_ERROR_INVALID_DEVICE);
}

#[test]
fn no_device_at_all() {
    let _emulator = Emulator::with(&[("DEVICES", "0")]);
    assert_eq!(code(CudaContext::new(0)), CUresult::CUDA_ERROR_NO_DEVICE);
}

#[test]
fn ptx_is_accepted_up_to_the_driver_and_the_device() {
    assert_eq!(load("6.0", "sm_50", "").0, CUresult::CUDA_SUCCESS);
    assert_eq!(load("7.8", "sm_61", "").0, CUresult::CUDA_SUCCESS);
    let (status, reports, _emulator) = load("8.0", "sm_50", "");
    assert_eq!(status, CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    assert!(reports[0].contains("reads up to 7.8"), "{reports:?}");
    drop(_emulator);
    assert_eq!(load("7.8", "sm_70", "").0, CUresult::CUDA_ERROR_INVALID_PTX);
}

#[test]
fn whatever_is_unknown_is_refused_with_its_line() {
    for body in [
        "frobnicate.b32 %r1, %r2;",
        "add.rz.f32 %f1, %f2, %f3;",
        "add.ftz.f32 %f1, %f2, %f3;",
        "ex2.approx.f32 %f1, %f2;",
        "atom.global.add.u32 %r1, [%rd1], %r2;",
        "add.u32 %r1, %rd1, %r2;",
        "add.u32 %r1, %r2;",
        "mov.u32 %r1, %clock;",
        "mov.u32 %r1, %nosuch;",
        "mov.u64 %rd1, nowhere;",
        "bra NOWHERE;",
        "bar.sync 1;",
        "bar.sync 0, 32;",
        "bar.arrive 0, 64;",
        "ld.global.relaxed.gpu.u32 %r1, [%rd1];",
        "ld.local.u32 %r1, [%rd1];",
        "ld.param.u32 %r1, [missing];",
        "setp.lt.b32 %p1, %r1, %r2;",
        "setp.ltu.u32 %p1, %r1, %r2;",
        "mov.f32 %f1, 1;",
        "mov.u32 %r1, 0f3F800000;",
        ".local .align 4 .b8 depot[16];",
        ".pragma \"something\";",
        "call nothing;",
        "cvt.rn.bf16.f32 %r1, %f1;",
        "activemask.b32 %r1;",
        "ld.global.v4.f64 {%rd1, %rd1, %rd1, %rd1}, [%rd1];",
        "@%r1 ret;",
    ] {
        let (status, reports, _emulator) = load("6.0", "sm_50", body);
        if body.starts_with("mov.u32 %r1, 0f") {
            // A float pattern is a legal constant of any type of its width.
            assert_eq!(status, CUresult::CUDA_SUCCESS, "{body}");
            continue;
        }
        assert_eq!(status, CUresult::CUDA_ERROR_INVALID_PTX, "{body}");
        assert!(reports.len() == 1 && reports[0].starts_with("refused-module: PTX line 11: "), "{body}: {reports:?}");
    }
}

#[test]
fn binary_images_are_refused() {
    let _emulator = Emulator::fresh();
    let context = CudaContext::new(0).expect("a device");
    let status = context.load_module(Ptx::from_src("\u{7f}ELF and more"));
    assert_eq!(code(status), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
}

#[test]
fn memory_runs_out_and_comes_back() {
    let emulator = Emulator::with(&[("MEMORY", "1M")]);
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    let half = stream.alloc_zeros::<u8>(600 << 10).expect("there is room");
    assert_eq!(code(stream.alloc_zeros::<u8>(600 << 10)), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    drop(half);
    stream.synchronize().expect("the free is over");
    stream.alloc_zeros::<u8>(600 << 10).expect("there is room again");
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn a_device_without_pools_uses_plain_memory() {
    let emulator = Emulator::with(&[("POOLS", "0")]);
    {
        let context = CudaContext::new(0).expect("a device");
        assert!(!context.has_async_alloc());
        let stream = context.default_stream();
        let buffer = stream.clone_htod(&[3u32; 10]).expect("copy");
        let back = stream.clone_dtoh(&buffer).expect("copy");
        stream.synchronize().expect("wait");
        assert_eq!(back, [3; 10]);
    }
    assert_eq!(emulator.reports(), [""; 0]);
    assert_eq!(emulator.leaks(), [""; 0]);
}

#[test]
fn the_nth_call_of_a_function_fails_once() {
    let emulator = Emulator::fresh();
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    emulator.set("FAIL", "cuMemAllocAsync:2,cuStreamSynchronize:1:700");
    let first = stream.alloc_zeros::<u32>(4);
    assert_eq!(code(stream.alloc_zeros::<u32>(4)), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(code(stream.alloc_zeros::<u32>(4)), CUresult::CUDA_SUCCESS);
    assert_eq!(code(stream.synchronize()), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_eq!(code(stream.synchronize()), CUresult::CUDA_SUCCESS);
    assert!(first.is_ok());
    assert!(!emulator.try_set("FAIL", "nonsense"));
    assert!(!emulator.try_set("NO_SUCH_SETTING", "1"));
    assert!(emulator.reports().iter().all(|report| report.starts_with("invalid-setting: ")));
}

#[test]
fn a_lost_device_fails_every_call_from_then_on() {
    let emulator = Emulator::fresh();
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    stream.synchronize().expect("wait");
    emulator.set("LOST_AT", "1:999");
    assert_eq!(code(stream.synchronize()), CUresult::CUDA_ERROR_UNKNOWN);
    assert_eq!(code(stream.alloc_zeros::<u32>(4)), CUresult::CUDA_ERROR_UNKNOWN);
    emulator.set("LOST_AT", "");
    stream.synchronize().expect("the device is back");
}

#[test]
fn launches_of_impossible_shape_are_refused() {
    let emulator = Emulator::fresh();
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    let module = context.load_module(module("6.0", "sm_50", "")).expect("module");
    let function = module.load_function("kernel").expect("kernel");
    let launch = |grid, block, shared_mem_bytes| {
        let config = LaunchConfig { grid_dim: grid, block_dim: block, shared_mem_bytes };
        // SAFETY: the kernel takes no argument.
        code(unsafe { stream.launch_builder(&function).launch(config) })
    };
    assert_eq!(launch((1, 1, 1), (1024, 1, 1), 47 << 10), CUresult::CUDA_SUCCESS);
    let refused = [
        launch((0, 1, 1), (32, 1, 1), 0),
        launch((1, 1, 1), (1025, 1, 1), 0),
        launch((1, 1, 1), (1, 1, 65), 0),
        launch((1, 65536, 1), (1, 1, 1), 0),
        launch((1, 1, 1), (1, 1, 1), 48 << 10),
    ];
    assert_eq!(refused, [CUresult::CUDA_ERROR_INVALID_VALUE; 5]);
    assert_eq!(emulator.reports().iter().filter(|report| report.starts_with("invalid-launch: ")).count(), 5);
    function
        .set_attribute(
            cudarc::driver::sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            64 << 10,
        )
        .expect("more shared memory on request");
    assert_eq!(launch((1, 1, 1), (1, 1, 1), 64 << 10), CUresult::CUDA_SUCCESS);
}

#[test]
fn counters_tell_good_access_from_bad() {
    const KERNEL: &str = "
.version 6.0
.target sm_50
.address_size 64
.visible .entry kernel(.param .u64 pointer, .param .u32 stride)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    .shared .align 4 .b8 tile[4096];
    ld.param.u64 %rd1, [pointer];
    ld.param.u32 %r1, [stride];
    mov.u32 %r2, %tid.x;
    mul.lo.u32 %r3, %r2, %r1;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    mov.u64 %rd4, tile;
    add.s64 %rd5, %rd4, %rd2;
    st.shared.u32 [%rd5], %r2;
    setp.lt.u32 %p1, %r2, 7;
    @%p1 bra SKIP;
    add.u32 %r4, %r2, 1;
SKIP:
    bar.sync 0;
    ret;
}
";
    let emulator = Emulator::fresh();
    let context = CudaContext::new(0).expect("a device");
    let stream = context.default_stream();
    let function = context.load_module(Ptx::from_src(KERNEL)).expect("module").load_function("kernel").expect("kernel");
    let mut buffer = stream.alloc_zeros::<u32>(1024).expect("allocation");
    for stride in [1u32, 32] {
        let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (32, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are what the kernel declares.
        unsafe { stream.launch_builder(&function).arg(&mut buffer).arg(&stride).launch(config) }.expect("launch");
    }
    stream.synchronize().expect("wait");
    let counters = emulator.counters();
    let launches: Vec<&str> = counters.split("{\"kernel\": ").skip(1).collect();
    assert_eq!(launches.len(), 2);
    for (launch, parts) in launches
        .iter()
        .zip([["\"sectors\": 4,", "\"shared_waves\": 1,"], ["\"sectors\": 32,", "\"shared_waves\": 32,"]])
    {
        let both = [
            "\"ideal_sectors\": 4,",
            "\"ideal_shared_waves\": 1,",
            "\"barriers\": 1,",
            "\"divergent_branches\": 1,",
            "\"round_trips\": 0,",
            "\"store\": 2,",
        ];
        for part in parts.iter().chain(&both) {
            assert!(launch.contains(part), "{part} in {launch}");
        }
    }
}

/// The program of the next test, run as a process of its own.
const CHILD: &str = "FIRELU_EMULATOR_TEST_CHILD";

#[test]
fn what_is_held_or_never_waited_for_is_reported_at_exit() {
    if std::env::var_os(CHILD).is_some() {
        leave_things_behind();
        return;
    }
    let folder = std::env::temp_dir().join(format!("firelu-emulator-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the reports");
    let (report, counters) = (folder.join("report"), folder.join("counters"));
    let output = std::process::Command::new(std::env::current_exe().expect("path"))
        .args(["--exact", "what_is_held_or_never_waited_for_is_reported_at_exit"])
        .env(CHILD, "1")
        .env("FIRELU_EMULATOR_LEAKS", "1")
        .env("FIRELU_EMULATOR_REPORT", &report)
        .env("FIRELU_EMULATOR_COUNTERS", &counters)
        .output()
        .expect("the child runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let text = std::fs::read_to_string(&report).expect("the child left its reports");
    for part in
        ["abandoned-work: a copy of 16 bytes to the host", "leak: 16 bytes at", "leak: 1 streams", "leak: a context"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(std::fs::read_to_string(&counters).expect("the child left its counters"), "[]");
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}

fn leave_things_behind() {
    use cudarc::driver::sys;
    // SAFETY: the emulator runs no code when it is loaded.
    let library = unsafe { libloading::os::unix::Library::open(Some(library_path()), libloading::os::unix::RTLD_NOW) };
    std::mem::forget(library.expect("the emulator is built with the tests"));
    // SAFETY: every result pointer is valid; leaking all of it is the subject of the test.
    unsafe {
        let (mut device, mut context, mut stream, mut pointer) = (0, std::ptr::null_mut(), std::ptr::null_mut(), 0);
        assert_eq!(sys::cuInit(0), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuDeviceGet(&mut device, 0), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuCtxCreate_v2(&mut context, 0, device), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuStreamCreate(&mut stream, 1), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuMemAlloc_v2(&mut pointer, 16), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuMemsetD8Async(pointer, 1, 16, stream), CUresult::CUDA_SUCCESS);
        let target = Box::leak(Box::new([0u8; 16]));
        assert_eq!(sys::cuMemcpyDtoHAsync_v2(target.as_mut_ptr().cast(), pointer, 16, stream), CUresult::CUDA_SUCCESS);
    }
}

#[test]
fn functions_are_found_by_their_plain_names() {
    let _emulator = Emulator::fresh();
    use cudarc::driver::sys;
    // SAFETY: the strings are null-terminated and the result pointers valid.
    unsafe {
        let mut function = std::ptr::null_mut();
        let found = sys::cuGetProcAddress_v2(c"cuMemAlloc".as_ptr(), &mut function, 12000, 0, std::ptr::null_mut());
        assert_eq!(found, CUresult::CUDA_SUCCESS);
        assert!(!function.is_null());
        let missing =
            sys::cuGetProcAddress_v2(c"cuNoSuchThing".as_ptr(), &mut function, 12000, 0, std::ptr::null_mut());
        assert_eq!(missing, CUresult::CUDA_ERROR_NOT_FOUND);
    }
}

#[test]
fn errors_have_names() {
    let _emulator = Emulator::fresh();
    let error = cudarc::driver::DriverError(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    assert_eq!(error.error_name().expect("name").to_str(), Ok("CUDA_ERROR_UNSUPPORTED_PTX_VERSION"));
    assert!(format!("{error}").contains("unsupported toolchain"));
}
