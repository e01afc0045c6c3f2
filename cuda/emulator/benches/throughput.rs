//! Checked thread-instructions per second of a few kernels: `cargo bench -p firelu-cuda-emulator`.
//! Every figure is the best of five launches.

use cuda_emulator::machine::{Launch, Outcome};
use cuda_emulator::memory::{Accessor, AddressSpace, Clocks, NO_LINE};
use cuda_emulator::program::{Program, decode};
use cuda_emulator::ptx::parse;
use cuda_emulator::report::Collector;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const ELEMENTWISE: &str = include_str!("../tests/kernels/elementwise.ptx");
const COOPERATIVE: &str = include_str!("../tests/kernels/cooperative.ptx");

struct Bench {
    space: AddressSpace,
    spans: AtomicU32,
    workers: usize,
}

impl Bench {
    fn new(workers: usize) -> Self {
        Self { space: AddressSpace::default(), spans: AtomicU32::new(1), workers }
    }

    fn buffer(&mut self, bytes: usize) -> u64 {
        let allocation = self.space.allocate(bytes as u64, 0);
        let span = self.spans.fetch_add(1, Ordering::Relaxed);
        let clocks = Clocks::START;
        let by = Accessor {
            span,
            first_span: span,
            own_spans: &[span],
            unordered: &[],
            warp: 0,
            lane: 0,
            clocks: &clocks,
            step: NO_LINE,
        };
        allocation.write(0, &vec![0x3f; bytes], &by);
        allocation.base
    }

    fn run(&self, program: &Program, grid: [u32; 3], block: [u32; 3], parameters: &[u8], shared: u64) {
        let reports = Collector::default();
        let (mut best, mut least) = (f64::INFINITY, f64::INFINITY);
        let mut instructions = 0;
        for _ in 0..5 {
            let (start, used) = (Instant::now(), processor_seconds());
            let Outcome { counters, fault } = Launch {
                program,
                grid,
                block,
                parameters,
                dynamic_shared: shared,
                device: 0,
                space: &self.space,
                spans: &self.spans,
                first_span: self.spans.load(Ordering::Relaxed),
                unordered: &[],
                unborn: &HashSet::new(),
                peers: &[],
                history: &|_| String::new(),
                reports: &reports,
                watchdog: u64::MAX,
                workers: self.workers,
            }
            .run();
            assert!(fault.is_none() && reports.is_empty(), "{:?}", reports.take());
            instructions = counters.total_thread_instructions();
            best = best.min(start.elapsed().as_secs_f64());
            least = least.min(processor_seconds() - used);
        }
        let millions = instructions as f64 / 1e6;
        println!(
            "{:<14} {} worker(s): {:>6.1} M/s by the clock, {:>6.1} M/s per core by processor time ({millions:.1} M)",
            program.name,
            self.workers,
            millions / best,
            millions / least
        );
    }
}

/// Processor time of the whole process, which other programs on the machine do not change.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn kernel(text: &str, name: &str) -> Program {
    let module = parse(text).expect("the sample parses");
    let kernel = module.kernels.iter().find(|kernel| kernel.name == name).expect("the sample has the kernel");
    decode(&module, kernel, &HashMap::new()).expect("the sample decodes")
}

fn pack(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn main() {
    const LENGTH: usize = 1 << 20;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for workers in [1, cores.min(2)] {
        let mut bench = Bench::new(workers);
        let (input, output) = (bench.buffer(LENGTH * 4), bench.buffer(LENGTH * 4));
        let pointers = pack(&[&input.to_le_bytes(), &output.to_le_bytes()]);
        let tail = pack(&[&pointers, &(LENGTH as i64).to_le_bytes(), &0.2f32.to_le_bytes(), &[0; 4]]);
        let blocks = (LENGTH / 256) as u32;
        bench.run(&kernel(ELEMENTWISE, "leaky_f32"), [blocks / 4, 1, 1], [256, 1, 1], &tail, 0);
        bench.run(&kernel(ELEMENTWISE, "leaky_scalar"), [blocks, 1, 1], [256, 1, 1], &tail, 0);
        bench.run(&kernel(ELEMENTWISE, "leaky_bf16"), [blocks, 1, 1], [256, 1, 1], &tail, 0);
        bench.run(&kernel(ELEMENTWISE, "leaky_f16"), [blocks / 2, 1, 1], [256, 1, 1], &tail, 0);
        let sums = pack(&[&pointers, &(LENGTH as i32).to_le_bytes(), &[0; 4]]);
        bench.run(&kernel(COOPERATIVE, "block_sums"), [256, 1, 1], [256, 1, 1], &sums, 32);
        let taps = bench.buffer(16);
        let size = 1024i32.to_le_bytes();
        let filter = pack(&[&input.to_le_bytes(), &taps.to_le_bytes(), &output.to_le_bytes(), &size, &size]);
        bench.run(&kernel(COOPERATIVE, "filter_rows"), [32, 128, 1], [32, 8, 1], &filter, 0);
    }
}
