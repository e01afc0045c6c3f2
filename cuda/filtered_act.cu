// FilteredAct: a tensor upsampled and filtered, activated, filtered and downsampled; and its gradient, where two tensors go up
// and the slope times the stream comes down. A block owns a tile of outputs of one plane. It computes the tile some rows at a
// time, keeps what the next rows need, and has nothing of the upsampled grid in global memory.
#include "filtered_act/stages.cuh"
#include "reduce.cuh"

template <typename T, int STREAMS> __device__ __forceinline__ void filtered_act(const FilteredActParameters &p) {
    using C = Compute<T>;
    extern __shared__ double2 dynamic[];
    __shared__ TapsScratch scratch;
    C *room = reinterpret_cast<C *>(dynamic);

    // Which tile of which plane.
    const u32 rest = blockIdx.x / u32(p.tiles_x), plane = rest / u32(p.tiles_y), batch = plane / u32(p.channels);
    const i32 tile_x = i32(blockIdx.x - rest * u32(p.tiles_x)), tile_y = i32(rest - plane * u32(p.tiles_y));
    const i64 inner = i64(plane - batch * u32(p.channels));
    const i64 channel = p.first_channel + i64(batch) * p.channel_strides[0] + inner * p.channel_strides[1];
    const i32 column = tile_x * p.tile_width, top = tile_y * p.tile_height;
    const i32 bottom = min(top + p.tile_height, p.output_height);
    // Taps of all filters, each step for all of them at once; the numbers of the channel come with them.
    TapsUnderWay under_way[STREAMS], under_way_down;
#pragma unroll
    for (int s = 0; s < STREAMS; s++) under_way[s].load(p.streams[s].filter);
    under_way_down.load(p.down);
    // Adding it changes nothing, the sign of a zero included.
    const C bias = p.bias ? load_as<C>(p.bias, i32(p.bias_type), channel) : C(-0.0);
    Between<C> between(p, channel);
#pragma unroll
    for (int s = 0; s < STREAMS; s++) under_way[s].store(p.streams[s].filter, room);
    under_way_down.store(p.down, room);
#pragma unroll
    for (int s = 0; s < STREAMS; s++) find_largest(p.streams[s].filter, room, scratch, s);
    find_largest(p.down, room, scratch, STREAMS);
    __syncthreads();
#pragma unroll
    for (int s = 0; s < STREAMS; s++) factor(p.streams[s].filter, room, scratch, s);
    factor(p.down, room, scratch, STREAMS);
    __syncthreads();
    FilterTaps<C> taps[STREAMS];
#pragma unroll
    for (int s = 0; s < STREAMS; s++) {
        taps[s] = taps_of(p.streams[s].filter, room, finish_taps(p.streams[s].filter, room, scratch, s));
    }
    const FilterTaps<C> taps_down = taps_of(p.down, room, finish_taps(p.down, room, scratch, STREAMS));

    MiddlePart part;
    part.column = column * p.down.factor_x - p.down.pad_x;
    part.low = max(-part.column, 0);
    part.high = min(p.middle_width - part.column, p.columns);
    Source<T> sources[STREAMS];
    StreamRows<C> rows[STREAMS];
    i32 held[STREAMS];  // the input after the last row that is in shared memory
#pragma unroll
    for (int s = 0; s < STREAMS; s++) {
        const StreamParameters &stream = p.streams[s];
        i32 tap;
        sources[s].first = first_input(part.column, stream.filter.pad_x, stream.filter.factor_x, tap);
        sources[s].plane = pointer<const T>(stream.input) + i64(batch) * stream.strides[0] + inner * stream.strides[1];
        sources[s].adjacent = stream.strides[3] == 1;
        rows[s].rows = room + stream.rows;
        rows[s].column = sources[s].first;
        held[s] = 0;
    }
    // Each sample of the middle grid is counted by one tile.
    const auto share = [](i32 first, i32 after, i32 down, i32 pad, i32 length, bool is_first, bool is_last, i32 &low, i32 &high) {
        low = is_first ? 0 : min(max(first * down - pad, 0), length);
        high = is_last ? length : min(max(after * down - pad, 0), length);
    };
    Owned owned;
    share(column, column + p.tile_width, p.down.factor_x, p.down.pad_x, p.middle_width, tile_x == 0, tile_x + 1 == p.tiles_x,
          owned.left, owned.right);
    share(top, bottom, p.down.factor_y, p.down.pad_y, p.middle_height, tile_y == 0, tile_y + 1 == p.tiles_y, owned.top,
          owned.bottom);

    C *middle = room + p.middle, *sums_along_y = room + p.sums;
    T *output = pointer<T>(p.output) + i64(batch) * p.output_strides[0] + inner * p.output_strides[1];
    const i32 advance = p.chunk * p.down.factor_y;  // rows of the middle grid from chunk to chunk
    double total = 0.0;
    part.fresh = 0;
#pragma unroll 1
    for (i32 row = top; row < bottom; row += p.chunk) {
        const i32 outputs = min(p.chunk, bottom - row);
        part.row = row * p.down.factor_y - p.down.pad_y;
        part.rows = (outputs - 1) * p.down.factor_y + p.down.taps_y;
        C *window = middle + part.fresh * p.pitch;
#pragma unroll
        for (int s = 0; s < STREAMS; s++) {
            const StreamParameters &stream = p.streams[s];
            i32 tap;
            const i32 start = first_input(part.row + part.fresh, stream.filter.pad_y, stream.filter.factor_y, tap);
            const i32 end = max(end_input(part.row + part.rows - 1, stream.filter.pad_y, stream.filter.factor_y, stream.filter.taps_y), start);
            rows[s].row = start;
            const i32 first = row == top ? start : max(held[s], start), count = max(end - first, 0);
            held[s] = max(end, first);
            // Taps, and whatever stood here, are no longer needed by anyone.
            __syncthreads();
            C *target = const_cast<C *>(rows[s].rows) + (first - start) * p.pitch;
            const bool separable = taps[s].separable;
            C *to = separable ? window : target;
            const i32 pitch = separable ? stream.window_width : p.pitch;
            const C added = s == 0 ? bias : C(-0.0);
            // A gradient has no tiles where samples outside a signal count.
            const bool zeros = STREAMS == 2 || stream.filter.border == CONSTANT;
            load_rows<T>(stream, sources[s], first, count, to, pitch, added, zeros);
            if (!zeros) fill_border<T>(stream, sources[s], first, count, to, pitch, added);
            if (separable) {
                __syncthreads();
                filter_along_x(p, stream, taps[s].x, part, sources[s].first, window, target, count);
            }
        }
        __syncthreads();
        fill_middle<C, STREAMS>(p, taps, rows, part, middle, between, owned);
        __syncthreads();
        if (reaches_out(p, part)) {
            fill_outside(p, part, middle);
            __syncthreads();
        }
        const bool goes_on = row + p.chunk < bottom;
        const i32 kept = max(p.down.taps_y - p.down.factor_y, 0);
        if (goes_on) {
#pragma unroll
            for (int s = 0; s < STREAMS; s++) {
                const FilterParameters &f = p.streams[s].filter;
                i32 tap;
                const i32 next = first_input(part.row + advance + kept, f.pad_y, f.factor_y, tap);
                const bool filtered = taps[s].separable;
                const i32 columns = filtered ? max(part.high - part.low, 0) : p.streams[s].window_width;
                keep_rows(const_cast<C *>(rows[s].rows), next - rows[s].row, held[s] - next, p.pitch, columns,
                          [&](i32 c) { return filtered ? part.place(p, part.low + c) : c; });
            }
            // Sums along y stand where rows were that nobody keeps.
            __syncthreads();
        }
        const bool separable = taps_down.separable;
        if (separable) {
            sum_along_y(p, taps_down.y, part, middle, sums_along_y, outputs);
            __syncthreads();
        }
        total += store_outputs<T>(p, separable ? taps_down.x : taps_down.full, separable ? 1 : p.down.taps_y,
                                  separable ? sums_along_y : middle, separable ? p.pitch : p.down.factor_y * p.pitch, output,
                                  column, row, outputs, STREAMS == 2);
        if (!separable) __syncthreads();
        if (goes_on) keep_rows(middle, advance, kept, p.pitch, p.columns, [&](i32 c) { return part.place(p, c); });
        part.fresh = kept;
    }
    if constexpr (STREAMS == 2) {
        if (!p.partials) return;
        double *partials = pointer<double>(p.partials) + blockIdx.x;
        const double sums[3] = {total, double(between.by_frequency), double(between.by_divisor)};
#pragma unroll
        for (int which = 0; which < 3; which++) {
            // Nobody writes these sums before those before have been read.
            if (which > 0) __syncthreads();
            const double sum = block_sum(sums[which]);
            if (threadIdx.x == 0) partials[i64(which) * p.blocks] = sum;
        }
    }
}

// Two blocks a multiprocessor, shared memory has room for few more; float64 and gradients take the registers of both.
#define LAUNCH_BOUNDS(T, STREAMS) __launch_bounds__(THREADS, sizeof(T) == 8 || STREAMS == 2 ? 1 : 2)

#define DEFINE(suffix, T)                                                                                              \
    extern "C" __global__ void LAUNCH_BOUNDS(T, 1) filtered_act_##suffix(FilteredActParameters p) {                    \
        filtered_act<T, 1>(p);                                                                                         \
    }                                                                                                                  \
    extern "C" __global__ void LAUNCH_BOUNDS(T, 2) filtered_act_gradient_##suffix(FilteredActParameters p) {           \
        filtered_act<T, 2>(p);                                                                                         \
    }

FOR_EACH_TYPE(DEFINE)

// One block a channel.
extern "C" __global__ void __launch_bounds__(THREADS) filtered_act_finish(FilteredActFinishParameters p) {
    const double *partials = pointer<const double>(p.partials) + i64(blockIdx.x) * p.stride;
    double sums[3] = {0.0, 0.0, 0.0};
    for (i64 m = threadIdx.x; m < p.count; m += THREADS) {
        const i64 outer = m / p.inner;
        const double *of = partials + outer * p.outer_stride + (m - outer * p.inner);
#pragma unroll
        for (int which = 0; which < 3; which++) sums[which] += of[which * p.blocks];
    }
#pragma unroll
    for (int which = 0; which < 3; which++) {
        // Nobody writes these sums before those before have been read.
        if (which > 0) __syncthreads();
        sums[which] = block_sum(sums[which]);
    }
    if (threadIdx.x != 0) return;
    if (p.bias_gradient) store_as(p.bias_gradient, i32(p.bias_type), blockIdx.x, sums[0]);
    store_wave_gradients(p.wave, blockIdx.x, sums[1], sums[2], p.alpha_gradient, p.beta_gradient);
}
