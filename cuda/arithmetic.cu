// Add, Sub and Mul with broadcasting, and Sum of any number of tensors.
#include "map.cuh"
#include "parameters/arithmetic.cuh"

template <typename C> struct Add {
    __device__ C operator()(const C (&values)[2]) const { return values[0] + values[1]; }
};
template <typename C> struct Sub {
    __device__ C operator()(const C (&values)[2]) const { return values[0] - values[1]; }
};
template <typename C> struct Mul {
    __device__ C operator()(const C (&values)[2]) const { return values[0] * values[1]; }
};

// Sum: inputs added in order in the compute type, rounded once. WHOLE: a vector, otherwise one element.
template <typename T, bool WHOLE> __device__ __forceinline__ void sum_from(const SumParameters &p, i64 element) {
    using C = Compute<T>;
    constexpr int LANES = WHOLE ? i32(Pack<T>::LANES) : 1;
    C sums[LANES];
#pragma unroll
    for (int i = 0; i < LANES; i++) sums[i] = C(0);
    if (p.accumulator_in) {
#pragma unroll
        for (int i = 0; i < LANES; i++) sums[i] = pointer<const C>(p.accumulator_in)[element + i];
    }
#pragma unroll
    for (int k = 0; k < SUM_INPUTS; k++) {
        if (k == 0 || k < i32(p.input_count)) {
            const T *input = pointer<const T>(p.inputs[k]) + element;
            const bool first = k == 0 && !p.accumulator_in;
            Pack<T> pack;
            if constexpr (WHOLE) pack = load_pack(input);
#pragma unroll
            for (int i = 0; i < LANES; i++) {
                C value;
                if constexpr (WHOLE) value = pack.get(i);
                else value = widen(*input);
                sums[i] = first ? value : sums[i] + value;
            }
        }
    }
    if (p.accumulator_out) {
#pragma unroll
        for (int i = 0; i < LANES; i++) pointer<C>(p.accumulator_out)[element + i] = sums[i];
        return;
    }
    if constexpr (WHOLE) {
        Pack<T> pack;
#pragma unroll
        for (int i = 0; i < LANES; i++) pack.set(i, sums[i]);
        store_pack(pointer<T>(p.output) + element, pack);
    } else {
        pointer<T>(p.output)[element] = narrow<T>(sums[0]);
    }
}

// A thread for each vector, then one for each element that fills no vector.
template <typename T> __device__ __forceinline__ void sum_vectors(const SumParameters &p) {
    constexpr i32 LANES = Pack<T>::LANES;
    const i64 vectors = p.count / LANES, index = i64(blockIdx.x) * THREADS + threadIdx.x;
    if (index < vectors) return sum_from<T, true>(p, index * LANES);
    const i64 element = vectors * LANES + (index - vectors);
    if (element < p.count) sum_from<T, false>(p, element);
}

template <typename T, typename Index> __device__ __forceinline__ void sum_strided(const StridedSumParameters &p) {
    using C = Compute<T>;
    T values[ELEMENTS];
    C before[ELEMENTS];
    const auto load = [&](int e, Index index, const i64 (&offsets)[2]) {
        values[e] = pointer<const T>(p.input)[offsets[1]];
        if (p.accumulator_in) before[e] = pointer<const C>(p.accumulator_in)[index];
    };
    const auto store = [&](int e, Index index, const i64 (&offsets)[2]) {
        C sum = widen(values[e]);
        if (p.accumulator_in) sum = before[e] + sum;
        if (p.accumulator_out) {
            pointer<C>(p.accumulator_out)[index] = sum;
        } else {
            pointer<T>(p.output)[offsets[0]] = narrow<T>(sum);
        }
    };
    for_each_element<2, Index>(p.layout, load, store);
}

#define VECTOR(suffix, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS) add_##suffix(MapParameters p) {                              \
        map_vectors<T, 2>(p, Add<Compute<T>>{});                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) sub_##suffix(MapParameters p) {                              \
        map_vectors<T, 2>(p, Sub<Compute<T>>{});                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) mul_##suffix(MapParameters p) {                              \
        map_vectors<T, 2>(p, Mul<Compute<T>>{});                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) sum_##suffix(SumParameters p) { sum_vectors<T>(p); }
#define STRIDED(suffix, T, width, Index)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) add_strided_##suffix##_##width(StridedMapParameters p) {     \
        map_strided<T, Index, 2>(p, Add<Compute<T>>{});                                                                \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) sub_strided_##suffix##_##width(StridedMapParameters p) {     \
        map_strided<T, Index, 2>(p, Sub<Compute<T>>{});                                                                \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) mul_strided_##suffix##_##width(StridedMapParameters p) {     \
        map_strided<T, Index, 2>(p, Mul<Compute<T>>{});                                                                \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) sum_strided_##suffix##_##width(StridedSumParameters p) {     \
        sum_strided<T, Index>(p);                                                                                      \
    }

FOR_EACH_TYPE(VECTOR)
FOR_EACH_TYPE_AND_INDEX(STRIDED)
