// Attention on Hopper (sm_90a): a warpgroup of sdpa_fwd_wgmma.cu that multiplies.
//
// Thread t of the warpgroup, lane l, has rows 16 (t / 32) + l / 4 and that + 8, and of these the columns
// 8j + 2 (l % 4) + {0, 1} (lib/hopper.cuh).
#pragma once
#include "fwd_wgmma.cuh"

namespace cydnn {

template <class Type> DEVICE unsigned pair_of(float a, float b) {
    unsigned word;
    from_acc2(reinterpret_cast<Type*>(&word), a, b);
    return word;
}

template <class Tile> struct SdpaSums {
    using Type = typename Tile::Type;
    using Range = SdpaRange<Type>;
    static constexpr int scores = Tile::keys / 2, steps = Tile::keys / 16;
    float s[scores], o[Tile::depth_v / 2];
    unsigned p[steps][4];                                            // weights of a step, as an operand
    float top[2], total[2], shrink[2];                               // of the two rows; totals of own columns

    DEVICE void clear() {
        UNROLL for (int i = 0; i < Tile::depth_v / 2; ++i) o[i] = 0;
        UNROLL for (int h = 0; h < 2; ++h) top[h] = -INFINITY, total[h] = 0;
    }

    // ---- Products ----

    DEVICE void ask_scores(unsigned q, unsigned k) {
        const uint64_t a = swizzled_panel(q, CHUNK, 8 * LINE), b = swizzled_panel(k, CHUNK, 8 * LINE);
        UNROLL for (int i = 0; i < Tile::depth_qk / 16; ++i)
            Wgmma<Type, Tile::keys>::template add<0, 0>(
                s, panel_on(a, i / 4 * Tile::q_panel + i % 4 * 32),
                panel_on(b, i / 4 * Tile::k_panel + i % 4 * 32), i > 0);
        wgmma_commit();
    }
    DEVICE void ask_values(const unsigned (&p)[steps][4], unsigned v) {
        const uint64_t b = swizzled_panel(v, Tile::k_panel, 8 * LINE);
        UNROLL for (int i = 0; i < steps; ++i)
            WgmmaOfRegisters<Type, Tile::depth_v>::add(o, p[i], panel_on(b, i * 16 * LINE));
        wgmma_commit();
    }
    static DEVICE void weights_change(unsigned (&p)[steps][4]) {
        UNROLL for (int i = 0; i < steps; ++i)
            UNROLL for (int r = 0; r < 4; ++r) asm volatile("" : "+r"(p[i][r]) :: "memory");
    }

    // ---- Scores to weights ----

    // Column i of the thread is seen by row h from first[h] on, up to before end[h].
    DEVICE void hide(const int (&first)[2], const int (&end)[2], int key, float scale) {
        const float none = copysignf(INFINITY, -scale);              // -infinity when it is scaled
        UNROLL for (int i = 0; i < scores; ++i) {
            const int h = i / 2 % 2, column = key + i / 4 * 8 + i % 2;
            if (column < first[h] || column >= end[h]) s[i] = none;
        }
    }
    // New maxima of the rows that take one, and by what `o` shrinks.
    DEVICE void raise(float scale, const bool (&take)[2]) {
        float most[2];
        UNROLL for (int h = 0; h < 2; ++h) {
            float high[2] = {s[2 * h], s[2 * h + 1]}, low[2] = {s[2 * h], s[2 * h + 1]};
            UNROLL for (int i = 4 + 2 * h; i < scores; i += 4)
                UNROLL for (int n = 0; n < 2; ++n)
                    high[n] = fmaxf(high[n], s[i + n]), low[n] = fminf(low[n], s[i + n]);
            // Of a negative scale it is the lowest one.
            most[h] = fmaxf(fmaxf(high[0], high[1]) * scale, fminf(low[0], low[1]) * scale);
        }
        UNROLL for (int h = 0; h < 2; ++h) most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 1));
        UNROLL for (int h = 0; h < 2; ++h) {
            most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 2));
            const float now = take[h] ? fmaxf(top[h], most[h] + Range::room) : top[h];
            shrink[h] = exp2_near(top[h] - base_of(now)), top[h] = now;
        }
    }
    static DEVICE float base_of(float top) { return top == -INFINITY ? 0.f : top; }

    // Weights to `to`, and the sums of each row. Conversion and sums run a few elements behind the
    // exponentials, whose unit takes 8 clocks for each.
    DEVICE void exponentials(unsigned (&to)[steps][4], float (&sum)[2], float scale) {
        constexpr int BEHIND = 8;
        const float base[2] = {base_of(top[0]), base_of(top[1])};
        float e[scores], part[2][2] = {};
        UNROLL for (int i = 0; i < scores + BEHIND; i += 2) {
            const int h = i / 2 % 2, k = i - BEHIND, g = (k + scores) / 2 % 2;
            if (i < scores) {
                e[i] = exp2_near(fmaf(s[i], scale, -base[h]));
                e[i + 1] = exp2_near(fmaf(s[i + 1], scale, -base[h]));
            }
            if (k >= 0) {
                part[g][0] += e[k], part[g][1] += e[k + 1];
                to[k / 8][k % 8 / 2] = pair_of<Type>(e[k], e[k + 1]);
            }
        }
        UNROLL for (int h = 0; h < 2; ++h) sum[h] = part[h][0] + part[h][1];
    }
    // Whether `o` must shrink. The first step of a tile has no maximum yet.
    DEVICE bool weigh(unsigned (&to)[steps][4], float scale, bool is_first) {
        float sum[2];
        bool take[2] = {true, true};
        if (!is_first) {
            exponentials(to, sum, scale);
            UNROLL for (int h = 0; h < 2; ++h) take[h] = !(sum[h] <= Range::most) || top[h] == -INFINITY;
            if (!__any_sync(~0u, take[0] || take[1])) {
                UNROLL for (int h = 0; h < 2; ++h) total[h] += sum[h];
                return false;
            }
            const unsigned quad = 15u << (threadIdx.x & 28);         // the lanes that share rows
            UNROLL for (int h = 0; h < 2; ++h) take[h] = __ballot_sync(~0u, take[h]) & quad;
        }
        raise(scale, take);
        exponentials(to, sum, scale);
        UNROLL for (int h = 0; h < 2; ++h) total[h] = total[h] * shrink[h] + sum[h];
        return true;
    }
    DEVICE void rescale() {
        UNROLL for (int i = 0; i < Tile::depth_v / 2; ++i) o[i] *= shrink[i / 2 % 2];
    }

    // ---- The way out ----

    // `o` divided by the totals, and the statistics. `empty`: o of a row that sees no key; sink: of the rows,
    // a score without a key, as a power of two.
    DEVICE void finish(float empty, const float (&sink)[2], float (&stats)[2]) {
        float by[2];
        UNROLL for (int h = 0; h < 2; ++h) {
            float sum = total[h];
            sum += __shfl_xor_sync(~0u, sum, 1), sum += __shfl_xor_sync(~0u, sum, 2);
            const float most = fmaxf(top[h], sink[h]), base = base_of(most), less = exp2_near(top[h] - base);
            sum = sum * less + exp2_near(sink[h] - base);
            by[h] = sum == 0 ? empty : __fdividef(less, sum);
            stats[h] = sum == 0 ? -INFINITY : (most + __log2f(sum)) * 0.6931471805599453f;
        }
        UNROLL for (int i = 0; i < Tile::depth_v / 2; ++i) o[i] *= by[i / 2 % 2];
    }
    // What was summed of rows that are not there may be no number.
    DEVICE void drop(const bool (&is_there)[2]) {
        UNROLL for (int i = 0; i < Tile::depth_v / 2; ++i) o[i] = is_there[i / 2 % 2] ? o[i] : 0;
        UNROLL for (int h = 0; h < 2; ++h) total[h] = is_there[h] ? total[h] : 0;
    }
    // Each warp stores its 16 rows; `to` is where they lie in the first panel.
    DEVICE void put(unsigned to) const {
        const int lane = threadIdx.x % 32, row = lane % 16;
        UNROLL for (int i = 0; i < Tile::depth_v / 16; ++i) {
            const float* const f = o + 8 * i;
            const unsigned place = (i % 4 * 2 + lane / 16 ^ row & 7) * CHUNK;
            stmatrix_x4(to + i / 4 * Tile::q_panel + row * LINE + place,
                        {pair_of<Type>(f[0], f[1]), pair_of<Type>(f[2], f[3]), pair_of<Type>(f[4], f[5]),
                         pair_of<Type>(f[6], f[7])});
        }
    }
};

}  // namespace cydnn
