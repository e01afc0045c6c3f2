// Sixteen bytes at a time, kept as four words until a lane is needed: halves unpacked early would cost a register each.
#pragma once
#include "types.cuh"

template <typename T> struct Pack {
    enum : i32 { LANES = 16 / sizeof(T) };
    u32 words[4];

    __device__ __forceinline__ Compute<T> get(int lane) const {
        if constexpr (sizeof(T) == 2) {
            return widen(T{u16(lane % 2 ? words[lane / 2] >> 16 : words[lane / 2])});
        } else if constexpr (sizeof(T) == 4) {
            return __uint_as_float(words[lane]);
        } else {
            return __hiloint2double(words[2 * lane + 1], words[2 * lane]);
        }
    }
    // Lanes are set in ascending order, each once.
    __device__ __forceinline__ void set(int lane, Compute<T> value) {
        if constexpr (sizeof(T) == 2) {
            const u32 bits = narrow<T>(value).bits;
            words[lane / 2] = lane % 2 ? words[lane / 2] | bits << 16 : bits;
        } else if constexpr (sizeof(T) == 4) {
            words[lane] = __float_as_uint(value);
        } else {
            words[2 * lane] = __double2loint(value);
            words[2 * lane + 1] = __double2hiint(value);
        }
    }
};

template <typename T> __device__ __forceinline__ Pack<T> load_pack(const T *address) {
    const uint4 raw = *reinterpret_cast<const uint4 *>(address);
    Pack<T> pack;
    pack.words[0] = raw.x, pack.words[1] = raw.y, pack.words[2] = raw.z, pack.words[3] = raw.w;
    return pack;
}

// To global memory.
template <typename T> __device__ __forceinline__ void store_pack(T *address, const Pack<T> &pack) {
    // Written out, since the compiler splits some of these stores into four.
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(address)), "r"(pack.words[0]), "r"(pack.words[1]), "r"(pack.words[2]),
                   "r"(pack.words[3])
                 : "memory");
}

// The widest aligned shared-memory reads that every thread's first column allows.
template <typename C, int COUNT, int UNIT>
__device__ __forceinline__ void read_row(const C *row, C (&values)[COUNT]) {
    static_assert(COUNT % UNIT == 0, "whole units");
    if constexpr (sizeof(C) * UNIT == 16) {
#pragma unroll
        for (int i = 0; i < COUNT; i += UNIT) {
            if constexpr (sizeof(C) == 4) {
                const float4 v = *reinterpret_cast<const float4 *>(row + i);
                values[i] = v.x, values[i + 1] = v.y, values[i + 2] = v.z, values[i + 3] = v.w;
            } else {
                const double2 v = *reinterpret_cast<const double2 *>(row + i);
                values[i] = v.x, values[i + 1] = v.y;
            }
        }
    } else if constexpr (sizeof(C) * UNIT == 8 && sizeof(C) == 4) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            const float2 v = *reinterpret_cast<const float2 *>(row + i);
            values[i] = v.x, values[i + 1] = v.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) values[i] = row[i];
    }
}
