//! Would the tests notice a wrong kernel? Each barrier is taken out of the PTX that ships, in memory, one at a time, and
//! each must be missed: by the emulated driver, or by a number that is not the CPU's.
#![cfg(all(feature = "cuda", unix))]

mod common;

use std::collections::BTreeMap;

use common::Cuda;
use common::operands::{GPU, Lay, bound, float, pair, same_bits, taps, tensor, values};
use firelu::devices::copy;
use firelu::devices::cuda::modules::MODULES;
use firelu::{ArgValue, DType, Device, Tensor, registry};

/// An operator with operands on both devices, and what the CPU says.
struct Case {
    name: &'static str,
    inputs: Vec<Option<[Tensor; 2]>>,
    args: Vec<(&'static str, ArgValue)>,
    /// Terms and magnitude of sums; none where the bits must be the same. One for each output.
    sums: Vec<Option<(f64, f64)>>,
    expected: Vec<(DType, Vec<f64>)>,
}

impl Case {
    fn new(
        name: &'static str,
        inputs: Vec<Option<[Tensor; 2]>>,
        args: Vec<(&'static str, ArgValue)>,
        sums: Vec<Option<(f64, f64)>>,
    ) -> Self {
        let host: Vec<_> = inputs.iter().map(|input| input.as_ref().map(|pair| &pair[0])).collect();
        let expected = registry::run(name, &host, args.iter().cloned()).unwrap();
        let expected = expected.iter().map(|y| (y.dtype(), y.to_f64_vec().unwrap())).collect();
        Case { name, inputs, args, sums, expected }
    }

    /// Whether the device agrees with the CPU, and no call failed.
    fn agrees(&self) -> bool {
        let inputs: Vec<_> = self.inputs.iter().map(|input| input.as_ref().map(|pair| &pair[1])).collect();
        let Ok(results) = registry::run(self.name, &inputs, self.args.iter().cloned()) else { return false };
        results.iter().zip(&self.expected).zip(&self.sums).all(|((result, (dtype, expected)), sum)| {
            let Ok(found) = copy(result, Device::Cpu).and_then(|found| found.to_f64_vec()) else { return false };
            expected.iter().zip(&found).all(|(&a, &b)| match *sum {
                None => same_bits(a, b),
                Some((terms, size)) => {
                    same_bits(a, b) || (a - b).abs() <= bound(*dtype, dtype.compute(), (a, b), terms, size)
                }
            })
        })
    }
}

const LAYS: [Lay; 4] = [Lay::RowMajor, Lay::ChannelsLast, Lay::Sliced, Lay::Shifted];

fn elementwise(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    let operand = |shape: &[usize], lay, seed| Some(pair(shape, lay, dtype, seed));
    for shape in [&[3, 5][..], &[1030], &[4130], &[2, 8, 5, 6], &[1, 2, 33, 65], &[2, 3, 32, 64]] {
        for lay in LAYS {
            let alpha = vec![("alpha", float(-0.5))];
            cases.push(Case::new("LeakyRelu", vec![operand(shape, lay, 1)], alpha.clone(), vec![None]));
            let inputs = vec![operand(shape, lay, 1), operand(shape, lay, 2)];
            cases.push(Case::new("LeakyReluGradient", inputs.clone(), alpha, vec![None]));
            for name in ["Add", "Sub", "Mul"] {
                cases.push(Case::new(name, inputs.clone(), vec![], vec![None]));
            }
            let many = (0..11).map(|k| operand(shape, lay, k)).collect();
            cases.push(Case::new("Sum", many, vec![], vec![None]));
            let args = vec![("scale", float(0.5))];
            cases.push(Case::new(
                "BroadcastLike",
                vec![operand(shape, lay, 1), operand(shape, lay, 2)],
                args,
                vec![None],
            ));
            if shape.len() < 2 {
                continue;
            }
            let args = vec![("alpha", float(-0.5)), ("scale", float(1.4))];
            let terms = (shape.iter().product::<usize>() / shape[1]) as f64;
            for kind in DType::ALL.into_iter().filter(|kind| *kind == dtype || dtype.size() == 2) {
                if kind.size() == 2 && kind != dtype {
                    continue;
                }
                let bias = Some(pair(&[shape[1]], Lay::RowMajor, kind, 3));
                let inputs = vec![operand(shape, lay, 1), bias.clone()];
                cases.push(Case::new("FusedLeakyRelu", inputs, args.clone(), vec![None]));
                for dy in [operand(shape, lay, 2), None] {
                    let inputs = vec![operand(shape, lay, 1), dy, bias.clone()];
                    let sums = vec![None, Some((terms.min(64.0), 6.0 * (terms / 64.0).max(1.0)))];
                    cases.push(Case::new("FusedLeakyReluGradient", inputs, args.clone(), sums));
                }
            }
            let sums = vec![Some((terms.min(64.0), 2.0 * (terms / 64.0).max(1.0)))];
            let axes = (0..shape.len() as i64).filter(|&axis| axis != 1).collect();
            let args = vec![("axes", ArgValue::Ints(axes)), ("scale", float(0.75))];
            cases.push(Case::new("ReduceSum", vec![operand(shape, lay, 1)], args, sums));
        }
    }
    let broadcast = vec![operand(&[3, 1, 4], Lay::RowMajor, 1), operand(&[2, 1], Lay::RowMajor, 2)];
    cases.push(Case::new("Mul", broadcast, vec![], vec![None]));
    let args = vec![("scale", float(0.75))];
    cases.push(Case::new("ReduceSum", vec![operand(&[20000], Lay::RowMajor, 1)], args, vec![Some((64.0, 600.0))]));
    cases
}

fn filters(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    let kinds: [(&[usize], usize, i64, i64); 14] = [
        (&[2, 3, 9, 9], 4, 1, 1),
        (&[2, 3, 9, 9], 4, 2, 1),
        (&[2, 3, 9, 9], 4, 1, 2),
        (&[1, 2, 17, 24], 4, 1, 1),
        (&[1, 1, 9, 150], 4, 1, 1),
        (&[1, 1, 9, 150], 4, 2, 1),
        (&[1, 1, 9, 300], 4, 1, 2),
        (&[2, 16, 6, 20], 4, 1, 1),
        (&[2, 16, 6, 20], 4, 2, 1),
        (&[1, 24, 6, 20], 4, 1, 2),
        (&[2, 2, 9, 11], 5, 3, 2),
        (&[1, 1, 20, 150], 12, 2, 1),
        (&[1, 2, 18, 20], 3, 1, 1),
        (&[1, 2, 40, 40], 17, 1, 1),
    ];
    for (turn, (shape, size, up, down)) in kinds.into_iter().enumerate() {
        for lay in LAYS {
            for kernel in [taps(size, size, true, DType::Float32), taps(size, size, false, dtype)] {
                let x = pair(shape, lay, dtype, 1);
                let pad = size as i64 / 2;
                let args = vec![
                    ("up_x", ArgValue::Int(up)),
                    ("up_y", ArgValue::Int(up)),
                    ("down_x", ArgValue::Int(down)),
                    ("down_y", ArgValue::Int(down)),
                    ("pad_x0", ArgValue::Int(pad)),
                    ("pad_x1", ArgValue::Int(pad - 1)),
                    ("pad_y0", ArgValue::Int(pad - 1)),
                    ("pad_y1", ArgValue::Int(pad)),
                    ("flip_kernel", ArgValue::Bool(turn % 2 == 0)),
                    ("gain", float(1.5)),
                ];
                let terms = (size * size) as f64;
                let sums = vec![Some((terms, 48.0))];
                let forward =
                    Case::new("UpFirDn2d", vec![Some(x.clone()), Some(kernel.clone())], args.clone(), sums.clone());
                let out = registry::run("UpFirDn2d", &[Some(&x[0]), Some(&kernel[0])], args.iter().cloned()).unwrap();
                let dy = Some(pair(out[0].shape(), lay, dtype, 5));
                let inputs = vec![dy.clone(), Some(kernel.clone()), Some(x.clone())];
                cases.push(forward);
                cases.push(Case::new("UpFirDn2dGradient", inputs, args.clone(), sums));
                let products = out[0].shape().iter().product::<usize>() as f64;
                let sums = vec![Some((products.min(64.0), 6.0 * (products / 64.0).max(1.0)))];
                cases.push(Case::new("UpFirDn2dKernelGradient", vec![Some(x), dy, Some(kernel)], args, sums));
            }
        }
    }
    // Kernels that fit no window, and a tap that is infinite.
    let (x, k) = (pair(&[1, 1, 122, 124], Lay::RowMajor, dtype, 1), taps(121, 123, false, dtype));
    cases.push(Case::new("UpFirDn2d", vec![Some(x.clone()), Some(k.clone())], vec![], vec![Some((14883.0, 4.0))]));
    let dy = pair(&[1, 1, 2, 2], Lay::RowMajor, dtype, 5);
    let inputs = vec![Some(x), Some(dy), Some(k)];
    cases.push(Case::new("UpFirDn2dKernelGradient", inputs, vec![], vec![Some((4.0, 4.0))]));
    let mut full = values(16, 13, dtype);
    full[0] = f64::INFINITY;
    let host = tensor(&[4, 4], &full, dtype);
    let k = [host.clone(), copy(&host, GPU).unwrap()];
    for lay in [Lay::RowMajor, Lay::ChannelsLast, Lay::Sliced] {
        let inputs = vec![Some(pair(&[1, 8, 6, 7], lay, dtype, 1)), Some(k.clone())];
        cases.push(Case::new("UpFirDn2d", inputs, vec![], vec![Some((16.0, 8.0))]));
    }
    cases
}

/// One kernel's text with everything that it needs before it.
fn text_of(kernel: &str) -> (String, Vec<String>) {
    let entry = format!(".visible .entry {kernel}(");
    let (_, text) = MODULES.iter().find(|(_, text)| text.contains(&entry)).expect("a kernel that ships");
    let header = &text[..text.find(".visible .entry").expect("kernels")];
    let start = text.find(&entry).expect("this kernel");
    let length = text[start..].find("\n}").expect("its end") + 2;
    (header.to_string(), text[start..start + length].lines().map(str::to_string).collect())
}

/// A kernel's text without one of its barriers, for each of them.
fn without_barriers(kernel: &str) -> Vec<(usize, String)> {
    let (header, lines) = text_of(kernel);
    let barriers = (0..lines.len()).filter(|&number| lines[number].trim_start().starts_with("bar.sync"));
    let without = |number: usize| {
        let mut changed = lines.clone();
        changed[number].clear();
        (number, format!("{header}{}\n", changed.join("\n")))
    };
    barriers.map(without).collect()
}

/// The kernels that a case launches.
fn launched(cuda: &Cuda, case: &Case) -> Vec<String> {
    cuda.clear_counters();
    assert!(case.agrees(), "{} agrees before anything is changed: {}", case.name, cuda.reports());
    let text = cuda.counters();
    let mut names: Vec<String> =
        text.split("\"kernel\": \"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_string).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn every_barrier_is_missed() {
    let cuda = Cuda::take();
    if cuda.is_real() {
        return; // A GPU neither takes other instructions nor reports a race.
    }
    let dtype = DType::Float32;
    let cases: Vec<Case> = elementwise(dtype).into_iter().chain(filters(dtype)).collect();
    let mut by_kernel: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
    for case in &cases {
        for kernel in launched(&cuda, case) {
            by_kernel.entry(kernel).or_default().push(case);
        }
    }
    let mut tried = 0;
    for (kernel, cases) in &by_kernel {
        let (header, lines) = text_of(kernel);
        let original = format!("{header}{}\n", lines.join("\n"));
        for (line, text) in without_barriers(kernel) {
            tried += 1;
            assert!(cuda.replace(kernel, &text), "{kernel} without line {line} is loaded");
            let noticed = cases.iter().any(|case| !case.agrees() || !cuda.reports().is_empty());
            assert!(cuda.replace(kernel, &original), "{kernel} is restored");
            cuda.recover();
            // Memory that a failed context did not free is freed by the next call, which tells of it.
            let settled = (0..3).any(|_| copy(&tensor(&[1], &[1.0], DType::Float32), GPU).is_ok());
            assert!(settled, "the device works again after {kernel}:{line}");
            assert!(noticed, "{kernel} without the barrier of line {line} passes every test");
        }
    }
    println!("{tried} barriers, each missed");
    assert!(tried >= 25, "{tried} barriers");
}
