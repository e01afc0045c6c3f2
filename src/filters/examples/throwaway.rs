use firelu_core::tensor::Tensor;
use firelu_cpu::features::Level;
use firelu_cpu::parallel;
use firelu_filters::axis::{Axis, Geometry};
use firelu_filters::border::Border;
use firelu_filters::pipeline::{self, Between, Filter, Grid, Request};
struct Lrelu;
impl Between<f32> for Lrelu {
    fn apply(&self, _c: usize, row: &mut [f32], others: &[&[f32]]) {
        match others {
            [] => unsafe { forward(row) },
            [t, ..] => unsafe { back(row, t) },
        }
    }
    fn is_alike(&self) -> bool {
        true
    }
}
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
unsafe fn forward(row: &mut [f32]) {
    for v in row {
        let s = if *v < 0.0 { 0.2 * *v } else { *v };
        *v = (s * 1.4).max(-256.0).min(256.0);
    }
}
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
unsafe fn back(row: &mut [f32], t: &[f32]) {
    for (v, t) in row.iter_mut().zip(t) {
        let s = if *t < 0.0 { 0.2 * 1.4 } else { 1.4 };
        *v = if (*t * s).abs() < 256.0 { *v * s } else { 0.0 };
    }
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).map(|s| &s[..]) == Some("avx2") {
        Level::set_current(Level::Avx2).unwrap();
    }
    let only = args.get(2).cloned().unwrap_or_default();
    let threads = 2;
    let rate = parallel::with_threads(threads, || firelu_filters::rate::multiply_adds_per_second::<f32>()).unwrap();
    println!("rate {:.1}", rate / 1e9);
    let mut seed = 1u64;
    let mut numbers = move |n: usize| -> Vec<f32> {
        (0..n)
            .map(|_| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((seed >> 40) as f32 / (1u64 << 24) as f32) - 0.5
            })
            .collect()
    };
    for (name, c, s, up, radial) in [
        ("276", 64usize, 276usize, 2i64, false),
        ("84", 256, 84, 2, false),
        ("36", 256, 36, 2, false),
        ("radial", 256, 84, 2, true),
        ("up4", 256, 52, 4, false),
    ] {
        if !only.is_empty() && only != name {
            continue;
        }
        let pads = if up == 2 { (9, 8) } else { (19, 18) };
        let ax = Axis::new(s, 6 * up as usize, up, 1, pads).unwrap();
        let ug = Geometry { x: ax, y: ax };
        let dx = Axis::new(ax.output as usize, 12, 1, 2, (0, 0)).unwrap();
        let dg = Geometry { x: dx, y: dx };
        let o = dx.output as usize;
        let line = |taps: &[f32]| -> Vec<f64> {
            taps.iter().flat_map(|&y| taps.iter().map(move |&x| f64::from(x) * f64::from(y))).collect()
        };
        let uk = line(&numbers(6 * up as usize));
        let dk: Vec<f64> = if radial { numbers(144).into_iter().map(f64::from).collect() } else { line(&numbers(12)) };
        let uk = Tensor::from_vec([6 * up as usize, 6 * up as usize], uk).unwrap();
        let dk = Tensor::from_vec([12usize, 12], dk).unwrap();
        let (uv, dv) = (uk.view(), dk.view());
        let x = Tensor::from_vec([1, c, s, s], numbers(c * s * s)).unwrap();
        let dy = Tensor::from_vec([1, c, o, o], numbers(c * o * o)).unwrap();
        let bias = numbers(c);
        let kept = (up * up / 4) as f64;
        let per = 6.0 * up as f64
            + 6.0 * (up * up) as f64
            + if radial { 144.0 * kept } else { 12.0 * (up * (up / 2)) as f64 + 12.0 * kept };
        let work = per * (c * s * s) as f64;
        for back in [false, true] {
            let grid = if back { Grid::Input } else { Grid::Output };
            let m = if back { s } else { o };
            let mut out = Tensor::from_vec([1, c, m, m], vec![0f32; c * m * m]).unwrap();
            let xv = x.view();
            let dyv = dy.view();
            let streams = [(&*dyv, Grid::Output)];
            let mut best = f64::INFINITY;
            {
                let target = out.view_mut().unwrap();
                let filter = |geometry, kernel, gain| Filter {
                    geometry,
                    kernel,
                    reverse: false,
                    gain,
                    border: Border::Constant,
                };
                let request = Request {
                    up: filter(ug, &uv, 4.0),
                    down: filter(dg, &dv, 1.0),
                    argument: &xv,
                    bias: Some(&bias),
                    streams: if back { &streams } else { &[] },
                    output: (&target, grid),
                    channel_axis: Some(1),
                    between: &Lrelu,
                };
                parallel::with_threads(threads, || {
                    for _ in 0..25 {
                        let t = std::time::Instant::now();
                        pipeline::run::<f32>(&request).unwrap();
                        best = best.min(t.elapsed().as_secs_f64());
                    }
                });
            }
            let values = out.to_vec::<f32>().unwrap();
            let hash = values.iter().fold(0u64, |h, v| h.wrapping_mul(31).wrapping_add(v.to_bits() as u64));
            println!(
                "{name} back {back}: {:.3} ms  {:.1} G/s {:.1}%  hash {hash:x}",
                best * 1e3,
                work / best / 1e9,
                work / best / rate * 100.0
            );
        }
    }
}
