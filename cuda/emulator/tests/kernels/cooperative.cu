// Threads that work together: a tiled filter in shared memory, a block reduction with shuffles.
#define TILE 32
#define TAPS 4

extern "C" __global__ void filter_rows(const float* __restrict__ input, const float* __restrict__ taps,
                                       float* __restrict__ output, int width, int height) {
    __shared__ float tile[8][TILE + TAPS - 1];
    __shared__ float weights[TAPS];
    int x0 = blockIdx.x * TILE;
    int y = blockIdx.y * 8 + threadIdx.y;
    if (threadIdx.y == 0 && threadIdx.x < TAPS) weights[threadIdx.x] = taps[threadIdx.x];
    for (int x = threadIdx.x; x < TILE + TAPS - 1; x += TILE) {
        int source = x0 + x;
        tile[threadIdx.y][x] = (source < width && y < height) ? input[(long long)y * width + source] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
    for (int t = 0; t < TAPS; ++t) sum = fmaf(tile[threadIdx.y][threadIdx.x + t], weights[t], sum);
    int x = x0 + threadIdx.x;
    if (x < width && y < height) output[(long long)y * width + x] = sum;
}

extern "C" __global__ void block_sums(const float* __restrict__ input, float* __restrict__ output, int length) {
    extern __shared__ float partial[];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += gridDim.x * blockDim.x) sum += input[i];
    for (int delta = 16; delta > 0; delta >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, delta);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int warps = blockDim.x / 32;
        sum = lane < warps ? partial[lane] : 0.0f;
        for (int delta = 16; delta > 0; delta >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, delta);
        if (lane == 0) output[blockIdx.x] = sum;
    }
}

extern "C" __global__ void transpose_in_warp(const int* __restrict__ input, int* __restrict__ output) {
    __shared__ int scratch[32];
    scratch[threadIdx.x] = input[threadIdx.x];
    __syncwarp();
    int value = scratch[31 - threadIdx.x];
    unsigned votes = __ballot_sync(0xffffffffu, value > 15);
    output[threadIdx.x] = value + __popc(votes);
}
