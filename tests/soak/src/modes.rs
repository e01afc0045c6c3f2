//! Other rounding and flush modes: whatever the calling thread's, every number of threads gives the same bits, and the
//! helpers' own mode is back afterwards.

use crate::choices::Choices;
use crate::memory::{Memory, Placed, Use};
use crate::outcome::Outcome;
use crate::reference::expect;
use crate::signatures::SIGNATURES;
use crate::{calls, generate};

/// MXCSR: rounding down, up and towards zero, subnormals as zeros in results and in operands.
#[cfg(target_arch = "x86_64")]
const MODES: [u64; 5] = [1 << 13, 2 << 13, 3 << 13, 1 << 15, 1 << 15 | 1 << 6];
/// FPCR: rounding up, down and towards zero, subnormals as zeros.
#[cfg(not(target_arch = "x86_64"))]
const MODES: [u64; 4] = [1 << 22, 2 << 22, 3 << 22, 1 << 24];

/// This thread's control word.
fn control() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut word = 0u32;
        // SAFETY: SSE is part of x86-64; the instruction writes these four bytes.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        u64::from(word & !0x3f)
    }
    #[cfg(target_arch = "aarch64")]
    {
        let word: u64;
        // SAFETY: every program may read this register.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

fn set_control(word: u64) {
    #[cfg(target_arch = "x86_64")]
    {
        let word = word as u32;
        // SAFETY: a word that was read, with bits of `MODES` set, none of which is reserved.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = word;
}

/// Runs `body` in a mode; the old one comes back, also after a panic.
fn during<R>(mode: u64, body: impl FnOnce() -> R) -> R {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            set_control(self.0);
        }
    }
    let _restore = Restore(control());
    set_control(control() | mode);
    body()
}

/// One request in a mode of its own, by several numbers of threads.
pub fn run(choices: &mut Choices<'_>, memory: &mut Memory) -> Result<Outcome, String> {
    let signature = &SIGNATURES[choices.below(SIGNATURES.len())];
    let limit = if choices.one_in(48) { generate::LARGE } else { 600 };
    let mut request = generate::fitting(signature, limit, choices);
    let mut inputs: Vec<Option<Placed>> = Vec::new();
    // Numbers near the smallest ones show what is made of subnormals.
    let size = choices.pick(&[1.0, 1.0, 1e-38, 1e-7]);
    for input in &mut request.inputs {
        let placed = input.as_mut().map(|array| {
            let placed = memory.place(&array.shape, array.dtype, Use::Read, choices);
            (0..placed.offsets.len()).for_each(|index| placed.write(index, size * choices.between(-4.0, 4.0)));
            array.values = placed.values();
            placed
        });
        inputs.push(placed);
    }
    let Ok(expected) = expect(&request) else { return Ok(Outcome::Refused(request.operator)) };
    let outputs: Vec<Placed> =
        expected.iter().map(|output| memory.place(&output.shape, output.dtype, Use::Dense, choices)).collect();
    let compute = |threads: usize| {
        let named = request.args.iter().map(|(name, value)| (*name, value.clone()));
        calls::call(request.operator, named, &inputs, &outputs, threads)
            .map_err(|error| format!("{}: {error}", calls::describe(&request)))?;
        let bits = |output: &Placed| (0..output.offsets.len()).map(|index| output.read_bits(index)).collect();
        Ok::<Vec<Vec<u64>>, String>(outputs.iter().map(bits).collect())
    };
    let (mode, threads) = (choices.pick(&MODES), choices.pick(&[2, 3, 8]));
    let before = compute(1)?;
    let (alone, together) = during(mode, || (compute(1), compute(threads)));
    let after = compute(threads)?;
    for (what, first, second) in [("in", alone?, together?), ("after", before, after)] {
        if !calls::same_numbers(&first, &second, &expected) {
            return Err(format!("{what} mode {mode:#x}, {threads} threads differ: {}", calls::describe(&request)));
        }
    }
    Ok(Outcome::Neighbour("rounding and flush modes"))
}
