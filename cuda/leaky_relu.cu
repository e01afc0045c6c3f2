// LeakyRelu: y = x if x > 0 else alpha * x. LeakyReluGradient: dx = dy if s > 0 else alpha * dy.
#include "map.cuh"

template <typename C> struct Forward {
    C alpha;
    __device__ C operator()(const C (&values)[1]) const { return values[0] > C(0) ? values[0] : alpha * values[0]; }
};

template <typename C> struct Gradient {
    C alpha;
    __device__ C operator()(const C (&values)[2]) const { return values[0] > C(0) ? values[1] : alpha * values[1]; }
};

#define VECTOR(suffix, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS) leaky_relu_##suffix(MapParameters p) {                       \
        map_vectors<T, 1>(p, Forward<Compute<T>>{Compute<T>(p.scalars[0])});                                           \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) leaky_relu_gradient_##suffix(MapParameters p) {              \
        map_vectors<T, 2>(p, Gradient<Compute<T>>{Compute<T>(p.scalars[0])});                                          \
    }
#define STRIDED(suffix, T, width, Index)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        leaky_relu_strided_##suffix##_##width(StridedMapParameters p) {                                                \
        map_strided<T, Index, 1>(p, Forward<Compute<T>>{Compute<T>(p.scalars[0])});                                    \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        leaky_relu_gradient_strided_##suffix##_##width(StridedMapParameters p) {                                       \
        map_strided<T, Index, 2>(p, Gradient<Compute<T>>{Compute<T>(p.scalars[0])});                                   \
    }

FOR_EACH_TYPE(VECTOR)
FOR_EACH_TYPE_AND_INDEX(STRIDED)
