// Attention's gradients on Hopper (sm_90a): the steps of a tile, of sdpa_bwd_wgmma_*.cu and
// sdpa_bwd_fp8_wgmma_*.cu.
//
//   SdpaBwdPlain, SdpaBwdScaled      what the gradients of weights are made of: do @ v^T, or a share of it
//   sdpa_bwd_steps_dkv               of own keys, the sums of dk and dv over the queries that see them
//   sdpa_bwd_steps_dq                of own queries, the sum of dq over the keys that they see
//   SdpaBwdLargest                   the largest |gradient of a score| of each own row, or nothing
#pragma once
#include "bwd_wgmma.cuh"

namespace cydnn {

struct SdpaBwdPlain {
    DEVICE float less(float slope, float dot) const { return slope - dot; }
};
struct SdpaBwdScaled {
    float by;
    DEVICE float less(float slope, float dot) const { return fmaf(slope, by, -dot); }
};

struct SdpaBwdNoLargest {
    DEVICE void see(int, float) {}
};
struct SdpaBwdLargest {
    float of[2] = {};
    DEVICE void see(int h, float gradient) { of[h] = max_nan(of[h], fabsf(gradient)); }
    // Of a row, in each of its four threads.
    DEVICE float all(int h) const {
        const float near = max_nan(of[h], __shfl_xor_sync(~0u, of[h], 1));
        return max_nan(near, __shfl_xor_sync(~0u, near, 2));
    }
};

// n: steps of the block so far. row: the thread's first one.
template <class Tile, class Slope>
DEVICE void sdpa_bwd_steps_dkv(SdpaBwdSums<Tile>& sums, const SdpaBand& band, int span, int row, int& n,
                               const Slope& slope, typename SdpaBwdSums<Tile>::Sums& to_k,
                               typename SdpaBwdSums<Tile>::Sums& to_v) {
    using Type = typename Tile::Type;
    typename SdpaBwdSums<Tile>::Words p, ds = {};
    const int begin = n;
    NO_UNROLL for (int h = 0; h < span; ++h)
        NO_UNROLL for (int step = band.first; step < band.end; ++step, ++n) {
            const int stage = sums.stage(n), column = threadIdx.x % 4;
            const auto* const log = reinterpret_cast<const float2*>(sums.shared.value(stage, 0)) + column;
            const auto* const dot = reinterpret_cast<const float2*>(sums.shared.value(stage, 1)) + column;
            sums.ask_scores(n), sums.ask_slopes(n);
            sums.ask_sums(to_k, ds, sums.x(n - (n > begin)));        // of the step before; 0 at first
            wgmma_wait<2>(), sums_change(sums.s);
            sums.hide(band, row, step);
            UNROLL for (int j = 0; j < Tile::steps / 8; ++j) {
                float* const s = sums.s + 4 * j;
                const float2 less = log[4 * j];
                UNROLL for (int i = 0; i < 4; ++i)
                    s[i] = exp2_near(fmaf(s[i], sums.scale, i % 2 ? -less.y : -less.x));
                UNROLL for (int h = 0; h < 2; ++h)
                    p[j / 2][j % 2 * 2 + h] = pair_of<Type>(s[2 * h], s[2 * h + 1]);
            }
            typename SdpaBwdSums<Tile>::Words kept;                  // a product under way has p
            UNROLL for (int i = 0; i < Tile::steps / 4; ++i) kept[i / 4][i % 4] = p[i / 4][i % 4];
            sums.ask_sums(to_v, p, sums.y(n));
            wgmma_wait<1>(), sums_change(sums.d), sums_change(to_k), words_change(ds);
            if (n > begin) sums.leave(n - 1);
            UNROLL for (int i = 0; i < Tile::steps / 4; ++i) {
                const float *const s = sums.s + 2 * i, *const d = sums.d + 2 * i;
                const float2 less = dot[i / 2 * 4];
                // Registers are scarce: weights as they were rounded.
                const unsigned pair = kept[i / 4][i % 4];
                const float2 w = Tile::depth > 64 ? sdpa_bwd_weights(pair, Type()) : float2{s[0], s[1]};
                ds[i / 4][i % 4] = pair_of<Type>(w.x * slope.less(d[0], less.x),
                                                 w.y * slope.less(d[1], less.y));
            }
            wgmma_wait<0>(to_v), words_change(p);
        }
    if (n > begin) {
        sums.ask_sums(to_k, ds, sums.x(n - 1));
        wgmma_wait<0>(to_k);
        sums.leave(n - 1);
    }
}

// log, dot: of the thread's two rows.
template <class Tile, class Slope, class Largest>
DEVICE void sdpa_bwd_steps_dq(SdpaBwdSums<Tile>& sums, const SdpaBand& band, int row, int& n,
                              const Slope& slope, const float (&log)[2], const float (&dot)[2],
                              Largest& largest, typename SdpaBwdSums<Tile>::Sums& to) {
    using Type = typename Tile::Type;
    typename SdpaBwdSums<Tile>::Words ds = {};
    const int begin = n;
    NO_UNROLL for (int step = band.first; step < band.end; ++step, ++n) {
        sums.ask_scores(n), sums.ask_slopes(n);
        if (Tile::is_late) sums.ask_sums(to, ds, sums.x(n - (n > begin))), wgmma_wait<2>();
        else wgmma_wait<1>();
        sums_change(sums.s);
        sums.hide(band, row, step);
        UNROLL for (int i = 0; i < Tile::steps / 2; ++i)
            sums.s[i] = exp2_near(fmaf(sums.s[i], sums.scale, -log[i / 2 % 2]));
        wgmma_wait<0>(sums.d);
        if (Tile::is_late) {
            sums_change(to), words_change(ds);
            if (n > begin) sums.leave(n - 1);
        }
        UNROLL for (int i = 0; i < Tile::steps / 2; i += 2) {
            const float less = dot[i / 2 % 2];
            const float a = sums.s[i] * slope.less(sums.d[i], less);
            const float b = sums.s[i + 1] * slope.less(sums.d[i + 1], less);
            largest.see(i / 2 % 2, a), largest.see(i / 2 % 2, b);
            ds[i / 8][i % 8 / 2] = pair_of<Type>(a, b);
        }
        if (Tile::is_late) continue;
        sums.ask_sums(to, ds, sums.x(n));
        wgmma_wait<0>(to), words_change(ds);
        sums.leave(n);
    }
    if (Tile::is_late && n > begin) {
        sums.ask_sums(to, ds, sums.x(n - 1));
        wgmma_wait<0>(to);
        sums.leave(n - 1);
    }
}

}  // namespace cydnn
