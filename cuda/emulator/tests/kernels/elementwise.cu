// Element-wise shapes: vector loads with a scalar tail, half and bfloat16 through integers, doubles.
struct Arguments {
    const float* input;
    float* output;
    long long length;
    float slope;
};

extern "C" __global__ void leaky_f32(const Arguments arguments) {
    long long base = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
    if (base + 4 <= arguments.length) {
        float4 v = *reinterpret_cast<const float4*>(arguments.input + base);
        v.x = v.x > 0.0f ? v.x : v.x * arguments.slope;
        v.y = v.y > 0.0f ? v.y : v.y * arguments.slope;
        v.z = v.z > 0.0f ? v.z : v.z * arguments.slope;
        v.w = v.w > 0.0f ? v.w : v.w * arguments.slope;
        *reinterpret_cast<float4*>(arguments.output + base) = v;
    } else {
        for (long long i = base; i < arguments.length; ++i) {
            float x = arguments.input[i];
            arguments.output[i] = x > 0.0f ? x : x * arguments.slope;
        }
    }
}

extern "C" __global__ void leaky_scalar(const float* __restrict__ input, float* __restrict__ output,
                                        long long length, float slope) {
    long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < length; i += stride) {
        float x = input[i];
        output[i] = x > 0.0f ? x : x * slope;
    }
}

extern "C" __global__ void bias_f64(const double* __restrict__ input, const double* __restrict__ bias,
                                    double* __restrict__ output, long long length, int inner, int channels,
                                    double slope, double scale) {
    long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < length) {
        double x = input[i] + bias[(i / inner) % channels];
        output[i] = (x > 0.0 ? x : x * slope) * scale;
    }
}

static __device__ float bfloat_to_float(unsigned short v) { return __uint_as_float(static_cast<unsigned>(v) << 16); }
static __device__ unsigned short float_to_bfloat(float f) {
    unsigned bits = __float_as_uint(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>((bits >> 16) | 0x40u);
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return static_cast<unsigned short>(bits >> 16);
}

extern "C" __global__ void leaky_bf16(const unsigned short* __restrict__ input, unsigned short* __restrict__ output,
                                      long long length, float slope) {
    long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < length) {
        float x = bfloat_to_float(input[i]);
        output[i] = float_to_bfloat(x > 0.0f ? x : x * slope);
    }
}

static __device__ float half_to_float(unsigned short v) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
    return f;
}
static __device__ unsigned short float_to_half(float f) {
    unsigned short v;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v) : "f"(f));
    return v;
}

extern "C" __global__ void leaky_f16(const unsigned short* __restrict__ input, unsigned short* __restrict__ output,
                                     long long length, float slope) {
    long long i = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * 2;
    if (i + 1 < length) {
        ushort2 v = *reinterpret_cast<const ushort2*>(input + i);
        float a = half_to_float(v.x), b = half_to_float(v.y);
        v.x = float_to_half(a > 0.0f ? a : a * slope);
        v.y = float_to_half(b > 0.0f ? b : b * slope);
        *reinterpret_cast<ushort2*>(output + i) = v;
    } else if (i < length) {
        float a = half_to_float(input[i]);
        output[i] = float_to_half(a > 0.0f ? a : a * slope);
    }
}
