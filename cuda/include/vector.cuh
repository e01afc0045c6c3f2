// Sixteen bytes at a time.
#pragma once
#include "types.cuh"

template <typename T> struct alignas(16) Pack {
    static constexpr int LANES = 16 / sizeof(T);
    T lanes[LANES];
};

template <typename T> __device__ __forceinline__ Pack<T> load_pack(const T *address) {
    uint4 raw = *reinterpret_cast<const uint4 *>(address);
    Pack<T> pack;
    if constexpr (sizeof(T) == 2) {
        u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            pack.lanes[2 * i].bits = u16(words[i]);
            pack.lanes[2 * i + 1].bits = u16(words[i] >> 16);
        }
    } else if constexpr (sizeof(T) == 4) {
        u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; i++) pack.lanes[i] = __uint_as_float(words[i]);
    } else {
        pack.lanes[0] = __hiloint2double(raw.y, raw.x);
        pack.lanes[1] = __hiloint2double(raw.w, raw.z);
    }
    return pack;
}

template <typename T> __device__ __forceinline__ void store_pack(T *address, const Pack<T> &pack) {
    uint4 raw;
    if constexpr (sizeof(T) == 2) {
        raw.x = u32(pack.lanes[0].bits) | u32(pack.lanes[1].bits) << 16;
        raw.y = u32(pack.lanes[2].bits) | u32(pack.lanes[3].bits) << 16;
        raw.z = u32(pack.lanes[4].bits) | u32(pack.lanes[5].bits) << 16;
        raw.w = u32(pack.lanes[6].bits) | u32(pack.lanes[7].bits) << 16;
    } else if constexpr (sizeof(T) == 4) {
        raw = make_uint4(__float_as_uint(pack.lanes[0]), __float_as_uint(pack.lanes[1]),
                         __float_as_uint(pack.lanes[2]), __float_as_uint(pack.lanes[3]));
    } else {
        raw = make_uint4(__double2loint(pack.lanes[0]), __double2hiint(pack.lanes[0]),
                         __double2loint(pack.lanes[1]), __double2hiint(pack.lanes[1]));
    }
    *reinterpret_cast<uint4 *>(address) = raw;
}
