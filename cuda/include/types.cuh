// Storage types, their compute types, and conversions that round once, to nearest even.
#pragma once

using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;

static_assert(sizeof(i32) == 4 && sizeof(i64) == 8, "the parameter structs count on these sizes");

struct float16 {
    u16 bits;
};
struct bfloat16 {
    u16 bits;
};

// What a type is computed in: halves in float, so that a result is rounded once.
template <typename T> struct ComputeOf {
    using type = T;
};
template <> struct ComputeOf<float16> {
    using type = float;
};
template <> struct ComputeOf<bfloat16> {
    using type = float;
};
template <typename T> using Compute = typename ComputeOf<T>::type;

__device__ __forceinline__ float widen(float16 value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
}
__device__ __forceinline__ float widen(bfloat16 value) { return __uint_as_float(u32(value.bits) << 16); }
__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }

template <typename T> __device__ __forceinline__ T narrow(Compute<T> value) { return value; }
template <> __device__ __forceinline__ float16 narrow<float16>(float value) {
    float16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}
// The conversion instruction begins with compute_80; integer operations give the same bits everywhere.
template <> __device__ __forceinline__ bfloat16 narrow<bfloat16>(float value) {
    u32 bits = __float_as_uint(value);
    u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    u32 quiet_nan = (bits >> 16) | 0x40u;
    return bfloat16{u16(value != value ? quiet_nan : rounded)};
}

// A value of run-time type, for the small operands (biases, filter taps) that may differ from the tensors' type.
enum Type : i32 { FLOAT16 = 0, BFLOAT16 = 1, FLOAT32 = 2, FLOAT64 = 3 };

template <typename C> __device__ __forceinline__ C load_as(u64 address, i32 type, i64 index) {
    switch (type) {
    case FLOAT16: return C(widen(reinterpret_cast<const float16 *>(address)[index]));
    case BFLOAT16: return C(widen(reinterpret_cast<const bfloat16 *>(address)[index]));
    case FLOAT32: return C(reinterpret_cast<const float *>(address)[index]);
    default: return C(reinterpret_cast<const double *>(address)[index]);
    }
}

// Float64 sums come to a half type by way of float, as on the CPU.
__device__ __forceinline__ void store_as(u64 address, i32 type, i64 index, double value) {
    switch (type) {
    case FLOAT16: reinterpret_cast<float16 *>(address)[index] = narrow<float16>(float(value)); break;
    case BFLOAT16: reinterpret_cast<bfloat16 *>(address)[index] = narrow<bfloat16>(float(value)); break;
    case FLOAT32: reinterpret_cast<float *>(address)[index] = float(value); break;
    default: reinterpret_cast<double *>(address)[index] = value; break;
    }
}

template <typename T> __device__ __forceinline__ T *pointer(u64 address) { return reinterpret_cast<T *>(address); }

// One entry point per storage type: DEFINE(suffix, type).
#define FOR_EACH_TYPE(DEFINE) DEFINE(f16, float16) DEFINE(bf16, bfloat16) DEFINE(f32, float) DEFINE(f64, double)
