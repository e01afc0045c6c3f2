//! Each case of UpFirDn2d as a ratio to the fastest two-thread copy of the same bytes in the same run:
//! `cargo bench --bench upfirdn2d [-- FILTER [SECONDS]]`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use firelu::core::device::Stream;
use firelu::core::tensor::TensorViewMut;
use firelu::devices::{self, cpu::parallel};
use firelu::{Call, DType, Device, Tensor, TensorType, TensorView, UpFirDn2dArgs, registry};

struct Case {
    name: &'static str,
    shape: [usize; 4],
    dtype: DType,
    channels_last: bool,
    kernel: Vec<f32>,
    args: UpFirDn2dArgs,
}

fn separable(taps: &[f32]) -> Vec<f32> {
    let sum: f32 = taps.iter().sum();
    taps.iter().flat_map(|y| taps.iter().map(move |x| x * y / (sum * sum))).collect()
}

fn square(up: i64, down: i64, pad: (i64, i64)) -> UpFirDn2dArgs {
    UpFirDn2dArgs { up: (up, up), down: (down, down), pad_x: pad, pad_y: pad, ..Default::default() }
}

fn cases() -> Vec<Case> {
    let four = || separable(&[1., 3., 3., 1.]);
    let twelve = || separable(&[1., 2., 4., 7., 9., 10., 10., 9., 7., 4., 2., 1.]);
    let mut odd = four();
    odd[0] *= 2.0;
    let case =
        |name, shape, kernel, args| Case { name, shape, dtype: DType::Float32, channels_last: false, kernel, args };
    let big = [1, 64, 512, 512];
    vec![
        case("blur 4x4", big, four(), square(1, 1, (2, 1))),
        case("blur 4x4, width 509", [1, 64, 512, 509], four(), square(1, 1, (2, 1))),
        case("blur 4x4, out 511", big, four(), square(1, 1, (1, 1))),
        case("up 2", [1, 64, 256, 256], four(), square(2, 1, (2, 1))),
        case("down 2", big, four(), square(1, 2, (1, 1))),
        case("rgb up 2", [1, 3, 512, 512], four(), square(2, 1, (2, 1))),
        case("16x16 planes up 2", [4, 512, 16, 16], four(), square(2, 1, (2, 1))),
        case("12x12 up 2", [1, 64, 128, 128], twelve(), square(2, 1, (6, 5))),
        case("not separable 4x4", big, odd, square(1, 1, (2, 1))),
        case("up 2 down 2", big, four(), square(2, 2, (2, 1))),
        case("up 3", [1, 64, 170, 170], separable(&[1., 2., 3., 3., 2., 1.]), square(3, 1, (3, 2))),
        case("up 4", [1, 64, 128, 128], separable(&[1., 2., 3., 4., 4., 3., 2., 1.]), square(4, 1, (4, 3))),
        case("down 3", [1, 64, 510, 510], separable(&[1., 2., 3., 3., 2., 1.]), square(1, 3, (2, 1))),
        case("down 4", big, separable(&[1., 2., 3., 4., 4., 3., 2., 1.]), square(1, 4, (2, 2))),
        Case { dtype: DType::Float16, ..case("blur float16", big, four(), square(1, 1, (2, 1))) },
        Case { dtype: DType::BFloat16, ..case("blur bfloat16", big, four(), square(1, 1, (2, 1))) },
        Case { dtype: DType::Float16, ..case("up 2 float16", [1, 64, 256, 256], four(), square(2, 1, (2, 1))) },
        Case { channels_last: true, ..case("blur channels_last", big, four(), square(1, 1, (2, 1))) },
        Case { channels_last: true, ..case("up 2 channels_last", [1, 64, 256, 256], four(), square(2, 1, (2, 1))) },
        Case { channels_last: true, ..case("down 2 channels_last", big, four(), square(1, 2, (1, 1))) },
        Case { dtype: DType::Float64, ..case("blur float64", [1, 32, 512, 512], four(), square(1, 1, (2, 1))) },
        case("1x3x8x8", [1, 3, 8, 8], four(), square(1, 1, (2, 1))),
    ]
}

fn tensor(shape: &[usize], dtype: DType, channels_last: bool) -> Tensor {
    let kind = TensorType::new(shape, dtype);
    let like: Vec<isize> = match shape {
        [n, c, h, w] if channels_last => [n * c * h * w, 1, w * c, *c].iter().map(|&s| s as isize).collect(),
        _ => kind.shape.row_major_strides(dtype).to_vec(),
    };
    let strides = kind.shape.strides_like(&like, dtype);
    let bytes = kind.bytes();
    let mut tensor = devices::allocate(Device::Cpu, kind, strides).unwrap();
    // SAFETY: the tensor was just allocated with that many bytes. Small numbers of every type, no NaN.
    unsafe { tensor.view_mut().unwrap().pointer.write_bytes(0x3c, bytes) };
    tensor
}

/// Copies `bytes` on every thread, in tasks of a megabyte.
fn copy(from: &[u8], to: &mut [u8], bytes: usize, streaming: bool) {
    const TASK: usize = 1 << 20;
    let (from, to) = (from.as_ptr() as usize, to.as_mut_ptr() as usize);
    parallel::for_each(bytes.div_ceil(TASK), 2 * bytes, |task| {
        let (start, length) = (task * TASK, TASK.min(bytes - task * TASK));
        // SAFETY: both slices hold `bytes`, and tasks copy disjoint parts.
        unsafe {
            let (from, to) = ((from + start) as *const u8, (to + start) as *mut u8);
            #[cfg(target_arch = "x86_64")]
            if streaming && is_x86_feature_detected!("avx2") {
                return stream(from, to, length);
            }
            let _ = streaming;
            std::ptr::copy_nonoverlapping(from, to, length);
        }
    })
    .unwrap();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn stream(from: *const u8, to: *mut u8, length: usize) {
    use core::arch::x86_64::*;
    // SAFETY: the caller owns both ranges; lengths are multiples of a line and the target is aligned.
    unsafe {
        for at in (0..length & !63).step_by(64) {
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at + 1024).cast());
            let (a, b) = (_mm256_loadu_si256(from.add(at).cast()), _mm256_loadu_si256(from.add(at + 32).cast()));
            _mm256_stream_si256(to.add(at).cast(), a);
            _mm256_stream_si256(to.add(at + 32).cast(), b);
        }
        _mm_sfence();
    }
}

/// The processor time of all threads of this process: what a busy machine leaves of a measurement.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours and the clock exists on every system this is built for.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct Clock {
    best: Duration,
    processor: Duration,
}

impl Clock {
    fn new() -> Self {
        Clock { best: Duration::MAX, processor: Duration::MAX }
    }
    fn time(&mut self, times: u32, mut body: impl FnMut()) {
        let (start, processor) = (Instant::now(), processor_time());
        for _ in 0..times {
            body();
        }
        self.best = self.best.min(start.elapsed() / times);
        self.processor = self.processor.min((processor_time() - processor) / times);
    }
}

fn call(name: &str, inputs: &[&Tensor], output: &mut Tensor, args: &UpFirDn2dArgs) -> impl FnMut() + use<> {
    let operator = registry::find(name).unwrap();
    let args = operator.schema.resolve_args(args.named()).unwrap();
    let inputs: Vec<Tensor> = inputs.iter().map(|&tensor| tensor.clone()).collect();
    let target = output.view_mut().unwrap();
    // SAFETY: the caller keeps the output alive and unused while the closure lives.
    let target = unsafe { TensorViewMut::<'static>::from_parts(target.clone()) };
    let outputs = [Some(target)];
    move || {
        let views: Vec<Option<TensorView<'_>>> = inputs.iter().map(|tensor| Some(tensor.view())).collect();
        let kernel = operator.kernel(Device::Cpu).unwrap();
        kernel(&Call { inputs: &views, outputs: black_box(&outputs), args: &args, stream: Stream::default() }).unwrap();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let filter = words.first().cloned().unwrap_or_default();
    let seconds: f64 = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(1.0);
    println!(
        "{:<24} {:>10} {:>10} | {:>7} {:>8} {:>8}",
        "case", "copy us", "forward us", "forward", "input g.", "kernel g."
    );
    println!("{:<24} {:<4} {:>10} {:>10} | {:>7} {:>8} {:>8}", "", "", "", "", "/ copy", "/ forw.", "/ forw.");
    for case in cases().into_iter().filter(|case| case.name.contains(&filter)) {
        let side = (case.kernel.len() as f64).sqrt() as usize;
        let k = Tensor::from_vec([side, side], case.kernel.clone()).unwrap();
        let mut x = tensor(&case.shape, case.dtype, case.channels_last);
        let shapes = [Some(x.kind()), Some(k.kind())];
        let operator = registry::find("UpFirDn2d").unwrap();
        let args = operator.schema.resolve_args(case.args.named()).unwrap();
        let out = operator.schema.infer(&shapes, &args).unwrap()[0].shape.clone();
        let (mut y, dy) = (tensor(&out, case.dtype, case.channels_last), tensor(&out, case.dtype, case.channels_last));
        let mut dx = tensor(&case.shape, case.dtype, case.channels_last);
        let mut dk = Tensor::from_vec([side, side], vec![0f32; side * side]).unwrap();
        let bytes = (x.kind().bytes() + y.kind().bytes()) / 2;
        let (from, to) =
            (tensor(&[bytes / 4 + 64], DType::Float32, false), tensor(&[bytes / 4 + 64], DType::Float32, false));
        // SAFETY: both tensors own that many bytes and nobody else writes to them.
        let (from, to) = unsafe {
            let (from, to) = (from.view().pointer, to.view().pointer);
            (std::slice::from_raw_parts(from, bytes), std::slice::from_raw_parts_mut(to, bytes))
        };
        let x_shape = x.clone();
        let mut forward = call("UpFirDn2d", &[&x_shape, &k], &mut y, &case.args);
        let mut gradient = call("UpFirDn2dGradient", &[&dy, &k, &x_shape], &mut dx, &case.args);
        let mut of_kernel = call("UpFirDn2dKernelGradient", &[&x_shape, &dy, &k], &mut dk, &case.args);
        let times = ((1 << 20) / bytes.max(1)).clamp(1, 1000) as u32;
        let mut clocks = [(); 5].map(|()| Clock::new());
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < seconds || clocks[0].best == Duration::MAX {
            clocks[0].time(times, || copy(from, to, bytes, true));
            clocks[1].time(times, || copy(from, to, bytes, false));
            clocks[2].time(times, &mut forward);
            clocks[3].time(times, &mut gradient);
            clocks[4].time(times, &mut of_kernel);
        }
        for (kind, of) in [("wall", (|clock| clock.best) as fn(&Clock) -> Duration), ("cpu", |clock| clock.processor)] {
            let [streamed, plain, forward, gradient, of_kernel] =
                [0, 1, 2, 3, 4].map(|index| of(&clocks[index]).as_secs_f64() * 1e6);
            let copy = streamed.min(plain);
            println!(
                "{:<24} {kind:<4} {copy:>10.2} {forward:>10.2} | {:>7.2} {:>8.2} {:>8.2}",
                case.name,
                forward / copy,
                gradient / forward,
                of_kernel / forward
            );
        }
        black_box(x.view_mut());
    }
}
