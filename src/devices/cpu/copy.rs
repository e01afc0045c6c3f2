//! The yardstick of every benchmark: copying bytes as fast as this processor can, on the same threads.

use crate::parallel;
use firelu_core::error::Result;

/// How the bytes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The C library's own copy, in pieces on several threads.
    Plain,
    /// Stores that bypass the caches, with prefetch; plain where the processor has no AVX2.
    Streaming,
}

/// Copies `bytes` bytes.
///
/// # Safety
/// That many bytes must be readable at `source` and writable at `target`, and the two must not overlap.
pub unsafe fn copy(source: *const u8, target: *mut u8, bytes: usize, method: Method) -> Result<()> {
    let (source, target) = (source as usize, target as usize);
    parallel::for_each(bytes.div_ceil(parallel::TASK_BYTES), 2 * bytes, |task| {
        let start = task * parallel::TASK_BYTES;
        let length = parallel::TASK_BYTES.min(bytes - start);
        let (source, target) = ((source + start) as *const u8, (target + start) as *mut u8);
        // SAFETY: the caller's promise; tasks are disjoint pieces of it.
        unsafe {
            match method {
                #[cfg(target_arch = "x86_64")]
                Method::Streaming if is_x86_feature_detected!("avx2") => stream(source, target, length),
                _ => std::ptr::copy_nonoverlapping(source, target, length),
            }
        }
    })
}

/// # Safety
/// As [`copy`], and AVX2 was detected.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn stream(source: *const u8, target: *mut u8, bytes: usize) {
    use core::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};

    use crate::simd::element::{AHEAD, LINE};
    use crate::simd::{fence, prefetch};

    let head = target.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE;
    // SAFETY: head, lines and tail are the caller's bytes in order; the lines' target is aligned.
    unsafe {
        std::ptr::copy_nonoverlapping(source, target, head);
        for line in 0..lines {
            let (from, to) = (source.add(head + line * LINE), target.add(head + line * LINE));
            prefetch(from, AHEAD);
            let (first, second) = (_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast()));
            _mm256_stream_si256(to.cast::<__m256i>(), first);
            _mm256_stream_si256(to.add(32).cast::<__m256i>(), second);
        }
        let done = head + lines * LINE;
        std::ptr::copy_nonoverlapping(source.add(done), target.add(done), bytes - done);
    }
    fence();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives() {
        let source: Vec<u8> = (0..3_000_001u32).map(|i| (i * 31 % 251) as u8).collect();
        for method in [Method::Plain, Method::Streaming] {
            for (from, length) in [(0, 3_000_001), (1, 2_999_999), (7, 100), (3, 0)] {
                let mut target = vec![0u8; length + 5];
                // SAFETY: both vectors hold that many bytes from there on.
                unsafe { copy(source.as_ptr().add(from), target.as_mut_ptr().add(5), length, method) }.unwrap();
                assert!(target[5..] == source[from..from + length]);
            }
        }
    }
}
