//! What each level of the processor compiles the loops for, with its own instructions.

/// Makes the loops of a register functions of their own.
macro_rules! level_loops {
    ($register:ident, $number:ty, $features:literal) => {
        impl<T: Element<Compute = $number>> Short<T> for $register
        where
            $register: Access<T>,
        {
            #[target_feature(enable = $features)]
            unsafe fn write_direct(rows: &ShortRows<'_, T>, taps: &[$number]) -> bool {
                // SAFETY: the caller's promise.
                unsafe { short::direct::<T, Self>(rows, taps) }
            }
            #[target_feature(enable = $features)]
            unsafe fn write_separable<const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
                rows: &ShortRows<'_, T>,
                taps: [&[$number]; 2],
            ) -> bool {
                // SAFETY: the caller's promise.
                unsafe { short::separable::<T, Self, P, STEP, N, SECOND>(rows, taps) }
            }
            #[target_feature(enable = $features)]
            unsafe fn write_pixels<const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
                rows: &ShortRows<'_, T>,
                taps: [&[$number]; 2],
            ) -> bool {
                // SAFETY: the caller's promise.
                unsafe { pixels::write::<T, Self, P, STEP, N, SECOND>(rows, taps) }
            }
        }

        impl Products for $register {
            #[target_feature(enable = $features)]
            unsafe fn add_products(parts: &[Part], pairs: &Pairs<$number>) {
                // SAFETY: the caller's promise.
                unsafe { products::add::<Self>(parts, pairs) }
            }
        }

        impl<S, D> Sums<S, D> for $register
        where
            S: Element<Compute = $number>,
            D: Element<Compute = $number>,
            $register: Access<S> + Access<D>,
        {
            #[target_feature(enable = $features)]
            unsafe fn write(
                sources: &[*const S],
                taps: &[$number],
                target: *mut D,
                count: usize,
                rows: Rows,
                stores: Stores,
            ) {
                // SAFETY: the caller's promise.
                unsafe { sums::write::<S, D, Self>(sources, taps, target, count, rows, stores) }
            }
            #[target_feature(enable = $features)]
            unsafe fn write_phases<const P: usize>(
                terms: (&[*const S], &[$number], &[usize]),
                target: *mut D,
                count: usize,
                rows: Rows,
                stores: Stores,
            ) {
                // SAFETY: the caller's promise.
                unsafe { phases::write::<S, D, Self, P>(terms, target, count, rows, stores) }
            }
            #[target_feature(enable = $features)]
            unsafe fn write_pairs(rows: &PairedRows<S>, target: *mut D, count: usize) -> bool {
                // SAFETY: the caller's promise.
                unsafe { twins::write::<S, D, Self>(rows, target, count) }
            }
        }
    };
}

/// Makes the entry points of a level, whose elements name their registers in `$element`.
macro_rules! level_entries {
    ($element:ident, $features:literal) => {
        /// Computes a tile.
        ///
        /// # Safety
        /// As [`Worker::run`]; the level was detected.
        #[target_feature(enable = $features)]
        pub unsafe fn tile<T: FirElement>(worker: &mut Worker<T::Compute>, tile: &Tile<T>, planes: Rows) {
            // SAFETY: the caller's promise.
            unsafe { worker.run::<T, <T as $element>::Register>(tile, planes) }
        }

        /// Adds product sums for the kernel's gradient.
        ///
        /// # Safety
        /// As [`kernel_gradient::product_sums`]; the level was detected.
        #[target_feature(enable = $features)]
        pub unsafe fn product_sums<T: FirElement>(
            job: &Job<'_>,
            tiles: Range<usize>,
            scratch: &mut Scratch,
        ) -> Result<()> {
            // SAFETY: the caller's promise.
            unsafe { kernel_gradient::product_sums::<T, <T as $element>::Register>(job, tiles, scratch) }
        }
    };
}
