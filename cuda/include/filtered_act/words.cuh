// Elements as they are stored, one or two halves in one load; all bits zero is zero in every type.
#pragma once
#include "types.cuh"

template <int BYTES> struct WordOf;
template <> struct WordOf<2> { using type = u16; };
template <> struct WordOf<4> { using type = u32; };
template <> struct WordOf<8> { using type = uint2; };
__device__ __forceinline__ void clear(u16 &word) { word = 0; }
__device__ __forceinline__ void clear(u32 &word) { word = 0; }
__device__ __forceinline__ void clear(uint2 &word) { word = make_uint2(0, 0); }
struct Halves {
    u16 first, second;
};
__device__ __forceinline__ Halves halves_of(u32 word) {
    Halves halves;
    asm("mov.b32 {%0, %1}, %2;" : "=h"(halves.first), "=h"(halves.second) : "r"(word));
    return halves;
}
template <typename T> __device__ __forceinline__ Compute<T> first_of(u16 word) { return widen(T{word}); }
template <typename T> __device__ __forceinline__ Compute<T> first_of(u32 word) {
    if constexpr (sizeof(T) == 2) {
        return widen(T{halves_of(word).first});
    } else {
        return __uint_as_float(word);
    }
}
template <typename T> __device__ __forceinline__ Compute<T> first_of(uint2 word) { return __hiloint2double(word.y, word.x); }
template <typename T> __device__ __forceinline__ Compute<T> second_of(u32 word) { return widen(T{halves_of(word).second}); }
