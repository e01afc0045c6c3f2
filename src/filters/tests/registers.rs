//! The registers of every level against plain arrays.

use firelu_core::dtype::Compute;
use firelu_filters::loops::register::{Access, Portable, Register};

/// That loads, stores, parts and shuffles of a register agree with plain arrays.
///
/// # Safety
/// The register's level was detected.
unsafe fn check_shuffles<R: Register + Access<<R as Register>::Number>>() {
    // SAFETY: the caller's promise; every pointer below is into an array of sufficient length.
    unsafe {
        check_phases::<R, 2>();
        check_phases::<R, 3>();
        check_phases::<R, 4>();
        let source: Vec<R::Number> = (1..=16).map(|i| R::Number::from_f64(f64::from(i))).collect();
        for count in 0..R::LANES {
            let mut target = vec![R::Number::default(); 16];
            R::load_masked(source.as_ptr(), R::mask(0, count)).store(target.as_mut_ptr());
            assert_eq!(target[..count], source[..count]);
            assert!(target[count..].iter().all(|&value| value == R::Number::default()));
            let mut target = vec![R::Number::default(); 16];
            <R as Access<<R as Register>::Number>>::load(source.as_ptr()).store_part(target.as_mut_ptr(), count);
            assert_eq!(target[..count], source[..count]);
            assert!(target[count..].iter().all(|&value| value == R::Number::default()));
        }
        let all = <R as Access<<R as Register>::Number>>::load(source.as_ptr());
        for from in 0..=R::LANES {
            for to in from..=R::LANES {
                let mut target = vec![R::Number::from_f64(-1.0); 16];
                R::load_masked(source.as_ptr(), R::mask(from, to)).store(target.as_mut_ptr());
                for (i, value) in target[..R::LANES].iter().enumerate() {
                    let inside = (from..to).contains(&i);
                    assert_eq!(*value, if inside { source[i] } else { R::Number::default() });
                }
            }
            let more: Vec<R::Number> = (1..=32).map(|i| R::Number::from_f64(f64::from(i))).collect();
            let (first, second) = (R::load(more.as_ptr()), R::load(more[R::LANES..].as_ptr()));
            let mut target = vec![R::Number::default(); 16];
            first.shift(second, from).store(target.as_mut_ptr());
            assert_eq!(target[..R::LANES], more[from..from + R::LANES]);
        }
        let every_fourth = |first: usize| (first..=R::LANES).step_by(4).sum::<usize>() as f64;
        assert_eq!(all.sums(), [1, 2, 3, 4].map(every_fourth));
        assert_eq!(all.mul(all).sums(), all.multiply_add(all, R::splat(R::Number::default())).sums());
    }
}

unsafe fn check_phases<R: Register + Access<<R as Register>::Number>, const P: usize>() {
    let source: Vec<R::Number> = (0..P * R::LANES).map(|i| R::Number::from_f64(i as f64)).collect();
    // SAFETY: the caller's promise; the arrays hold `P * LANES` numbers.
    unsafe {
        let load = |from: &[R::Number]| -> [R; P] { std::array::from_fn(|p| R::load(from[p * R::LANES..].as_ptr())) };
        let save = |registers: [R; P]| {
            let mut target = vec![R::Number::default(); P * R::LANES];
            registers.into_iter().enumerate().for_each(|(p, r)| r.store(target[p * R::LANES..].as_mut_ptr()));
            target
        };
        let mixed = save(R::interleave(load(&source)));
        for (at, value) in mixed.iter().enumerate() {
            assert_eq!(*value, source[at % P * R::LANES + at / P]);
        }
        assert_eq!(save(R::deinterleave(load(&mixed))), source);
    }
}

#[test]
fn the_portable_register_shuffles_as_arrays_do() {
    // SAFETY: every processor has it.
    unsafe {
        check_shuffles::<Portable<f32>>();
        check_shuffles::<Portable<f64>>();
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod of_32_bytes {
    use super::*;
    use firelu_core::dtype::{BFloat16, Element, Float16};
    use firelu_cpu::features::Level;
    #[cfg(target_arch = "x86_64")]
    use firelu_cpu::simd::avx2::{F32x8, F64x4};
    #[cfg(target_arch = "aarch64")]
    use firelu_cpu::simd::neon::{F32x8, F64x4};

    fn detected() -> bool {
        let detected = Level::available().iter().any(|&level| level != Level::Native);
        if !detected {
            eprintln!("left out: this processor has no AVX2");
        }
        detected
    }

    #[test]
    fn registers_shuffle_as_arrays_do() {
        if !detected() {
            return;
        }
        // SAFETY: the level was detected above.
        unsafe {
            check_shuffles::<F32x8>();
            check_shuffles::<F64x4>();
        }
    }

    /// Every part of a register, from and to memory that ends where the part does.
    fn check_parts<T: Element<Compute = f32>>()
    where
        F32x8: Access<T>,
    {
        for (from, to) in (0..=8).flat_map(|from| (from..=8).map(move |to| (from, to))) {
            let numbers: [f32; 8] = std::array::from_fn(|place| 1.0 + place as f32);
            let mut stored: Box<[T]> = vec![T::default(); to].into();
            if to < 8 {
                // SAFETY: as below; the array has as many elements as are stored.
                unsafe { <F32x8 as Access<f32>>::load(numbers.as_ptr()).store_part(stored.as_mut_ptr(), to) };
                assert!(stored.iter().zip(numbers).all(|(element, number)| element.to_compute() == number));
            }
            let elements: Box<[T]> = (from..to).map(|place| T::from_compute(1.0 + place as f32)).collect();
            let mut numbers = [-1.0_f32; 8];
            // SAFETY: whoever calls this has detected the level; the elements of the mask are those of the array.
            unsafe {
                let source = elements.as_ptr().wrapping_sub(from);
                let register = <F32x8 as Access<T>>::load_masked(source, <F32x8 as Access<T>>::mask(from, to));
                <F32x8 as Access<f32>>::store(register, numbers.as_mut_ptr());
            }
            for (place, number) in numbers.into_iter().enumerate() {
                assert_eq!(number, if (from..to).contains(&place) { 1.0 + place as f32 } else { 0.0 });
            }
        }
    }

    #[test]
    fn parts_of_half_registers_are_loaded_and_nothing_else() {
        if !detected() {
            return;
        }
        check_parts::<Float16>();
        check_parts::<BFloat16>();
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use firelu_core::dtype::{BFloat16, Element, Float16};
    use firelu_cpu::features::Level;
    use firelu_filters::levels::avx512::{F32x16, F64x8};

    fn detected() -> bool {
        let detected = Level::available().contains(&Level::Avx512);
        if !detected {
            eprintln!("left out: this processor has no AVX-512");
        }
        detected
    }

    #[test]
    fn the_registers_shuffle_as_arrays_do() {
        if detected() {
            // SAFETY: AVX-512 was detected above.
            unsafe {
                check_shuffles::<F32x16>();
                check_shuffles::<F64x8>();
            }
        }
    }

    /// Every 16-bit pattern widens as the `half` crate does it, and so does every part of a register.
    fn widens<T: Element<Compute = f32>>(from_bits: fn(u16) -> T)
    where
        F32x16: Access<T>,
    {
        for start in (0..=u16::MAX).step_by(16) {
            let source: [T; 16] = std::array::from_fn(|i| from_bits(start + i as u16));
            let count = usize::from(start / 16) % 17;
            let (mut wide, mut part) = ([f32::NAN; 16], [T::default(); 16]);
            // SAFETY: AVX-512 was detected by the caller; the arrays hold sixteen elements.
            unsafe {
                let register = <F32x16 as Access<T>>::load(source.as_ptr());
                <F32x16 as Access<f32>>::store(register, wide.as_mut_ptr());
                if count < 16 {
                    let mask = <F32x16 as Access<T>>::mask(0, count);
                    let register = <F32x16 as Access<T>>::load_masked(source.as_ptr(), mask);
                    register.store_part(part.as_mut_ptr(), count);
                }
            }
            for (i, (element, wide)) in source.into_iter().zip(wide).enumerate() {
                let expected: f32 = element.to_compute();
                // The processor makes a signalling NaN quiet while it widens.
                assert!(wide.to_bits() == expected.to_bits() || wide.is_nan() && expected.is_nan());
                let kept = if i < count && count < 16 { T::from_compute(wide) } else { T::default() };
                assert_eq!(part[i].to_compute().to_bits(), kept.to_compute().to_bits());
            }
        }
    }

    #[test]
    fn half_types_widen_as_the_half_crate_does_for_every_input() {
        if detected() {
            widens::<Float16>(Float16::from_bits);
            widens::<BFloat16>(BFloat16::from_bits);
        }
    }

    #[test]
    fn float32_rounds_to_half_types_as_the_half_crate_does() {
        if !detected() {
            return;
        }
        for bits in (0..=u32::MAX).step_by(9_973) {
            let values = [f32::from_bits(bits); 16];
            let (mut brain, mut half) = ([BFloat16::ZERO; 16], [Float16::ZERO; 16]);
            // SAFETY: AVX-512 was detected above; the arrays hold sixteen elements.
            unsafe {
                let register = <F32x16 as Access<f32>>::load(values.as_ptr());
                <F32x16 as Access<BFloat16>>::store(register, brain.as_mut_ptr());
                <F32x16 as Access<Float16>>::store(register, half.as_mut_ptr());
            }
            assert_eq!(brain[0].to_bits(), BFloat16::from_f32(values[0]).to_bits(), "{bits:#x}");
            assert_eq!(half[15].to_bits(), Float16::from_f32(values[0]).to_bits(), "{bits:#x}");
        }
    }
}
