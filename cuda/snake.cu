// Snake: y = x + sin²(p x) / (q + 1e-9) with numbers of each channel. SnakeGradient: dy times the derivative by x, and the
// sums of dy times those by alpha and beta. SnakeDerivative: dy times a derivative of any order.
#include "layout.cuh"
#include "reduce.cuh"
#include "wave.cuh"

enum Form : i32 { VALUE, GRADIENT, DERIVATIVE };

// How many coefficients there are before nothing but zeros.
__device__ __forceinline__ i32 length_of(const double *coefficients, i32 count) {
    while (count > 0 && coefficients[count - 1] == 0.0) count--;
    return count;
}

template <typename C> __device__ __forceinline__ C polynomial_of(const double *coefficients, i32 count, C t) {
    C sum = C(0.0);
#pragma unroll 1
    for (i32 place = count - 1; place >= 0; place--) sum = fused(sum, t, C(coefficients[place]));
    return sum;
}

template <typename C> __device__ __forceinline__ C derivative_of(const SnakeParameters &p, i64 channel, C t) {
    const double *table = pointer<const double>(p.table) + channel * TABLE;
    const double *sine = table + 2, *cosine = sine + SNAKE_COEFFICIENTS;
    const i32 of_sine = length_of(sine, i32(p.coefficients)), of_cosine = length_of(cosine, i32(p.coefficients));
    const Angle<C> angle = angle_of(t * C(table[0]));
    C value = fused(angle.sine_squared, C(table[1]), fused(t, C(p.slope), C(p.constant)));
    if (of_sine > 0) value = fused(polynomial_of(sine, of_sine, t), angle.sine_of_double, value);
    if (of_cosine > 0) value = fused(polynomial_of(cosine, of_cosine, t), angle.cosine_of_double(), value);
    return value;
}

template <typename T, typename Index, Form FORM> __device__ __forceinline__ void map(const SnakeParameters &p) {
    using C = Compute<T>;
    const Index index = thread_index<Index>();
    if (index >= Index(p.layout.count)) return;
    i64 offsets[4];
    locate(p.layout, index, offsets);
    const i64 channel = p.first_channel + offsets[3];
    const C t = C(widen(pointer<const T>(p.input)[offsets[1]]));
    C result;
    if constexpr (FORM == VALUE) {
        const Wave<C> wave = wave_of<C>(p.wave, channel);
        result = fused(angle_of(t * wave.frequency).sine_squared, wave.inverse, t);
    } else {
        const C stream = C(widen(pointer<const T>(p.gradient)[offsets[2]]));
        if constexpr (FORM == GRADIENT) {
            const Wave<C> wave = wave_of<C>(p.wave, channel);
            result = stream * slope_of(wave, angle_of(t * wave.frequency).sine_of_double);
        } else {
            result = stream * derivative_of(p, channel, t);
        }
    }
    pointer<T>(p.output)[offsets[0]] = narrow<T>(result);
}

// One block a channel and chunk.
template <typename T, typename Index> __device__ __forceinline__ void reduce(const SnakeReduceParameters &p) {
    using C = Compute<T>;
    const u32 channel = blockIdx.x / u32(p.chunks);
    const u32 chunk = blockIdx.x - channel * u32(p.chunks);
    const T *input = pointer<const T>(p.input) + i64(channel) * p.input_stride;
    const T *gradient = pointer<const T>(p.gradient) + i64(channel) * p.gradient_stride;
    const Wave<C> wave = wave_of<C>(p.wave, i64(channel));
    const C square = C(0.0) - wave.inverse * wave.inverse;
    C by_frequency = C(0), by_divisor = C(0);
#pragma unroll 1
    for (i32 start = 0; start < CHUNK; start += THREADS) {
        const Index m = Index(chunk) * Index(CHUNK) + start + i32(threadIdx.x);
        if (m < Index(p.layout.count)) {
            i64 offsets[2];
            locate(p.layout, m, offsets);
            const C t = C(widen(input[offsets[0]])), stream = C(widen(gradient[offsets[1]]));
            const Angle<C> angle = angle_of(t * wave.frequency);
            by_frequency += stream * t * (angle.sine_of_double * wave.inverse);
            by_divisor += stream * (angle.sine_squared * square);
        }
    }
    double *partials = pointer<double>(p.partials) + 2 * i64(blockIdx.x);
    const double first = block_sum(double(by_frequency));
    // Nobody writes the second sums before the first have been read.
    __syncthreads();
    const double second = block_sum(double(by_divisor));
    if (threadIdx.x == 0) {
        partials[0] = first;
        partials[1] = second;
    }
}

#define STRIDED(suffix, T, width, Index)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) snake_##suffix##_##width(SnakeParameters p) {                \
        map<T, Index, VALUE>(p);                                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) snake_gradient_##suffix##_##width(SnakeParameters p) {       \
        map<T, Index, GRADIENT>(p);                                                                                    \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) snake_derivative_##suffix##_##width(SnakeParameters p) {     \
        map<T, Index, DERIVATIVE>(p);                                                                                  \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) snake_reduce_##suffix##_##width(SnakeReduceParameters p) {   \
        reduce<T, Index>(p);                                                                                           \
    }

FOR_EACH_TYPE_AND_INDEX(STRIDED)

// One block a channel: from the sums by p and by q to the gradients of alpha and beta.
extern "C" __global__ void __launch_bounds__(THREADS) snake_finish(SnakeFinishParameters p) {
    const double *partials = pointer<const double>(p.partials) + 2 * i64(blockIdx.x) * p.chunks;
    double by_frequency = 0.0, by_divisor = 0.0;
    for (i64 m = threadIdx.x; m < p.chunks; m += THREADS) {
        by_frequency += partials[2 * m];
        by_divisor += partials[2 * m + 1];
    }
    const double first = block_sum(by_frequency);
    __syncthreads();
    const double second = block_sum(by_divisor);
    if (threadIdx.x != 0) return;
    store_wave_gradients(p.wave, blockIdx.x, first, second, p.alpha_gradient, p.beta_gradient);
}

__device__ __forceinline__ double power_of(double number, i32 exponent) {
    double value = 1.0;
    for (i32 k = 0; k < exponent; k++) value = value * number;
    return value;
}

__device__ __forceinline__ double binomial(i32 n, i32 k) {
    double value = 1.0;
    for (i32 i = 0; i < k; i++) value = value * double(n - i) / double(i + 1);
    return value;
}

// The derivative of 1 / B by B, so many times.
__device__ __forceinline__ double divided(double inverse, i32 times) {
    double value = inverse;
    for (i32 k = 1; k <= times; k++) value = -value * double(k) * inverse;
    return value;
}

// The derivative of some order by a number, or by its logarithm, as a sum of those by the number itself.
__device__ __forceinline__ void chain(double number, bool logscale, i32 order, double *weights) {
    for (i32 k = 0; k <= order; k++) weights[k] = k == (logscale ? 0 : order) ? 1.0 : 0.0;
    if (!logscale) return;
    for (i32 times = 0; times < order; times++) {
        for (i32 k = order; k >= 1; k--) weights[k] = weights[k] * double(k) + weights[k - 1];
        weights[0] = 0.0;
    }
    for (i32 k = 0; k <= order; k++) weights[k] = weights[k] * power_of(number, k);
}

// What derivatives of a channel are made of, as `src/devices/cpu/activations/partial.rs` has it; one block a channel.
template <typename C> __device__ __forceinline__ void table(const SnakeTableParameters &p) {
    __shared__ double by_alpha[SNAKE_COEFFICIENTS], weights[SNAKE_COEFFICIENTS];
    if (threadIdx.x != 0) return;
    const i64 channel = blockIdx.x;
    const i32 order_x = i32(p.order_x), order_alpha = i32(p.order_alpha), order_beta = i32(p.order_beta);
    const Wave<C> wave = wave_of<C>(p.wave, channel);
    const double frequency = double(wave.frequency), inverse = double(wave.inverse);
    chain(frequency, p.wave.logscale != 0, order_alpha, by_alpha);
    if (p.wave.beta) {
        const double beta = double(load_as<C>(p.wave.beta, i32(p.wave.beta_type), channel));
        chain(p.wave.logscale ? exponential(beta) : beta, p.wave.logscale != 0, order_beta, weights);
        double divisor = 0.0;
        for (i32 k = 0; k <= order_beta; k++) divisor = divisor + weights[k] * divided(inverse, k);
        for (i32 k = 0; k <= order_alpha; k++) weights[k] = by_alpha[k] * divisor;
    } else {
        for (i32 k = 0; k <= order_alpha; k++) weights[k] = 0.0;
        for (i32 m = 0; m <= order_alpha; m++) {
            for (i32 k = 0; k <= m; k++) {
                weights[k] = weights[k] + by_alpha[m] * binomial(m, k) * divided(inverse, m - k);
            }
        }
    }
    double *table = pointer<double>(p.table) + channel * TABLE;
    for (i32 k = 1; k < TABLE; k++) table[k] = 0.0;
    table[0] = frequency;
    for (i32 k = 0; k <= order_alpha; k++) {
        for (i32 l = 0; l <= k && l <= order_x; l++) {
            const i32 m = order_x + k - l;
            double falling = 1.0;
            for (i32 i = k - l + 1; i <= k; i++) falling = falling * double(i);
            const double factor = weights[k] * binomial(order_x, l) * falling * power_of(frequency, order_x - l);
            if (m == 0) {
                table[1] = table[1] + factor;
            } else {
                const double scaled = factor * power_of(2.0, m - 1);
                double *place = table + (m % 2 == 1 ? 2 : 2 + SNAKE_COEFFICIENTS) + (k - l);
                *place = *place + ((m - 1) % 4 < 2 ? scaled : -scaled);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) snake_table_f32(SnakeTableParameters p) { table<float>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) snake_table_f64(SnakeTableParameters p) { table<double>(p); }
