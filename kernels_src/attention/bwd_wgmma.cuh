// Attention's gradients on Hopper (sm_90a): what sdpa_bwd_wgmma_*.cu share.
//
//   SdpaBwdTile<f16, Depth, Rows, Steps>   sizes: a block owns Rows queries (or keys) and goes through the
//                                    keys (or queries) that they see (or are seen by), Steps at a time
//   SdpaBand                         which of the others an own row meets, and the steps of a block
//   SdpaBwdShared<Tile>              what a block has in shared memory, and its barriers
//   sdpa_bwd_bring                   the warp that loads
//   SdpaBwdSums<Tile>                a warpgroup that multiplies: 64 own rows
//
// Own rows are a (q, or k) and b (do, or v), a step brings x (k, or q) and y (v, or do): the scores are
// a @ x^T, the gradients of the weights b @ y^T. A row of shared memory is 64 elements, 128 bytes, in TMA's
// swizzle; the next 64 elements lie a panel further on.
#pragma once
#include "fwd_wgmma_sums.cuh"
#include "lib/number.cuh"

namespace cydnn {

template <class Elem, int Depth, int Rows, int Steps> struct SdpaBwdTile {
    using Type = Elem;
    static constexpr int depth = Depth, rows = Rows, steps = Steps;
    static constexpr bool is_pair = Rows < 128;      // two warpgroups share own rows: one makes weights
    static constexpr int groups = is_pair ? 2 : Rows / 64;
    static constexpr int gives = groups == 3 ? 32 : 24, takes = groups == 3 ? 160 : 240;    // registers
    static constexpr int own_panel = Rows * LINE, step_panel = Steps * LINE;                // bytes
    static constexpr int own_bytes = Depth / 64 * own_panel, step_bytes = Depth / 64 * step_panel;
    // Own rows of the next tile are on their way where there is room.
    static constexpr int slots = Depth <= 64 ? 2 : 1;
    static constexpr int lent_bytes = is_pair ? 2 * Rows * Steps * 2 : 0;   // weights of two steps
    static constexpr int room =
        (225 * 1024 - slots * 2 * own_bytes - lent_bytes) / (2 * step_bytes + 8 * Steps);
    static constexpr int stages = room < 4 ? room : 4;
    // A sum of a step is asked for beside the scores of the next one; three warpgroups do as well without,
    // and with two stages the next one would come too late.
    static constexpr bool is_late = groups < 3 && stages > 2;
    static_assert(stages >= 2 && Steps % 16 == 0);
};

// Own row i meets the others from i + shift - before to i + shift + behind. own, others: of the batch.
struct SdpaBand {
    int before, behind, own, others, shift;
    int first, end, whole, whole_end;                // steps of a block; from `whole` on it meets all of one

    DEVICE int first_of(int i) const { return max(0, i + shift - before); }
    DEVICE int end_of(int i) const { return i < own ? max(0, min(others, i + shift + behind + 1)) : 0; }
    template <class Tile> DEVICE void at(int row) {
        const int last = min(row + Tile::rows, own) - 1;
        first = first_of(row) / Tile::steps, end = max(first, ceil_div(end_of(last), Tile::steps));
        whole = ceil_div(first_of(last), Tile::steps), whole_end = end_of(row) / Tile::steps;
    }
};

// How many rows the batches have, of `most`: what the device reads, or all.
struct SdpaLengths {
    const int* each;                                                 // or null
    i64 step;
    int most;
    DEVICE int of(int batch) const { return each ? max(0, min(each[batch * step], most)) : most; }
};

// The tiles of this block: in each section of heads, whose others fit the cache, row tile by row tile, and
// every other round of the blocks backwards, as those that are behind meet less.
template <class Tile> struct SdpaBwdOrder {
    const SdpaLengths own, others;
    int batches, heads, section, from_end;
    bool is_back;                                                    // the last rows meet most
    SdpaBand band;
    SdpaWork w;

    // Is there an n-th one?
    DEVICE bool at(int n) {
        const int t = n * gridDim.x + (n & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
        const int tiles = ceil_div(own.most, Tile::rows), count = batches * heads;
        if (t >= tiles * count) return false;
        const int part = t / (section * tiles), rest = t - part * section * tiles;
        const int among = min(section, count - part * section), back = rest / among;
        const int head = part * section + rest - back * among;
        w.batch = head / heads, w.head = head - w.batch * heads;
        w.row = (is_back ? tiles - 1 - back : back) * Tile::rows;
        band.own = own.of(w.batch), band.others = others.of(w.batch);
        band.shift = from_end ? band.others - band.own : 0;
        band.template at<Tile>(w.row);
        return true;
    }
    DEVICE int steps() const { return band.end - band.first; }
    // Some of what step j brings lies beyond the end of the batch, and is a tensor's.
    DEVICE bool is_cut(int j) const {
        return band.others < others.most && (j + 1) * Tile::steps > band.others;
    }
};

template <class Tile> struct SdpaBwdShared {
    unsigned char* const begin;
    struct Barriers {
        uint64_t own_full[2], own_empty[2], x_full[4], y_full[4], empty[4], raw;
        uint64_t lent[2], taken[2];                                  // weights, where two warpgroups share
    }* const barriers;
    float* const values;                                             // of the others, two a row

    DEVICE explicit SdpaBwdShared(unsigned char* shared)
        : begin(shared + (-shared_address(shared) & 1023)),
          barriers(reinterpret_cast<Barriers*>(x(Tile::stages) + Tile::lent_bytes)),
          values(reinterpret_cast<float*>(barriers + 1)) {}
    DEVICE unsigned char* a(int slot) const { return begin + slot * 2 * Tile::own_bytes; }
    DEVICE unsigned char* b(int slot) const { return a(slot) + Tile::own_bytes; }
    DEVICE unsigned char* x(int stage) const { return a(Tile::slots) + stage * 2 * Tile::step_bytes; }
    DEVICE unsigned char* y(int stage) const { return x(stage) + Tile::step_bytes; }
    DEVICE float* value(int stage, int which) const { return values + (2 * stage + which) * Tile::steps; }
    DEVICE uint4* words(int n) const {                               // of a thread, of the weights of step n
        return reinterpret_cast<uint4*>(x(Tile::stages) + n % 2 * Tile::lent_bytes / 2) + threadIdx.x % 128;
    }
    // One thread, then a barrier of the block. `brings`: how many bring x, or what belongs to it.
    DEVICE void init(int brings) const {
        UNROLL for (int i = 0; i < Tile::slots; ++i)
            barrier_init(barriers->own_full + i, 1), barrier_init(barriers->own_empty + i, 4 * Tile::groups);
        UNROLL for (int i = 0; i < Tile::stages; ++i) {
            barrier_init(barriers->x_full + i, brings), barrier_init(barriers->y_full + i, 1);
            barrier_init(barriers->empty + i, 4 * Tile::groups);
        }
        barrier_init(&barriers->raw, 1);
        UNROLL for (int i = 0; i < 2; ++i)
            barrier_init(barriers->lent + i, 4), barrier_init(barriers->taken + i, 4);
        barriers_begin();
    }
    // A warp: rows of a step from `left` on become 0, as 0 times what lies there may be NaN.
    DEVICE void clear(int stage, int left) const {
        NO_UNROLL for (int i = left * CHUNKS + threadIdx.x % 32; i < Tile::steps * CHUNKS; i += 32)
            UNROLL for (int p = 0; p < Tile::depth / 64; ++p) {
                *reinterpret_cast<uint4*>(x(stage) + p * Tile::step_panel + i * CHUNK) = uint4{};
                *reinterpret_cast<uint4*>(y(stage) + p * Tile::step_panel + i * CHUNK) = uint4{};
            }
        fence_async();
        __syncwarp();
    }
};

// A warp: of each tile own rows, then the steps, for each of `span` heads of the others, with logs and dots
// where the others have them.
struct SdpaBwdPlaces {
    const SdpaPlace a, b, x, y;
    const float *logs, *dots;                                        // or null
};
template <class Tile, bool HasValues>
DEVICE void sdpa_bwd_bring(const SdpaBwdShared<Tile>& shared, SdpaBwdOrder<Tile> order, int span,
                           const SdpaBwdPlaces& p) {
    constexpr int PANELS = Tile::depth / 64;
    auto* const b = shared.barriers;
    const int lane = threadIdx.x % 32, others = order.others.most;
    int n = 0;
    unsigned raw = 0;
    NO_UNROLL for (int tile = 0; order.at(tile); ++tile) {
        const int slot = tile % Tile::slots, head = order.w.head * span;
        uint64_t* const full = b->own_full + slot;
        SdpaWork w = order.w;
        barrier_wait(b->own_empty + slot, tile / Tile::slots & 1 ^ 1);
        if (lane == 0 && order.steps() == 0) barrier_arrive(full);
        else if (lane == 0) {
            barrier_expect(full, 2 * Tile::own_bytes);
            p.a.template load<PANELS>(shared.a(slot), Tile::own_panel, w, w.row, full);
            p.b.template load<PANELS>(shared.b(slot), Tile::own_panel, w, w.row, full);
        }
        NO_UNROLL for (w.head = head; w.head < head + span; ++w.head)
            NO_UNROLL for (int j = order.band.first; j < order.band.end; ++j, ++n) {
                const int stage = n % Tile::stages, row = j * Tile::steps;
                uint64_t *x_full = b->x_full + stage, *y_full = b->y_full + stage;
                barrier_wait(b->empty + stage, n / Tile::stages & 1 ^ 1);
                const bool is_cut = order.is_cut(j);
                if (is_cut) x_full = y_full = &b->raw;
                if (lane == 0) {
                    if (is_cut) barrier_expect(x_full, 2 * Tile::step_bytes);
                    else barrier_expect(x_full, Tile::step_bytes), barrier_expect(y_full, Tile::step_bytes);
                    p.x.template load<PANELS>(shared.x(stage), Tile::step_panel, w, row, x_full);
                    p.y.template load<PANELS>(shared.y(stage), Tile::step_panel, w, row, y_full);
                }
                if (is_cut) {
                    barrier_wait(x_full, raw), raw ^= 1;
                    shared.clear(stage, order.band.others - row);
                    if (lane == 0) barrier_arrive(b->x_full + stage), barrier_arrive(b->y_full + stage);
                }
                if (HasValues) {
                    const i64 at = (i64(w.batch) * order.heads * span + w.head) * others;
                    UNROLL for (int i = lane; i < Tile::steps; i += 32) {
                        shared.value(stage, 0)[i] = row + i < others ? p.logs[at + row + i] : INFINITY;
                        shared.value(stage, 1)[i] = row + i < others ? p.dots[at + row + i] : 0;
                    }
                    __syncwarp();
                    if (lane == 0) barrier_arrive(b->x_full + stage);
                }
            }
    }
}

template <int Count> DEVICE void words_change(unsigned (&p)[Count][4]) {
    UNROLL for (int i = 0; i < Count; ++i)
        UNROLL for (int r = 0; r < 4; ++r) asm volatile("" : "+r"(p[i][r]) :: "memory");
}

template <class Tile> struct SdpaBwdSums {
    using Type = typename Tile::Type;
    using Sums = float[Tile::depth / 2];
    using Words = unsigned[Tile::steps / 16][4];
    const SdpaBwdShared<Tile>& shared;
    const int group;
    const float scale;                                               // to powers of two; not 0
    int slot = 0;
    float s[Tile::steps / 2], d[Tile::steps / 2];                    // scores; gradients of the weights

    DEVICE int stage(int n) const { return n % Tile::stages; }
    DEVICE unsigned x(int n) const { return shared_address(shared.x(stage(n))); }
    DEVICE unsigned y(int n) const { return shared_address(shared.y(stage(n))); }

    DEVICE void ask_square(float (&to)[Tile::steps / 2], unsigned own, unsigned step) const {
        const uint64_t a = swizzled_panel(own + group * 64 * LINE, CHUNK, 8 * LINE);
        const uint64_t b = swizzled_panel(step, CHUNK, 8 * LINE);
        UNROLL for (int i = 0; i < Tile::depth / 16; ++i)
            Wgmma<Type, Tile::steps>::template add<0, 0>(
                to, panel_on(a, i / 4 * Tile::own_panel + i % 4 * 32),
                panel_on(b, i / 4 * Tile::step_panel + i % 4 * 32), i > 0);
        wgmma_commit();
    }
    static DEVICE void ask_sums(Sums& to, Words& by, unsigned step) {
        const uint64_t b = swizzled_panel(step, Tile::step_panel, 8 * LINE);
        words_change(by), sums_change(to), wgmma_fence();
        UNROLL for (int i = 0; i < Tile::steps / 16; ++i)
            WgmmaOfRegisters<Type, Tile::depth>::add(to, by[i], panel_on(b, i * 16 * LINE));
        wgmma_commit();
    }
    DEVICE void ask_scores(int n) {
        barrier_wait(shared.barriers->x_full + stage(n), n / Tile::stages & 1);
        wgmma_begin(s);
        ask_square(s, shared_address(shared.a(slot)), x(n));
    }
    DEVICE void ask_slopes(int n) {
        barrier_wait(shared.barriers->y_full + stage(n), n / Tile::stages & 1);
        wgmma_begin(d);
        ask_square(d, shared_address(shared.b(slot)), y(n));
    }
    // Both of what a step brings are there.
    DEVICE void wait(int n) {
        barrier_wait(shared.barriers->x_full + stage(n), n / Tile::stages & 1);
        barrier_wait(shared.barriers->y_full + stage(n), n / Tile::stages & 1);
    }
    // Own rows of a tile are there; and stored, so that others may come.
    DEVICE void begin(int tile) {
        slot = tile % Tile::slots;
        barrier_wait(shared.barriers->own_full + slot, tile / Tile::slots & 1);
    }
    DEVICE void end() const {
        if (threadIdx.x % 32 == 0) store_wait_read<0>(), barrier_arrive(shared.barriers->own_empty + slot);
        __syncwarp();
    }
    DEVICE void leave(int n) {
        __syncwarp();                                                // all have read the values
        if (threadIdx.x % 32 == 0) barrier_arrive(shared.barriers->empty + stage(n));
    }
    // Column i of the thread is met by row h from first[h] on, up to before end[h].
    DEVICE void hide(const SdpaBand& band, int row, int step) {
        if (step >= band.whole && step < band.whole_end) return;
        const float none = copysignf(INFINITY, -scale);              // -infinity when it is scaled
        const int column = step * Tile::steps + threadIdx.x % 4 * 2;
        UNROLL for (int h = 0; h < 2; ++h) {
            const int first = band.first_of(row + 8 * h) - column, end = band.end_of(row + 8 * h) - column;
            UNROLL for (int i = 2 * h; i < Tile::steps / 2; i += 4)
                UNROLL for (int n = 0; n < 2; ++n)
                    if (i / 4 * 8 + n < first || i / 4 * 8 + n >= end) s[i + n] = none;
        }
    }
    // What was summed for rows that are not there may be no number. left: rows from the thread's first on.
    static DEVICE void drop(Sums& sums, int left) {
        UNROLL for (int i = 0; i < Tile::depth / 2; ++i) sums[i] = i / 2 % 2 * 8 < left ? sums[i] : 0;
    }
    // Each warp stores its 16 rows of a gradient, by way of own rows that all of its warpgroup have read.
    DEVICE void put(const Sums& sums, float by, unsigned char* own, const CUtensorMap& map,
                    const SdpaWork& w) const {
        const int lane = threadIdx.x % 32, row = lane % 16;
        const int at = group * 64 + __shfl_sync(~0u, threadIdx.x / 32 % 4, 0) * 16;
        unsigned char* const to = own + at * LINE;
        UNROLL for (int i = 0; i < Tile::depth / 16; ++i) {
            unsigned r[4];
            UNROLL for (int n = 0; n < 4; ++n)
                r[n] = pair_of<Type>(sums[8 * i + 2 * n] * by, sums[8 * i + 2 * n + 1] * by);
            const unsigned place = (i % 4 * 2 + lane / 16 ^ row & 7) * CHUNK;
            stmatrix_x4(shared_address(to) + i / 4 * Tile::own_panel + row * LINE + place, r);
        }
        fence_async();
        __syncwarp();
        if (lane > 0) return;
        UNROLL for (int i = 0; i < Tile::depth / 64; ++i) {
            const int place[5] = {64 * i, w.row + at, w.head, w.batch, 0};
            tensor_store(map, place, to + i * Tile::own_panel);
        }
        store_commit();
    }
};

// Scores become powers of two; 0 would give 0 times infinity where they are hidden.
DEVICE float sdpa_bwd_scale(float scale) {
    const float found = scale * 1.4426950408889634f;
    return found == 0 ? FLT_MIN : found;
}
DEVICE float2 sdpa_bwd_weights(unsigned pair, f16) {
    return __half22float2(reinterpret_cast<const __half2&>(pair));
}
DEVICE float2 sdpa_bwd_weights(unsigned pair, bf16) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u)};
}

}  // namespace cydnn
