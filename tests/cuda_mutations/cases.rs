//! Calls that together reach every guard of the kernels, with operands whose sums are exact: whole numbers, none of
//! them zero, so that a term too many or too few is a wrong result, whatever the order of the sum.

use std::fmt;

use super::common::operands::{GPU, float, pair, pair_of, same_bits, tensor};
use firelu::devices::{allocate, copy};
use firelu::{ArgValue, Call, DType, Device, Result, Strides, Tensor, TensorType, TensorView, TensorViewMut, registry};
use firelu_test_support::layouts::Layout;
use firelu_test_support::numbers::Numbers;

/// An operator with operands on both devices, and what the CPU says.
pub struct Case {
    pub name: String,
    inputs: Vec<Option<[Tensor; 2]>>,
    args: Vec<(&'static str, ArgValue)>,
    /// By the place of an output; those left out are wanted.
    unwanted: Option<usize>,
    /// Whether the operands are copied on their device before.
    of_copies: bool,
    pub expected: Vec<Vec<f64>>,
}

impl Case {
    pub fn new(name: &str, inputs: Vec<Option<[Tensor; 2]>>, args: Vec<(&'static str, ArgValue)>) -> Self {
        let mut case = Case { name: name.into(), inputs, args, unwanted: None, of_copies: false, expected: vec![] };
        case.expected = case.run(0).expect("the CPU computes it");
        case
    }

    /// The same without one of its outputs.
    fn without(mut self, output: usize) -> Self {
        self.unwanted = Some(output);
        self.expected.remove(output);
        self
    }

    /// The same on copies of its operands.
    fn of_copies(mut self) -> Self {
        self.of_copies = true;
        self
    }

    /// What the CPU (0) or the device (1) gives for the outputs that are wanted.
    fn run(&self, place: usize) -> Result<Vec<Vec<f64>>> {
        let operator = registry::find(&self.name)?;
        let args = operator.schema.resolve_args(self.args.iter().cloned())?;
        let given = |tensor: &Tensor| if self.of_copies { copy(tensor, tensor.device()) } else { Ok(tensor.clone()) };
        let tensors = self.inputs.iter().map(|input| input.as_ref().map(|pair| given(&pair[place])).transpose());
        let tensors = tensors.collect::<Result<Vec<_>>>()?;
        let views: Vec<Option<TensorView<'_>>> =
            tensors.iter().map(|tensor| tensor.as_ref().map(Tensor::view)).collect();
        let parts: Vec<_> = views.iter().map(Option::as_deref).collect();
        let (device, kinds) = operator.schema.check(&parts, &[], &args)?;
        let mut outputs = Vec::new();
        for (output, kind) in kinds.into_iter().enumerate() {
            let strides = operator.schema.output_strides(&parts, &kind);
            let wanted = (self.unwanted != Some(output)).then(|| allocate(device, kind, strides));
            outputs.push(wanted.transpose()?);
        }
        let targets: Vec<Option<TensorViewMut<'_>>> =
            outputs.iter_mut().map(|output| output.as_mut().and_then(Tensor::view_mut)).collect();
        let call = Call { inputs: &views, outputs: &targets, args: &args, stream: Default::default() };
        operator.kernel(device)?(&call)?;
        drop(targets);
        outputs.iter().flatten().map(|output| copy(output, Device::Cpu).and_then(|found| found.to_f64_vec())).collect()
    }

    /// Whether the device agrees with the CPU, to the bit but for the sign of a filter's zeros, and no call failed.
    pub fn agrees(&self) -> bool {
        let Ok(results) = self.run(1) else { return false };
        let is_filter = self.name.starts_with("UpFirDn2d");
        let same = |(&a, &b): (&f64, &f64)| same_bits(a, b) || is_filter && a == b;
        results.iter().zip(&self.expected).all(|(found, expected)| expected.iter().zip(found).all(same))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.inputs.iter().flatten().map(|pair| (pair[0].kind(), pair[0].strides())).collect();
        write!(f, "{} of {kinds:?} {:?} without {:?}", self.name, self.args, self.unwanted)
    }
}

pub const LAYOUTS: [Layout; 4] = [Layout::RowMajor, Layout::ChannelsLast, Layout::Sliced, Layout::Shifted];

/// Whole numbers from -3 to 3 without zero.
pub fn whole(count: usize, seed: u64) -> Vec<f64> {
    Numbers::new(seed).list(count, Numbers::next_whole)
}

pub fn exact(shape: &[usize], layout: Layout, dtype: DType, seed: u64) -> [Tensor; 2] {
    pair_of(shape, layout, dtype, |count| whole(count, seed))
}

pub fn elementwise(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    // The last element is any of the four of a thread.
    let of_a_thread = [&[2, 3, 10, 10][..], &[2, 3, 10, 15]];
    for shape in
        [&[3, 5][..], &[1030], &[4130], &[2, 8, 5, 6], &[1, 2, 33, 65], &[2, 3, 32, 64]].into_iter().chain(of_a_thread)
    {
        for layout in LAYOUTS {
            cases.extend(maps(shape, layout, dtype));
            cases.extend(maps(shape, layout, dtype).into_iter().take(1).map(Case::of_copies));
            cases.extend(sums(shape, layout, &[11], dtype));
            cases.extend(fused(shape, layout, dtype));
            cases.extend(activated(shape, layout, dtype));
            cases.extend(waved(shape, layout, dtype));
            let axes: Vec<usize> = (0..shape.len()).filter(|&axis| axis != 1).collect();
            cases.extend([reduced(shape, layout, &axes, dtype)]);
        }
    }
    cases.extend(filtered(dtype));
    // Every rank that a kernel takes, of dimensions that cannot be merged, reduced over some of them.
    for rank in 1..=8 {
        let shape: Vec<usize> = (0..rank).map(|axis| 2 + axis % 2).collect();
        cases.extend(maps(&shape, Layout::Sliced, dtype));
        cases.extend(maps(&shape, Layout::Sliced, dtype).into_iter().take(1).map(Case::of_copies));
        cases.extend(sums(&shape, Layout::Sliced, &[1, 2, 3], dtype));
        cases.extend(fused(&shape, Layout::Sliced, dtype));
        for axes in [(0..rank).collect::<Vec<_>>(), (0..rank).step_by(2).collect(), (1..rank).collect(), vec![rank - 1]]
        {
            cases.extend([reduced(&shape, Layout::Sliced, &axes, dtype)]);
        }
        // Long sums: one block for each, of several rounds and of several chunks.
        let long: Vec<usize> = [50, 11].into_iter().chain(shape).take(rank.max(2)).collect();
        let axes: Vec<usize> = (0..long.len()).filter(|&axis| axis != 1).collect();
        cases.extend([reduced(&long, Layout::Sliced, &axes, dtype), reduced(&long, Layout::Sliced, &[0], dtype)]);
        cases.extend([reduced(&[vec![9000, 2], vec![1; rank - 1]].concat(), Layout::Sliced, &[0], dtype)]);
    }
    cases.extend(fused(&[2; 9], Layout::Sliced, dtype));
    // Short sums of as many dimensions as they can have, of one term and of none, and long ones for outputs of every rank.
    cases.extend([6, 7].map(|rank| reduced(&vec![2; rank], Layout::Sliced, &Vec::from_iter(0..rank), dtype)));
    cases.push(reduced(&[2; 8], Layout::Sliced, &Vec::from_iter(1..8), dtype));
    cases.push(reduced(&[2; 9], Layout::Sliced, &[8], dtype));
    cases.extend([0, 1].map(|length| reduced(&[3, length], Layout::Sliced, &[1], dtype)));
    for rank in 1..=8 {
        cases.push(reduced(&[vec![2; rank], vec![129]].concat(), Layout::Sliced, &[rank], dtype));
    }
    // Zeros whose sign tells whether they were added to anything.
    let zeros = pair_of(&[7], Layout::RowMajor, dtype, |count| vec![-0.0; count]);
    cases.push(Case::new("Sum", vec![Some(zeros)], vec![]));
    cases.extend(fused(&[9, 2, 1000], Layout::Sliced, dtype));
    // Sums of vectors and of what is left of one, of as many operands as one launch takes and of more.
    for count in [1, 2, 3, 4, 5, 6, 7, 1027] {
        cases.extend(sums(&[count], Layout::RowMajor, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17], dtype));
    }
    // Planes of one block and of two, whole and one vector short of whole or past it.
    let lanes = 16 / dtype.size();
    for vectors in [128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025] {
        cases.extend(fused(&[2, 3, 1, vectors * lanes], Layout::RowMajor, dtype));
    }
    // Channels side by side: few and many, in groups whole and not, over rows whole and not.
    for vectors in [1, 2, 3, 8, 9, 16] {
        for rows in [1, 31, 32, 96, 256, 512, 513, 515] {
            cases.extend(fused(&[1, vectors * lanes, 1, rows], Layout::ChannelsLast, dtype));
        }
    }
    for (vectors, rows) in [(9, 8197), (9, 8224), (16, 8197)] {
        cases.extend(fused(&[1, vectors * lanes, 1, rows], Layout::ChannelsLast, dtype));
    }
    // Channels that begin within a vector.
    for shape in [&[7, 3][..], &[40, 3, 5, 7], &[90, 2, 3], &[301, 5], &[1, 1, 1, 9], &[2, 1, 3]] {
        cases.extend(fused(shape, Layout::RowMajor, dtype));
    }
    let broadcast =
        vec![Some(exact(&[3, 1, 4], Layout::RowMajor, dtype, 1)), Some(exact(&[2, 1], Layout::RowMajor, dtype, 2))];
    cases.push(Case::new("Mul", broadcast, vec![]));
    cases.push(reduced(&[20000], Layout::RowMajor, &[0], dtype));
    // Rows of neighbours that the lanes of a warp read.
    cases.push(reduced(&[5, 64], Layout::RowMajor, &[1], dtype));
    // Outputs side by side: fewer than a warp has lanes, as many and more, of chunks whole and not.
    for (rows, columns) in [(129, 8), (512, 31), (513, 32), (1030, 33), (600, 64)] {
        cases.push(reduced(&[rows, columns], Layout::RowMajor, &[0], dtype));
    }
    // The one that takes long; kernels of the other types are those of float32.
    if dtype == DType::Float32 {
        cases.push(many_sums(dtype));
    }
    cases
}

/// So many outputs that a thread does each, of sums over as many dimensions as a kernel takes: of few numbers, over which
/// the dimensions step together.
fn many_sums(dtype: DType) -> Case {
    let shape: Vec<usize> = [1 << 18].into_iter().chain([2; 8]).collect();
    let strides: Strides = [0].into_iter().chain([dtype.size() as isize; 8]).collect();
    let kind = TensorType::new(&shape[..], dtype);
    let flat = tensor(&[9], &whole(9, 1), dtype);
    let x = [flat.clone(), copy(&flat, GPU).unwrap()].map(|flat| {
        Tensor::from_storage(flat.storage().clone(), 0, kind.clone(), strides.clone()).expect("within the storage")
    });
    let axes = ArgValue::Ints((1..=8).collect());
    Case::new("ReduceSum", vec![Some(x)], vec![("axes", axes), ("scale", float(0.75))])
}

fn maps(shape: &[usize], layout: Layout, dtype: DType) -> Vec<Case> {
    let two = vec![Some(pair(shape, layout, dtype, 1)), Some(pair(shape, layout, dtype, 2))];
    let mut cases = vec![Case::new("BroadcastLike", two.clone(), vec![("scale", float(0.5))])];
    cases.extend(["Add", "Sub", "Mul"].map(|name| Case::new(name, two.clone(), vec![])));
    // Operators that work element by element, with the arguments of their last example.
    for schema in registry::names().iter().map(|name| registry::find(name).expect("it has a name").schema.clone()) {
        if schema.identical && !schema.variadic {
            let inputs = (1..=schema.inputs.len() as u64).map(|seed| Some(pair(shape, layout, dtype, seed))).collect();
            let args = schema.examples.last().map_or_else(Vec::new, |example| example.args.clone());
            cases.push(Case::new(&schema.name, inputs, args));
        }
    }
    cases
}

fn sums(shape: &[usize], layout: Layout, counts: &[u64], dtype: DType) -> Vec<Case> {
    let of = |count: u64| (0..count).map(|seed| Some(pair(shape, layout, dtype, seed))).collect();
    counts.iter().map(|&count| Case::new("Sum", of(count), vec![])).collect()
}

/// FusedLeakyRelu and its gradient with and without a bias, which is of the tensors' type or of that they are computed in.
pub fn fused(shape: &[usize], layout: Layout, dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    if shape.len() < 2 {
        return cases;
    }
    let args = vec![("alpha", float(-0.5)), ("scale", float(2.0))];
    let [x, dy] = [1, 2].map(|seed| Some(exact(shape, layout, dtype, seed)));
    let mut kinds = vec![dtype, dtype.compute()];
    kinds.dedup();
    for bias in kinds.into_iter().map(|kind| Some(exact(&[shape[1]], Layout::RowMajor, kind, 3))).chain([None]) {
        cases.push(Case::new("FusedLeakyRelu", vec![x.clone(), bias.clone()], args.clone()));
        let gradient = || Case::new("FusedLeakyReluGradient", vec![x.clone(), dy.clone(), bias.clone()], args.clone());
        cases.extend([gradient(), gradient().without(0), gradient().without(1)]);
        if bias.is_some() {
            cases.push(Case::new("FusedLeakyReluGradient", vec![x.clone(), None, bias], args.clone()));
        }
    }
    // Where there is no gradient, -0 stands for it: a zero of the other sign would show.
    let zeros = pair_of(&[shape[1]], Layout::RowMajor, dtype, |count| vec![-0.0; count]);
    cases.push(Case::new("FusedLeakyReluGradient", vec![x, None, Some(zeros)], args));
    cases
}

/// BiasAct and its gradient: every branch of the formulas, with and without a bias and a clamp.
pub fn activated(shape: &[usize], layout: Layout, dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    if shape.len() < 2 {
        return cases;
    }
    let [x, dy] = [1, 2].map(|seed| Some(pair(shape, layout, dtype, seed)));
    for (place, activation) in firelu::Activation::ALL.into_iter().enumerate() {
        let kind = if place % 2 == 0 { dtype } else { dtype.compute() };
        let bias = (place % 3 != 0).then(|| pair(&[shape[1]], Layout::RowMajor, kind, 3));
        let act = ("act", ArgValue::String(activation.name().into()));
        let clamped = vec![act.clone(), ("clamp", float(0.7)), ("alpha", float(-0.5))];
        cases.push(Case::new("BiasAct", vec![x.clone(), bias.clone()], clamped.clone()));
        for args in [clamped, vec![act, ("order", ArgValue::Int(2))]] {
            let gradient = || Case::new("BiasActGradient", vec![x.clone(), dy.clone(), bias.clone()], args.clone());
            // Sums of rounded products depend on their order: below they are of whole numbers.
            cases.push(gradient().without(1));
        }
    }
    let [x, dy] = [1, 2].map(|seed| Some(exact(shape, layout, dtype, seed)));
    let bias = Some(exact(&[shape[1]], Layout::RowMajor, dtype, 3));
    let args = vec![("act", ArgValue::String("linear".into())), ("gain", float(1.0))];
    let gradient = || Case::new("BiasActGradient", vec![x.clone(), dy.clone(), bias.clone()], args.clone());
    cases.extend([gradient(), gradient().without(0), gradient().without(1)]);
    cases
}

/// Snake and its derivatives. Sums of rounded products depend on their order: only one term of each is not zero, the
/// first or the last of the channel.
pub fn waved(shape: &[usize], layout: Layout, dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    if shape.len() < 2 {
        return cases;
    }
    let [x, dy] = [1, 2].map(|seed| Some(pair(shape, layout, dtype, seed)));
    for (logscale, kind) in [(true, dtype), (false, dtype.compute())] {
        let alpha = Some(pair(&[shape[1]], Layout::RowMajor, kind, 3));
        let beta = logscale.then(|| pair(&[shape[1]], Layout::RowMajor, dtype, 4));
        let args = vec![("logscale", ArgValue::Bool(logscale))];
        cases.push(Case::new("Snake", vec![x.clone(), alpha.clone(), beta.clone()], args.clone()));
        let of = |dy: &Option<[Tensor; 2]>| vec![x.clone(), dy.clone(), alpha.clone(), beta.clone()];
        for orders in [[0, 0, 0], [1, 2, 0], [2, 1, i64::from(logscale)]] {
            let names = ["order_x", "order_alpha", "order_beta"];
            let orders = names.into_iter().zip(orders.map(ArgValue::Int));
            cases.push(Case::new("SnakeDerivative", of(&dy), args.iter().cloned().chain(orders).collect()));
        }
        let rest: usize = shape[2..].iter().product();
        for last in [false, true] {
            let single = Some(pair_of(shape, layout, dtype, |count| {
                let end = if last { count / (shape[1] * rest) - 1 } else { 0 };
                let is_single =
                    |place: usize| place / (shape[1] * rest) == end && place % rest == if last { rest - 1 } else { 0 };
                (0..count).map(|place| if is_single(place) { 1.5 } else { 0.0 }).collect()
            }));
            let gradient = || Case::new("SnakeGradient", of(&single), args.clone());
            cases.extend([gradient(), gradient().without(0), gradient().without(1)]);
        }
    }
    cases
}

/// Filtered activations of whole numbers: tiles of one chunk of rows and of several, with every kind of taps and border.
pub fn filtered(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    let ints =
        |pairs: &[(&'static str, i64)]| pairs.iter().map(|&(name, n)| (name, ArgValue::Int(n))).collect::<Vec<_>>();
    let several_chunks = [32, 2, 90, 60];
    let shapes = [([1, 2, 5, 6], [1, 2]), ([2, 2, 40, 90], [3, 4]), ([1, 2, 1, 700], [5, 6]), (several_chunks, [7, 8])];
    for (shape, seeds) in shapes {
        let rows = if shape[2] == 1 { 1 } else { 3 };
        // Which of the two kernels are outer products, and the factors.
        let layouts: &[_] = match shape == several_chunks {
            true => &[([false, false], 2), ([true, true], 2), ([false, true], 2), ([true, true], 1)]
                .map(|(separable, factor)| (Layout::RowMajor, separable, factor)),
            false => {
                &[Layout::RowMajor, Layout::ChannelsLast, Layout::Shifted].map(|layout| (layout, [false, false], 2))
            }
        };
        for &(layout, separable, factor_x) in layouts {
            let x = exact(&shape, layout, dtype, seeds[0]);
            // More taps than a warp has lanes, for one of the layouts.
            let (rows, columns) =
                if shape[2] == 40 && layout == Layout::Shifted { (7, [9, 8]) } else { (rows, [4, 3]) };
            let kernels = [0, 1].map(|which| match (separable[which], columns[which]) {
                (true, columns) => pair_of(&[rows, columns], Layout::RowMajor, dtype, |count| vec![1.0; count]),
                (false, columns) => exact(&[rows, columns], Layout::RowMajor, dtype, columns as u64),
            });
            let bias = exact(&[2], Layout::RowMajor, dtype, 9);
            let factor_y = if rows == 1 { 1 } else { factor_x };
            let factors = [("up_x", factor_x), ("up_y", factor_y), ("down_x", factor_x), ("down_y", factor_y)];
            let mut args = ints(&[&factors[..], &[("pad_x0", 2)]].concat());
            args.push(("act", ArgValue::String("relu".into())));
            args.push(("gain", float(1.0)));
            let inputs = vec![Some(x), Some(kernels[0].clone()), Some(kernels[1].clone()), Some(bias), None, None];
            let case = Case::new("FilteredAct", inputs.clone(), args.clone());
            let output = registry::find("FilteredAct").unwrap();
            let resolved = output.schema.resolve_args(args.iter().cloned()).unwrap();
            let views: Vec<_> = inputs.iter().map(|pair| pair.as_ref().map(|pair| pair[0].view())).collect();
            let parts: Vec<_> = views.iter().map(Option::as_deref).collect();
            let kind = output.schema.check(&parts, &[], &resolved).unwrap().1[0].clone();
            let dy = exact(&kind.shape, Layout::RowMajor, dtype, seeds[1]);
            drop(parts);
            drop(views);
            cases.push(case);
            // What lies outside the middle grid: zeros, or copies of samples.
            for rule in ["constant", "edge"] {
                let mut args = args.clone();
                args.extend(ints(&[("down_pad_x0", 2), ("down_pad_x1", 3)]));
                args.extend([
                    ("down_border", ArgValue::String(rule.into())),
                    ("border", ArgValue::String(rule.into())),
                ]);
                cases.push(Case::new("FilteredAct", inputs.clone(), args));
            }
            let inputs = [inputs, vec![Some(dy)]].concat();
            cases.push(Case::new("FilteredActGradient", inputs, args));
        }
    }
    cases
}

pub fn reduced(shape: &[usize], layout: Layout, axes: &[usize], dtype: DType) -> Case {
    let axes = ArgValue::Ints(axes.iter().map(|&axis| axis as i64).collect());
    Case::new("ReduceSum", vec![Some(exact(shape, layout, dtype, 1))], vec![("axes", axes), ("scale", float(0.75))])
}
