// Forms the compiler rarely needs for filters, kept here so that each stays executable.
extern "C" __global__ void integers(const int* __restrict__ a, const int* __restrict__ b, long long* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], y = b[i];
    unsigned ux = x, uy = y;
    long long* o = out + (long long)i * 16;
    o[0] = x / y;
    o[1] = x % y;
    o[2] = ux / uy;
    o[3] = ux % uy;
    o[4] = (long long)x / (long long)y;
    o[5] = (unsigned long long)ux * uy;
    o[6] = __mulhi(x, y);
    o[7] = __umulhi(ux, uy);
    o[8] = min(x, y);
    o[9] = max(ux, uy);
    o[10] = abs(x);
    o[11] = __byte_perm(ux, uy, 0x3715);
    o[12] = __funnelshift_l(ux, uy, x & 31);
    o[13] = (x >> (y & 31)) ^ (ux << (y & 31));
    o[14] = __popc(ux) + 100 * __clz(y);
    o[15] = __mul64hi((long long)x << 20, (long long)y << 25) + __brev(ux);
}
extern "C" __global__ void floats(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i];
    float* o = out + (long long)i * 16;
    o[0] = x / y;
    o[1] = sqrtf(fabsf(x));
    o[2] = fmaf(x, y, x);
    o[3] = fminf(x, y);
    o[4] = fmaxf(x, y);
    o[5] = floorf(x);
    o[6] = ceilf(x);
    o[7] = truncf(x);
    o[8] = rintf(x);
    o[9] = (float)(int)x;
    o[10] = (float)(unsigned)fabsf(y);
    o[11] = (float)((double)x * (double)y);
    o[12] = (float)(long long)x;
    o[13] = __fdiv_rn(1.0f, y);
    o[14] = (x != x) ? 1.0f : -x;
    o[15] = __saturatef(x);
}
__constant__ float table[4] = {0.5f, -1.0f, 2.0f, 4.0f};
__device__ int counter_base = 7;
extern "C" __global__ void constants(float* out) {
    out[threadIdx.x] = table[threadIdx.x & 3] + counter_base;
}
