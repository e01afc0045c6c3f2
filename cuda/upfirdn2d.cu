// UpFirDn2d: zeros inserted, padded or cropped, filtered, every down-th sample kept. The input gradient is the same
// operation with other parameters; the kernel gradient is a reduction. Where padding is not zeros, outputs at the border
// have kernels of their own.
#include "upfirdn2d/channels_last.cuh"
#include "upfirdn2d/general.cuh"
#include "upfirdn2d/kernel_gradient.cuh"
#include "upfirdn2d/rim.cuh"
#include "upfirdn2d/tiled.cuh"

// Four blocks a multiprocessor, so 64 registers a thread. Without a number the assemblers choose, and some choose so few
// that a register is spilled.
#define LAUNCH_BOUNDS __launch_bounds__(THREADS, 4)
// Of halves a thread has 32 sums.
#define MORE_SUMS __launch_bounds__(THREADS, 3)
// Long divisions are calls, which need registers of their own.
#define FEWER_BLOCKS __launch_bounds__(THREADS, 2)

#define DEFINE(suffix, T)                                                                                              \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_filter_##suffix(UpFirDn2dParameters p) {                        \
        Tiled<T, 1, 1>::run(p);                                                                                        \
    }                                                                                                                  \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_up2_##suffix(UpFirDn2dParameters p) {                           \
        Tiled<T, 2, 1>::run(p);                                                                                        \
    }                                                                                                                  \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_down2_##suffix(UpFirDn2dParameters p) {                         \
        Tiled<T, 1, 2>::run(p);                                                                                        \
    }                                                                                                                  \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_general_##suffix(UpFirDn2dParameters p) {                       \
        general<T>(p);                                                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void MORE_SUMS upfirdn2d_channels_last_##suffix(UpFirDn2dParameters p) {                     \
        channels_last<T>(p);                                                                                           \
    }                                                                                                                  \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_strided_##suffix##_32(UpFirDn2dParameters p) {                  \
        strided<T, i32>(p);                                                                                            \
    }                                                                                                                  \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_strided_##suffix##_64(UpFirDn2dParameters p) {                  \
        strided<T, i64>(p);                                                                                            \
    }                                                                                                                  \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_kernel_gradient_##suffix(KernelGradientParameters p) {          \
        kernel_gradient_tiled<T>(p);                                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_kernel_gradient_strided_##suffix(KernelGradientParameters p) {  \
        kernel_gradient_strided<T>(p);                                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_extended_##suffix(RimParameters p) { rim<T, false>(p); }        \
    extern "C" __global__ void FEWER_BLOCKS upfirdn2d_folded_##suffix(RimParameters p) { rim<T, true>(p); }            \
    extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_kernel_gradient_rim_##suffix(RimParameters p) {                 \
        kernel_gradient_rim<T>(p);                                                                                     \
    }

FOR_EACH_TYPE(DEFINE)

// Taps are prepared in the compute type.
extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_taps_f32(TapsParameters p) { prepare_taps<float>(p); }
extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_taps_f64(TapsParameters p) { prepare_taps<double>(p); }

extern "C" __global__ void LAUNCH_BOUNDS upfirdn2d_kernel_finish(FinishParameters p) { finish_sum(p); }
