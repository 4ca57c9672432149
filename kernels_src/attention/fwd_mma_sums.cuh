// Attention on tensor cores by mma.sync (sm_80): what sdpa_fwd_mma.cu multiplies and adds up.
//
//   SdpaQueries<Tile>            the queries of a warp, as fragments
//   SdpaMmaSums<Tile>            scores, weights and sums of a warp's 16 queries
//   sums_of_teams<Tile>(…)       the sums of all teams, in their order
//   SdpaOut<Type>                where o and stats go
#pragma once
#include "fwd_mma.cuh"
#include "ragged.cuh"

namespace cydnn {

// A weight, PTX ISA §ex2
DEVICE float weight_of(float x) {
    float y;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// A row's largest weight is 2 to this, so that f16 holds small ones.
template <class Type> struct MmaRoom { static constexpr float value = 0; };
template <> struct MmaRoom<f16> { static constexpr float value = 15; };
DEVICE float base_of(float top) { return top == -INFINITY ? 0.f : top; }

template <class Type> DEVICE unsigned pair_of(float a, float b) {
    unsigned word;
    from_acc2(reinterpret_cast<Type*>(&word), a, b);
    return word;
}

// Thread t of a warp has rows t / 4 and that + 8, and of these the columns 8 j + 2 (t % 4) + {0, 1}.
template <class Tile> struct SdpaMmaSums {
    using Type = typename Tile::Type;
    static constexpr int depth = Tile::depth, keys = Tile::keys;
    float s[keys / 8][4], o[depth / 8][4];
    float top[2], total[2];                      // of the two rows, less the room; totals of own columns

    DEVICE void clear() {
        UNROLL for (int j = 0; j < depth / 8; ++j) UNROLL for (int i = 0; i < 4; ++i) o[j][i] = 0;
        UNROLL for (int h = 0; h < 2; ++h) top[h] = -INFINITY, total[h] = 0;
    }
    template <class Queries> DEVICE void make_scores(const Queries& q, unsigned k) {
        const int lane = threadIdx.x % 32, row = lane % 8 + lane / 16 * 8;
        const unsigned at = k + swizzled(row, lane / 8 % 2, Tile::line);
        UNROLL for (int j = 0; j < keys / 8; ++j) UNROLL for (int i = 0; i < 4; ++i) s[j][i] = 0;
        UNROLL for (int kk = 0; kk < depth / 16; ++kk) {
            unsigned a[4], b[4];
            q.read(a, kk);
            UNROLL for (int j = 0; j < keys / 16; ++j) {
                ldmatrix_x4(b, (at ^ kk * 2 * CHUNK) + j * 16 * Tile::line);
                mma_m16n8<Type>(s[2 * j], a, {b[0], b[1]});
                mma_m16n8<Type>(s[2 * j + 1], a, {b[2], b[3]});
            }
        }
    }
    // Column 0 of the thread is key `key`.
    DEVICE void hide(const int (&first)[2], const int (&end)[2], int key) {
        UNROLL for (int j = 0; j < keys / 8; ++j) UNROLL for (int i = 0; i < 4; ++i) {
            const int column = key + j * 8 + i % 2;
            if (column < first[i / 2] || column >= end[i / 2]) s[j][i] = -INFINITY;
        }
    }
    // Scores, as powers of two, to weights.
    DEVICE void weigh() {
        float shrink[2];
        UNROLL for (int h = 0; h < 2; ++h) {
            float most = s[0][2 * h];
            UNROLL for (int j = 0; j < keys / 8; ++j) most = fmaxf(most, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
            const float now = fmaxf(top[h], most - MmaRoom<Type>::value), base = base_of(now);
            shrink[h] = weight_of(top[h] - base), top[h] = now;
            float sum = 0;
            UNROLL for (int j = 0; j < keys / 8; ++j) UNROLL for (int i = 2 * h; i < 2 * h + 2; ++i)
                s[j][i] = weight_of(s[j][i] - base), sum += s[j][i];
            total[h] = total[h] * shrink[h] + sum;
        }
        if (!__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1)) return;
        UNROLL for (int j = 0; j < depth / 8; ++j)
            UNROLL for (int i = 0; i < 4; ++i) o[j][i] *= shrink[i / 2];
    }
    // Weights that dropout drops, behind their totals.
    DEVICE void drop(unsigned kept) {
        UNROLL for (int j = 0; j < keys / 8; ++j)
            UNROLL for (int i = 0; i < 4; ++i) s[j][i] = kept >> 4 * j + i & 1 ? s[j][i] : 0;
    }
    DEVICE void add_values(unsigned v) {
        const int lane = threadIdx.x % 32;
        const unsigned at = v + swizzled(lane % 16, lane / 16, Tile::line);
        UNROLL for (int i = 0; i < keys / 16; ++i) {
            const float *const x = s[2 * i], *const y = s[2 * i + 1];
            const unsigned a[4] = {pair_of<Type>(x[0], x[1]), pair_of<Type>(x[2], x[3]),
                                   pair_of<Type>(y[0], y[1]), pair_of<Type>(y[2], y[3])};
            UNROLL for (int j = 0; j < depth / 16; ++j) {
                unsigned b[4];
                ldmatrix_x4_trans(b, (at ^ j * 2 * CHUNK) + i * 16 * Tile::line);
                mma_m16n8<Type>(o[2 * j], a, {b[0], b[1]});
                mma_m16n8<Type>(o[2 * j + 1], a, {b[2], b[3]});
            }
        }
    }
    // To rows of `pitch` floats, maxima and totals behind those of all teams; row0: the warp's first.
    DEVICE void put(unsigned char* memory, int row0) const {
        constexpr int all = Tile::teams * Tile::rows;
        float* const sums = reinterpret_cast<float*>(memory) + row0 * Tile::pitch;
        float* const tops = reinterpret_cast<float*>(memory) + all * Tile::pitch + row0;
        float* const totals = tops + all;
        const int lane = threadIdx.x % 32;
        UNROLL for (int h = 0; h < 2; ++h) {
            const int row = lane / 4 + 8 * h;
            UNROLL for (int j = 0; j < depth / 8; ++j)
                *reinterpret_cast<float2*>(sums + row * Tile::pitch + j * 8 + lane % 4 * 2) =
                    {o[j][2 * h], o[j][2 * h + 1]};
            float sum = total[h];
            sum += __shfl_xor_sync(~0u, sum, 1), sum += __shfl_xor_sync(~0u, sum, 2);
            if (lane % 4 == 0) tops[row] = top[h], totals[row] = sum;
        }
    }
};

// The queries of a warp, fragments of 16 of the depth in the order of lanes: in registers where there is
// room, else in shared memory. On their way there they lie in the stage that is loaded last.
template <class Tile> struct SdpaQueries {
    using Type = typename Tile::Type;
    static constexpr int fragments = Tile::depth / 16;
    uint4 held[Tile::is_wide ? 1 : fragments];
    uint4* const kept;

    DEVICE SdpaQueries(unsigned char* memory, int row_warp)
        : kept(reinterpret_cast<uint4*>(
                   memory + (Tile::is_wide ? Tile::ring_bytes : (Tile::stages - 1) * Tile::stage_bytes)) +
               row_warp * fragments * 32 + threadIdx.x % 32) {}
    // A team brings some of the depth of rows `from`, in elements.
    DEVICE void bring(const Type* q, const i64 (&from)[2], int depth, int team) {
        UNROLL for (int n = 0; n < ceil_div(fragments, Tile::teams); ++n) {
            const int kk = team + n * Tile::teams;
            unsigned a[4];
            UNROLL for (int i = 0; i < 4; ++i) {
                const int c = kk * 16 + i / 2 * 8, mine = c + threadIdx.x % 4 * 2;
                a[i] = c < depth ? *reinterpret_cast<const unsigned*>(q + from[i % 2] + mine) : 0;
            }
            if (kk < fragments) kept[kk * 32] = {a[0], a[1], a[2], a[3]};
        }
    }
    // Each half of a word for itself: a batch may begin anywhere.
    DEVICE void bring_ragged(const Type* q, const Batch& in, const i64 (&from)[2], int depth, int team) {
        const auto* const bits = reinterpret_cast<const unsigned short*>(q);
        auto* const halves = reinterpret_cast<unsigned short*>(kept);
        NO_UNROLL for (int n = team * 8; n < fragments * 8; n += n % 8 < 7 ? 1 : Tile::teams * 8 - 7) {
            const int c = n / 8 * 16 + n / 4 % 2 * 8 + threadIdx.x % 4 * 2 + n % 2;
            const i64 off = (n & 2 ? from[1] : from[0]) + c;
            const bool is_there = c < depth && in.has(off);
            const unsigned short half = bits[is_there ? off : 0];
            halves[n / 8 * 256 + n % 8] = is_there ? half : 0;
        }
    }
    DEVICE void hold() {
        __syncthreads();
        if constexpr (!Tile::is_wide) {
            UNROLL for (int kk = 0; kk < fragments; ++kk) held[kk] = kept[kk * 32];
            __syncthreads();
        }
    }
    DEVICE void read(unsigned (&a)[4], int kk) const {
        const uint4 w = Tile::is_wide ? kept[kk * 32] : held[Tile::is_wide ? 0 : kk];
        a[0] = w.x, a[1] = w.y, a[2] = w.z, a[3] = w.w;
    }
};

// Four neighbours of row r from column c on, divided by the row's total, and the logarithm of that, as a
// power of two. `empty`: of a row without keys; sink: a score without a key, as a power of two.
template <class Tile>
DEVICE float sums_of_teams(const unsigned char* memory, int r, int c, float empty, float sink,
                           float (&found)[4]) {
    const float* const sums = reinterpret_cast<const float*>(memory);
    const float* const tops = sums + Tile::teams * Tile::rows * Tile::pitch;
    const float* const totals = tops + Tile::teams * Tile::rows;
    float top = sink;
    UNROLL for (int n = 0; n < 4; ++n) found[n] = 0;
    UNROLL for (int t = 0; t < Tile::teams; ++t) top = fmaxf(top, tops[t * Tile::rows + r]);
    float total = weight_of(sink - base_of(top));
    UNROLL for (int t = 0; t < Tile::teams; ++t) {
        const int row = t * Tile::rows + r;
        const float weight = weight_of(tops[row] - base_of(top));
        total += weight * totals[row];
        UNROLL for (int n = 0; n < 4; ++n) found[n] += weight * sums[row * Tile::pitch + c + n];
    }
    const float by = total == 0 ? empty : __fdividef(1, total);
    UNROLL for (int n = 0; n < 4; ++n) found[n] *= by;
    return total == 0 ? -INFINITY : top + __log2f(total);
}

template <class Type> struct SdpaOut {
    Type* o;
    float* stats;                                                    // null: not asked for
    Batch o_in, stats_in;
    const Array<i64, 3>&o_steps, &stats_steps;

    // Four neighbours from column c on; size: of the row, as a power of two.
    DEVICE void put(int head, int query, int c, const float (&found)[4], float size) const {
        const Vec<Type, 4> line = Vec<Type, 4>::of(found);
        const i64 off = o_in.begin + head * o_steps[1] + query * o_steps[2] + c;
        const i64 at = stats_in.begin + head * stats_steps[1] + query * stats_steps[2];
        if (off % 4 == 0 && o_in.has(off) && o_in.has(off + 3)) line.store(o + off);
        else UNROLL for (int n = 0; n < 4; ++n)
            if (o_in.has(off + n)) o[off + n] = line[n];
        if (stats && c == 0 && stats_in.has(at)) stats[at] = size * 0.6931471805599453f;
    }
};

}  // namespace cydnn
