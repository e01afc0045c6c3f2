// What lies outside a signal.
#pragma once
#include "types.cuh"

// As `src/filters/border.rs` numbers them.
enum Border : i32 { CONSTANT = 0, EDGE = 1, REFLECT = 2, SYMMETRIC = 3, WRAP = 4 };

// After how many positions a rule repeats itself; a single sample is repeated by every rule.
template <typename Position> __device__ __forceinline__ Position border_period(i32 border, Position length) {
    return border == WRAP ? length : 2 * (border == REFLECT ? length - 1 : length);
}

template <typename Position> __device__ __forceinline__ Position modulo(Position value, Position divisor) {
    const Position rest = value % divisor;
    return rest < 0 ? rest + divisor : rest;
}

__device__ __forceinline__ bool is_inside(i32 position, i32 length) { return u32(position) < u32(length); }
__device__ __forceinline__ bool is_inside(i64 position, i64 length) { return u64(position) < u64(length); }

// Which sample of a signal stands at a position inside or outside it.
template <typename Position>
__device__ __forceinline__ Position border_source(i32 border, Position position, Position length) {
    if (is_inside(position, length)) return position;
    if (border == EDGE || length == 1) return position < 0 ? 0 : length - 1;
    const Position period = border_period(border, length), place = modulo(position, period);
    return border == WRAP ? place : min(place, period - place - Position(border == SYMMETRIC));
}
