//! Makes the loops functions of their own, compiled with one level's instructions, and their table.

/// The loops of a level as functions, and `loops`, which gives their table; `$feature` is what a function needs to be
/// compiled with that level's instructions.
macro_rules! compile_loops {
    ($(#[$feature:meta])?) => {
        $(#[$feature])?
        unsafe fn sum<S, D, R>(
            sources: &[*const S],
            taps: &[R::Number],
            target: *mut D,
            count: usize,
            rows: Rows,
            stores: Stores,
        ) where
            S: Element<Compute = R::Number>,
            D: Element<Compute = R::Number>,
            R: Access<S> + Access<D>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::sum::write::<S, D, R>(sources, taps, target, count, rows, stores) }
        }

        $(#[$feature])?
        unsafe fn phases<D, R, const P: usize>(
            terms: PhaseTerms<'_, R::Number>,
            target: *mut D,
            count: usize,
            rows: Rows,
            stores: Stores,
        ) where
            D: Element<Compute = R::Number>,
            R: Access<<R as Register>::Number> + Access<D>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::phases::write::<R::Number, D, R, P>(terms, target, count, rows, stores) }
        }

        $(#[$feature])?
        unsafe fn split<S, R>(
            columns: &Columns,
            source: *const S,
            target: *mut R::Number,
            rows: Rows,
            prefetch: Option<Prefetch>,
        ) where
            S: Element<Compute = R::Number>,
            R: Access<S> + Access<<R as Register>::Number>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::split::columns::<S, R>(columns, source, target, rows, prefetch) }
        }

        $(#[$feature])?
        unsafe fn split_phases<S, R>(
            phases_and_width: (usize, usize),
            source: *const S,
            target: *mut R::Number,
            rows: Rows,
            prefetch: Option<Prefetch>,
        ) where
            S: Element<Compute = R::Number>,
            R: Access<S> + Access<<R as Register>::Number>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::split::phases::<S, R>(phases_and_width, source, target, rows, prefetch) }
        }

        $(#[$feature])?
        unsafe fn products<R>(parts: &[Part], pairs: &Pairs<R::Number>)
        where
            R: Access<<R as Register>::Number>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::products::add::<R>(parts, pairs) }
        }

        $(#[$feature])?
        unsafe fn multiply_adds<R: Register>(rounds: usize) {
            // SAFETY: the caller's promise.
            unsafe { loops::rate::run::<R>(rounds) }
        }

        const fn reading<S, R>() -> Reading<S>
        where
            S: Element<Compute = R::Number>,
            R: Access<S> + Access<<R as Register>::Number>,
        {
            Reading { sum: sum::<S, R::Number, R>, split: split::<S, R> }
        }

        const fn writing<D, R>() -> Writing<D>
        where
            D: Element<Compute = R::Number>,
            R: Access<<R as Register>::Number> + Access<D>,
        {
            Writing { sum: sum::<R::Number, D, R>, phases: [phases::<D, R, 2>, phases::<D, R, 3>, phases::<D, R, 4>] }
        }

        /// The table of this level for element type `T`, whose compute numbers register `R` holds.
        pub const fn loops<T, R>(
            (input_pairs, running): (Option<PairsLoop<T>>, Option<[RunningLoop<R::Number>; 2]>),
            short: ShortLoops<T>,
        ) -> Loops<T>
        where
            T: Element<Compute = R::Number>,
            R: Access<T> + Access<<R as Register>::Number>,
        {
            Loops {
                lanes: R::LANES,
                non_temporal: R::NON_TEMPORAL,
                input: reading::<T, R>(),
                input_pairs,
                running,
                between_in: reading::<R::Number, R>(),
                between_out: writing::<R::Number, R>(),
                output: writing::<T, R>(),
                short,
                split_phases: split_phases::<T, R>,
                products: products::<R>,
                multiply_adds: multiply_adds::<R>,
                prefetch_lines: loops::memory_access::prefetch_lines::<R>,
            }
        }
    };
}

/// The loops that only levels with many shifts of registers have: short kernels in registers and pairs of rows.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! compile_short_loops {
    ($(#[$feature:meta])?) => {
        $(#[$feature])?
        unsafe fn pairs<S, R>(rows: &PairedRows<S>, target: *mut R::Number, count: usize)
        where
            S: Element<Compute = R::Number>,
            R: Access<S> + Access<<R as Register>::Number>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::two_rows::write::<S, R::Number, R>(rows, target, count) }
        }

        $(#[$feature])?
        unsafe fn running<R, const TOGETHER: usize>(sums: &RunningSums<'_, R::Number>, count: usize)
        where
            R: Access<<R as Register>::Number>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::running::write::<R, TOGETHER>(sums, count) }
        }

        $(#[$feature])?
        unsafe fn direct<T, R>(rows: &ShortRows<'_, T>, taps: &[R::Number])
        where
            T: Element<Compute = R::Number>,
            R: Access<T>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::short::direct::write::<T, R>(rows, taps) }
        }

        $(#[$feature])?
        unsafe fn planes<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
            rows: &ShortRows<'_, T>,
            taps: [&[R::Number]; 2],
        ) where
            T: Element<Compute = R::Number>,
            R: Access<T>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::short::separable::write::<T, R, P, STEP, N, SECOND>(rows, taps) }
        }

        $(#[$feature])?
        unsafe fn channels_last<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
            rows: &ShortRows<'_, T>,
            taps: [&[R::Number]; 2],
        ) where
            T: Element<Compute = R::Number>,
            R: Access<T>,
        {
            // SAFETY: the caller's promise.
            unsafe { loops::short::channels_last::write::<T, R, P, STEP, N, SECOND>(rows, taps) }
        }

        /// The table of an element type for which every loop is faster than the path through rows in memory.
        pub const fn all_loops<T, R>() -> Loops<T>
        where
            T: Element<Compute = R::Number>,
            R: Access<T> + Access<<R as Register>::Number>,
        {
            let short = ShortLoops {
                planes: Forms {
                    plain3: Some(planes::<T, R, 1, 1, 3, 0>),
                    plain4: Some(planes::<T, R, 1, 1, 4, 0>),
                    up4: Some(planes::<T, R, 2, 1, 2, 0>),
                    up4_later: Some(planes::<T, R, 2, 1, 2, 1>),
                    down4: Some(planes::<T, R, 1, 2, 4, 0>),
                },
                channels_last: Forms {
                    plain3: Some(channels_last::<T, R, 1, 1, 3, 0>),
                    plain4: Some(channels_last::<T, R, 1, 1, 4, 0>),
                    up4: Some(channels_last::<T, R, 2, 1, 2, 0>),
                    up4_later: Some(channels_last::<T, R, 2, 1, 2, 1>),
                    down4: Some(channels_last::<T, R, 1, 2, 4, 0>),
                },
                direct: Some(direct::<T, R>),
            };
            loops::<T, R>((Some(pairs::<T, R>), Some([running::<R, 1>, running::<R, 2>])), short)
        }

        /// The table of half-precision elements, of which registers of 32 bytes hold so few that it is better to widen
        /// each once: of the short kernels only downsampling reads each seldom enough.
        pub const fn half_loops<T, R>() -> Loops<T>
        where
            T: Element<Compute = R::Number>,
            R: Access<T> + Access<<R as Register>::Number>,
        {
            let mut short = ShortLoops::NONE;
            short.planes.down4 = Some(planes::<T, R, 1, 2, 4, 0>);
            loops::<T, R>((Some(pairs::<T, R>), Some([running::<R, 1>, running::<R, 2>])), short)
        }
    };
}
