// FusedLeakyRelu: y = scale * lrelu(x + b). FusedLeakyReluGradient: dx = scale * mask(y) * (dy + b'), db = sum of dx.
#include "map.cuh"
#include "parameters/fused_leaky_relu.cuh"
#include "reduce.cuh"

// The bias that changes nothing, whatever the other addend: x + -0 is x, signed zeros included.
template <typename C> __device__ __forceinline__ C no_bias() { return C(-0.0); }

// A bias is of the tensors' type or of the type they are computed in: one type but for halves.
template <typename T> __device__ __forceinline__ Compute<T> load_bias(u64 address, i32 type, i64 channel) {
    if (sizeof(T) == 2 && type == FLOAT32) return pointer<const Compute<T>>(address)[channel];
    return widen(pointer<const T>(address)[channel]);
}

template <typename C> struct Forward {
    enum : bool { GRADIENT = false };
    C alpha, scale;
    __device__ C operator()(C x, C, C bias) const {
        const C shifted = x + bias;
        return (shifted > C(0) ? shifted : alpha * shifted) * scale;
    }
};

template <typename C> struct Gradient {
    enum : bool { GRADIENT = true };
    C alpha, scale;
    __device__ C operator()(C y, C dy, C bias) const {
        const C sum = dy + bias;
        return (y > C(0) ? sum : alpha * sum) * scale;
    }
};

// Vectors that belong to one thread: read all, compute, write all; returns the thread's sum of results per lane.
template <typename T, typename Function> struct Column {
    using C = Compute<T>;
    enum : i32 { LANES = Pack<T>::LANES };
    Function function;
    const T *input;
    const T *gradient;
    T *output;
    bool has_gradient; // false forward and where dY is omitted

    template <typename Stride>
    __device__ __forceinline__ void run(Stride start, Stride step, Stride limit, const C (&bias)[LANES], C (&sums)[LANES]) const {
        Pack<T> inputs[VECTORS], gradients[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const Stride position = start + Stride(v) * step;
            if (position < limit) {
                inputs[v] = load_pack(input + position * LANES);
                if (Function::GRADIENT && has_gradient) gradients[v] = load_pack(gradient + position * LANES);
            }
        }
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const Stride position = start + Stride(v) * step;
            if (position < limit) {
                Pack<T> result;
#pragma unroll
                for (int i = 0; i < LANES; i++) {
                    const C dy = Function::GRADIENT && has_gradient ? gradients[v].get(i) : no_bias<C>();
                    const C value = function(inputs[v].get(i), dy, bias[i]);
                    if (Function::GRADIENT) sums[i] += value;
                    result.set(i, value);
                }
                store_pack(output + position * LANES, result);
            }
        }
    }
};

template <typename T, typename Function>
__device__ __forceinline__ Column<T, Function> column(const FusedParameters &p, i64 first) {
    using C = Compute<T>;
    return Column<T, Function>{{C(p.alpha), C(p.scale)},
                               pointer<const T>(p.input) + first,
                               pointer<const T>(p.gradient) + first,
                               pointer<T>(p.output) + first,
                               p.gradient != 0};
}

// Planes of whole vectors: each block has one channel, so one bias, and gives one sum.
template <typename T, typename Function> __device__ __forceinline__ void planes(const FusedParameters &p) {
    using C = Compute<T>;
    constexpr i32 LANES = Pack<T>::LANES;
    constexpr i32 TILE = THREADS * VECTORS;
    const u32 plane = blockIdx.x / u32(p.blocks_per_plane);
    const u32 block = blockIdx.x - plane * u32(p.blocks_per_plane);
    const i64 vectors = p.inner / LANES - i64(block) * TILE;
    const i64 channel = i64(plane) % p.channels;
    C bias[LANES], sums[LANES];
    bias[0] = p.bias ? load_bias<T>(p.bias, p.bias_type, channel) : no_bias<C>();
#pragma unroll
    for (int i = 0; i < LANES; i++) bias[i] = bias[0], sums[i] = C(0);
    const auto work = column<T, Function>(p, i64(plane) * p.inner + i64(block) * (TILE * LANES));
    work.run(i32(threadIdx.x), i32(THREADS), i32(vectors < TILE ? vectors : TILE), bias, sums);
    if (Function::GRADIENT && p.partials) {
        C sum = sums[0];
#pragma unroll
        for (int i = 1; i < LANES; i++) sum += sums[i];
        const double total = block_sum(double(sum));
        if (threadIdx.x == 0) pointer<double>(p.partials)[blockIdx.x] = total;
    }
}

// Any contiguous [outer, channels, inner]: the vectors of one thread lie a multiple of channels * inner apart, so that
// they share their biases, which are found once. The elements that fill no vector get a thread each.
template <typename T, typename Function> __device__ __forceinline__ void flat(const FusedParameters &p) {
    using C = Compute<T>;
    constexpr i32 LANES = Pack<T>::LANES;
    const i64 vectors = p.count / LANES;
    const i64 index = i64(blockIdx.x) * THREADS + threadIdx.x;
    const i64 threads = p.step < vectors ? p.step : vectors;
    const bool whole = index < threads;
    const i64 element = whole ? index * LANES : vectors * LANES + (index - threads);
    if (element >= p.count) return;

    const i64 row = p.count <= 0x7fffffff ? i64(u32(element) / u32(p.inner)) : element / p.inner;
    i64 position = element - row * p.inner;
    i64 channel = p.count <= 0x7fffffff ? i64(u32(row) % u32(p.channels)) : row % p.channels;
    C bias[LANES], sums[LANES];
#pragma unroll
    for (int i = 0; i < LANES; i++) {
        sums[i] = C(0);
        bias[i] = no_bias<C>();
        if (p.bias) bias[i] = load_bias<T>(p.bias, p.bias_type, channel);
        if (++position == p.inner) {
            position = 0;
            if (++channel == p.channels) channel = 0;
        }
    }
    const auto work = column<T, Function>(p, 0);
    if (whole) {
        work.run(index, p.step, vectors, bias, sums);
    } else {
        const C dy = Function::GRADIENT && work.has_gradient ? widen(work.gradient[element]) : no_bias<C>();
        work.output[element] = narrow<T>(work.function(widen(work.input[element]), dy, bias[0]));
    }
}

// Channels last ([rows, channels], whole vectors): each thread goes down its channels; the sums of threads above one
// another are added in order. The grid has blocks of rows for each group of p.columns vectors.
template <typename T, typename Function> __device__ __forceinline__ void columns(const FusedParameters &p) {
    using C = Compute<T>;
    constexpr i32 LANES = Pack<T>::LANES;
    __shared__ alignas(16) C biases[MAX_COLUMNS * LANES]; // of the block's channels
    const i32 width = i32(p.channels / LANES);
    const i32 groups = (width + p.columns - 1) / p.columns;
    const u32 row_block = blockIdx.x / u32(groups);
    const i32 x = i32(threadIdx.x) % p.columns, y = i32(threadIdx.x) / p.columns, height = THREADS / p.columns;
    const i32 group = i32(blockIdx.x - row_block * u32(groups)) * p.columns, vector = group + x;
    const i64 rows = p.count / p.channels, first = i64(row_block) * p.rows_per_block;
    const i32 limit = i32(rows - first < p.rows_per_block ? rows - first : p.rows_per_block);
    static_assert(MAX_COLUMNS * LANES <= THREADS, "a thread for each channel of the block");
    const i32 own = threadIdx.x, channel = group * LANES + own;
    if (own < p.columns * LANES) {
        biases[own] = p.bias && channel < p.channels ? load_bias<T>(p.bias, p.bias_type, channel) : no_bias<C>();
    }
    __syncthreads();
    C bias[LANES];
    double totals[LANES];
    read_row<C, LANES, 16 / sizeof(C)>(biases + x * LANES, bias);
#pragma unroll
    for (int i = 0; i < LANES; i++) totals[i] = 0.0;
    if (vector < width) {
        const auto work = column<T, Function>(p, first * p.channels + i64(vector) * LANES);
        for (i32 row = y; row < limit; row += height * VECTORS) {
            C sums[LANES];
#pragma unroll
            for (int i = 0; i < LANES; i++) sums[i] = C(0);
            work.run(i64(row) * width, i64(height) * width, i64(limit) * width, bias, sums);
#pragma unroll
            for (int i = 0; i < LANES; i++) totals[i] += double(sums[i]);
        }
    }
    if constexpr (Function::GRADIENT) {
        if (!p.partials) return;
        constexpr i32 PITCH = THREADS + 16 / LANES; // so that neighbouring channels lie in different banks
        __shared__ double shared[LANES * PITCH];
#pragma unroll
        for (int i = 0; i < LANES; i++) shared[i * PITCH + threadIdx.x] = totals[i];
        __syncthreads();
        if (own < p.columns * LANES && channel < p.channels) {
            double total = 0.0;
            for (i32 k = 0; k < height; k++) total += shared[own % LANES * PITCH + k * p.columns + own / LANES];
            pointer<double>(p.partials)[i64(row_block) * p.channels + channel] = total;
        }
    }
}

template <typename T, typename Index, typename Function>
__device__ __forceinline__ void strided(const StridedFusedParameters &p) {
    using C = Compute<T>;
    const Function function{C(p.alpha), C(p.scale)};
    const bool has_gradient = Function::GRADIENT && p.gradient;
    T inputs[ELEMENTS], gradients[ELEMENTS];
    const auto load = [&](int e, Index, const i64 (&offsets)[4]) {
        inputs[e] = pointer<const T>(p.input)[offsets[1]];
        if (has_gradient) gradients[e] = pointer<const T>(p.gradient)[offsets[2]];
    };
    const auto store = [&](int e, Index, const i64 (&offsets)[4]) {
        // The few biases are in the cache.
        const C bias = p.bias ? load_bias<T>(p.bias, i32(p.bias_type), offsets[3]) : no_bias<C>();
        const C dy = has_gradient ? widen(gradients[e]) : no_bias<C>();
        pointer<T>(p.output)[offsets[0]] = narrow<T>(function(widen(inputs[e]), dy, bias));
    };
    for_each_element<4, Index>(p.layout, load, store);
}

// The bias gradient alone, for any strides: one block a channel and chunk.
template <typename T, typename Index> __device__ __forceinline__ void reduce_bias(const BiasReduceParameters &p) {
    using C = Compute<T>;
    const u32 channel = blockIdx.x / u32(p.chunks);
    const u32 chunk = blockIdx.x - channel * u32(p.chunks);
    const Gradient<C> function{C(p.alpha), C(p.scale)};
    const C bias = p.bias ? load_bias<T>(p.bias, i32(p.bias_type), channel) : no_bias<C>();
    const T *input = pointer<const T>(p.input) + i64(channel) * p.input_stride;
    const T *gradient = pointer<const T>(p.gradient) + i64(channel) * p.gradient_stride; // of no use without dY
    C sum = C(0);
#pragma unroll 1
    for (i32 start = 0; start < CHUNK; start += THREADS) {
        const Index m = Index(chunk) * Index(CHUNK) + start + i32(threadIdx.x);
        if (m < Index(p.layout.count)) {
            i64 offsets[2];
            locate(p.layout, m, offsets);
            sum += function(widen(input[offsets[0]]), p.gradient ? widen(gradient[offsets[1]]) : no_bias<C>(), bias);
        }
    }
    const double total = block_sum(double(sum));
    if (threadIdx.x == 0) pointer<double>(p.partials)[blockIdx.x] = total;
}

#define VECTOR(suffix, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS) fused_leaky_relu_planes_##suffix(FusedParameters p) {        \
        planes<T, Forward<Compute<T>>>(p);                                                                             \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) fused_leaky_relu_flat_##suffix(FusedParameters p) {          \
        flat<T, Forward<Compute<T>>>(p);                                                                               \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) fused_leaky_relu_gradient_planes_##suffix(FusedParameters p) { \
        planes<T, Gradient<Compute<T>>>(p);                                                                            \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) fused_leaky_relu_gradient_flat_##suffix(FusedParameters p) { \
        flat<T, Gradient<Compute<T>>>(p);                                                                              \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) fused_leaky_relu_columns_##suffix(FusedParameters p) {       \
        columns<T, Forward<Compute<T>>>(p);                                                                            \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        fused_leaky_relu_gradient_columns_##suffix(FusedParameters p) {                                                \
        columns<T, Gradient<Compute<T>>>(p);                                                                           \
    }
#define STRIDED(suffix, T, width, Index)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        fused_leaky_relu_strided_##suffix##_##width(StridedFusedParameters p) {                                        \
        strided<T, Index, Forward<Compute<T>>>(p);                                                                     \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        fused_leaky_relu_gradient_strided_##suffix##_##width(StridedFusedParameters p) {                               \
        strided<T, Index, Gradient<Compute<T>>>(p);                                                                    \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        fused_leaky_relu_bias_reduce_##suffix##_##width(BiasReduceParameters p) {                                      \
        reduce_bias<T, Index>(p);                                                                                      \
    }

FOR_EACH_TYPE(VECTOR)
FOR_EACH_TYPE_AND_INDEX(STRIDED)

extern "C" __global__ void __launch_bounds__(THREADS) fused_leaky_relu_bias_finish(FinishParameters p) { finish_sum(p); }
