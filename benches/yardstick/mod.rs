//! The yardstick of every benchmark: the fastest copy of so many bytes, measured in the same run.

use std::time::Instant;

use firelu::devices::cpu::memory::Block;

/// The shortest time of a body, in seconds, after one run that warms memory up.
pub fn shortest(repetitions: usize, mut body: impl FnMut()) -> f64 {
    body();
    let time = |body: &mut dyn FnMut()| {
        let start = Instant::now();
        body();
        start.elapsed().as_secs_f64()
    };
    (0..repetitions).map(|_| time(&mut body)).fold(f64::INFINITY, f64::min)
}

/// Memory to copy from and to.
pub struct Copy {
    source: Block,
    target: Block,
    bytes: usize,
}

impl Copy {
    /// A copy that reads half of `moved` bytes and writes the other half.
    pub fn new(moved: usize) -> Self {
        let bytes = (moved / 2).next_multiple_of(4096);
        let (source, target) = (Block::new(bytes).unwrap(), Block::new(bytes).unwrap());
        // SAFETY: both blocks own that many bytes.
        unsafe {
            source.pointer().write_bytes(1, bytes);
            target.pointer().write_bytes(2, bytes);
        }
        Copy { source, target, bytes }
    }

    /// Copies by `memcpy`, each of two threads a half.
    pub fn by_memcpy(&self) {
        // SAFETY: the halves lie inside the blocks, which do not overlap.
        self.halves(|source, target, bytes| unsafe { std::ptr::copy_nonoverlapping(source, target, bytes) });
    }

    /// Copies by AVX loads with prefetch and stores that bypass the caches, each of two threads a half.
    #[cfg(target_arch = "x86_64")]
    pub fn by_streaming(&self) {
        assert!(is_x86_feature_detected!("avx"));
        // SAFETY: AVX was detected; the halves lie inside the blocks and are whole pages.
        self.halves(|source, target, bytes| unsafe { stream(source, target, bytes) });
    }

    fn halves(&self, part: impl Fn(*const u8, *mut u8, usize) + Sync) {
        let half = (self.bytes / 2).next_multiple_of(4096).min(self.bytes);
        let (source, target) = (self.source.pointer() as usize, self.target.pointer() as usize);
        firelu::devices::cpu::parallel::for_each(2, usize::MAX, |index| {
            let (start, end) = if index == 0 { (0, half) } else { (half, self.bytes) };
            part((source + start) as *const u8, (target + start) as *mut u8, end - start);
        })
        .unwrap();
    }
}

/// # Safety
/// AVX was detected; `bytes` is a multiple of 64, readable and writable, and the target is aligned.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn stream(source: *const u8, target: *mut u8, bytes: usize) {
    use core::arch::x86_64::*;
    for at in (0..bytes).step_by(64) {
        // SAFETY: the caller's promise; a prefetch never faults.
        unsafe {
            let low = _mm256_loadu_si256(source.add(at).cast());
            let high = _mm256_loadu_si256(source.add(at + 32).cast());
            _mm256_stream_si256(target.add(at).cast(), low);
            _mm256_stream_si256(target.add(at + 32).cast(), high);
            _mm_prefetch::<_MM_HINT_T0>(source.wrapping_add(at + 1024).cast());
        }
    }
    _mm_sfence();
}
