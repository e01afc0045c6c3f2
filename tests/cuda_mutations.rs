//! Would the tests notice a wrong kernel? The PTX that ships is changed in memory, one instruction at a time, and every
//! change must be noticed: by the emulated driver, or by a number that is not the CPU's.
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

/// What a change is called, and the line in its place.
fn changes(line: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let code = line.trim_start();
    if code.starts_with("bar.sync") {
        found.push(("barrier dropped", String::new()));
    }
    if code.starts_with("setp.") {
        let pairs = [
            (".lt.", ".le."),
            (".le.", ".lt."),
            (".gt.", ".ge."),
            (".ge.", ".gt."),
            (".eq.", ".ne."),
            (".ne.", ".eq."),
        ];
        let other = pairs.iter().find(|(from, _)| code.contains(from)).map(|(from, to)| line.replacen(from, to, 1));
        found.extend(other.map(|line| ("bound shifted", line)));
    }
    if code.starts_with('@') && code.contains("bra") {
        found.push(("guard dropped", String::new()));
    }
    let access = ["ld.global", "st.global", "ld.shared", "st.shared"].iter().any(|start| code.starts_with(start));
    if let (true, Some(end)) = (access, line.find(']')) {
        let bytes = [("16", 2), ("32", 4), ("64", 8)];
        let opcode = code.split_whitespace().next().unwrap_or_default();
        let (_, size) = bytes.iter().find(|(bits, _)| opcode.ends_with(bits)).copied().unwrap_or(("8", 1));
        let start = line.find('[').expect("an address");
        let (base, offset) = line[start + 1..end].split_once('+').unwrap_or((&line[start + 1..end], "0"));
        let offset = offset.parse::<i64>().expect("a number") + size;
        found.push(("offset shifted", format!("{}[{base}+{offset}{}", &line[..start], &line[end..])));
    }
    if code.starts_with("st.") && !code.contains(".v2") && !code.contains(".v4") {
        let (before, register) = line.trim_end_matches(';').rsplit_once(", ").expect("a value");
        let opcode = before.split_whitespace().next().expect("an opcode");
        let dot = opcode.rfind('.').expect("a type");
        let wide = format!("{}.v2{}", &opcode[..dot], &opcode[dot..]);
        let address = &line[line.find('[').expect("an address")..=line.find(']').expect("its end")];
        found.push(("store widened", format!("\t{wide} {address}, {{{register}, {register}}};")));
    }
    if code.starts_with("shfl.sync.down") {
        found.push(("shuffle turned", line.replacen(".down", ".up", 1)));
    }
    found
}

struct Mutant {
    kernel: String,
    line: usize,
    change: &'static str,
    original: String,
    text: String,
}

fn mutants(kernel: &str) -> Vec<Mutant> {
    let (header, lines) = text_of(kernel);
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        for (change, other) in changes(line) {
            let mut changed = lines.clone();
            changed[number] = other;
            let text = format!("{header}{}\n", changed.join("\n"));
            found.push(Mutant { kernel: kernel.into(), line: number, change, original: line.trim().into(), text });
        }
    }
    found
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

#[derive(Default)]
struct Outcome {
    tried: usize,
    survivors: Vec<String>,
}

fn try_all(cuda: &Cuda, dtypes: &[DType], chosen: impl Fn(&Mutant, usize) -> bool) -> Outcome {
    let mut outcome = Outcome::default();
    // A mutant that loops for ever is ended soon; none of the cases comes near.
    cuda.set("WATCHDOG", "1000000");
    for &dtype in dtypes {
        let cases: Vec<Case> = elementwise(dtype).into_iter().chain(filters(dtype)).collect();
        let mut by_kernel: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
        for case in &cases {
            for kernel in launched(cuda, case) {
                by_kernel.entry(kernel).or_default().push(case);
            }
        }
        for (kernel, cases) in &by_kernel {
            let (header, lines) = text_of(kernel);
            let original = format!("{header}{}\n", lines.join("\n"));
            for (index, mutant) in mutants(kernel).iter().enumerate().filter(|(index, mutant)| chosen(mutant, *index)) {
                let _ = index;
                outcome.tried += 1;
                let noticed = !cuda.replace(kernel, &mutant.text)
                    || cases.iter().any(|case| !case.agrees() || !cuda.reports().is_empty());
                assert!(cuda.replace(kernel, &original), "{kernel} is restored");
                cuda.recover();
                // Memory that a failed context did not free is freed by the next call, which tells of it.
                let settled = (0..3).any(|_| copy(&tensor(&[1], &[1.0], DType::Float32), GPU).is_ok());
                assert!(settled, "the device works again after {kernel}:{}", mutant.line);
                if !noticed {
                    let Mutant { kernel, line, change, original, .. } = mutant;
                    outcome.survivors.push(format!("{kernel}:{line}: {change}: {original}"));
                }
            }
        }
    }
    cuda.set("WATCHDOG", "100000000");
    outcome
}

#[test]
#[ignore = "survey"]
fn survey() {
    let cuda = Cuda::take();
    let every: usize = std::env::var("EVERY").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let dtypes = match std::env::var("DTYPE").as_deref() {
        Ok("f16") => vec![DType::Float16],
        Ok("bf16") => vec![DType::BFloat16],
        Ok("f64") => vec![DType::Float64],
        _ => vec![DType::Float32],
    };
    let outcome = try_all(&cuda, &dtypes, |mutant, index| mutant.change == "barrier dropped" || index % every == 0);
    println!("{} tried, {} survive", outcome.tried, outcome.survivors.len());
    for survivor in outcome.survivors {
        println!("{survivor}");
    }
}
