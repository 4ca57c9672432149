// A depthwise convolution of channels-last images with filters of TAPS x TAPS:
//   y[p, q] = sum over r, s of w[r, s] * x[p * STEP - pad + r, q * STEP - pad + s]
//
// A strip is WIDTH outputs along a row and `rows` of them down; `across` and `down` are strips in each
// direction. A step takes STEP rows of x. They add to DEEP rows of y, whose sums move on by one with each
// step: the last is complete then.
// SKIP: what is outside x is left out rather than multiplied by zero, by blocks that have an infinite filter:
// for all others it is the same, and code that asks is twice as much as a cache of instructions has.
#pragma once
#include "conv/depthwise.cuh"

namespace cydnn {

template <int TAPS, int STEP, bool SKIP, class Elem>
DEVICE void slide(const Elem* x, const Elem* w, Elem* y, float alpha, float beta, int channels, int strips,
                  int rows, FastDiv across, FastDiv down, const Array<int, 2>& out, const Array<int, 2>& size,
                  const Array<int, 2>& pad, i64 x_n, const Array<i64, 2>& x_s, i64 w_c,
                  const Array<i64, 2>& w_s, i64 y_n, const Array<i64, 2>& y_s) {
    constexpr int WIDTH = STEP == 1 ? 8 : 4, DEEP = (TAPS + STEP - 1) / STEP, IN = (WIDTH - 1) * STEP + TAPS;
    constexpr int STAGES = sizeof(Elem) == 4 ? 3 : 4, ROW = Window<Elem, IN>::BYTES, STAGE = STEP * ROW;
    extern __shared__ __align__(16) char memory[];
    float* filters = reinterpret_cast<float*>(memory);
    char* ring = memory + TAPS * TAPS * WIDE * 4 + threadIdx.x / LANES * (STAGES * STAGE + 64);
    const unsigned blocks_c = ceil_div(channels, WIDE);
    const int first = blockIdx.x % blocks_c * WIDE, lane = threadIdx.x % LANES, channel = first + lane * PAIR;
    const bool is_odd = stage_filters<TAPS>(filters, w, first, channels, w_c, w_s);

    const unsigned unit = blockIdx.x / blocks_c * UNITS + threadIdx.x / LANES;
    const bool is_strip = unit < unsigned(strips);                   // the others walk along over zeros
    unsigned strip, chunk;
    const i64 n = down.divmod(across.divmod(is_strip ? unit : 0, strip), chunk);
    const int q0 = strip * WIDTH, p0 = chunk * rows, left = q0 * STEP - pad[1], steps = rows + DEEP - 1;
    const int p1 = is_strip && channel < channels ? min(p0 + rows, out[0]) : 0;
    const int count = max(p1 - p0, 0);                   // rows of y: sums of others are not made at the ends
    const Window<Elem, IN> window(x + n * x_n, p0 * STEP - pad[0], left, is_strip ? size[0] : 0, size[1],
                                  first, channels, x_s);
    const unsigned columns = columns_inside<IN>(left, size[1]), to = shared_address(ring);
    auto bring = [&](int step, int slot) {
        if (step < steps)
            UNROLL for (int u = 0; u < STEP; ++u) window.bring(step * STEP + u, to + slot * STAGE + u * ROW);
        cp_async_commit();
    };
    UNROLL for (int k = 0; k < STAGES - 1; ++k) bring(k, k);
    bool skips = false;
    if constexpr (SKIP) skips = __syncthreads_or(is_odd);
    else __syncthreads();                                            // the filters
    const float* filter = filters + lane * PAIR;
    float kept[TAPS == 3 ? 9 : 1][PAIR];                             // small ones stay in registers
    if constexpr (TAPS == 3)
        UNROLL for (int t = 0; t < 9; ++t) Vec<float, PAIR>::load(filter + t * WIDE).get(kept[t]);

    auto walk = [&](auto is_exact) {
        float sums[DEEP][WIDTH][PAIR] = {};
        i64 off = n * y_n + (p0 - (DEEP - 1)) * y_s[0] + q0 * y_s[1] + channel;
        int slot = 0;
        NO_UNROLL for (int k = 0; k < steps; ++k, off += y_s[0]) {
            cp_async_wait<STAGES - 2>();
            __syncwarp();
            bring(k + STAGES - 1, slot == 0 ? STAGES - 1 : slot - 1);
            UNROLL for (int j = DEEP - 1; j >= 0; --j)
                UNROLL for (int i = 0; i < WIDTH; ++i)
                    UNROLL for (int c = 0; c < PAIR; ++c) sums[j][i][c] = j > 0 ? sums[j - 1][i][c] : 0.f;
            UNROLL for (int u = 0; u < STEP; ++u) {
                if (is_exact.value && !window.is_inside(k * STEP + u)) continue;
                float values[IN][PAIR];
                read_row<Elem>(ring + slot * STAGE + u * ROW, values);
                auto add = [&](auto is_edge, auto is_end) {
                    UNROLL for (int j = DEEP - 1; j >= 0; --j) {
                        if (j * STEP + u >= TAPS) continue;
                        if (is_end.value && unsigned(k - j) >= unsigned(count)) continue;
                        UNROLL for (int s = 0; s < TAPS; ++s) {
                            const int t = (j * STEP + u) * TAPS + s;
                            float f[PAIR];
                            if constexpr (TAPS == 3) f[0] = kept[t][0], f[1] = kept[t][1];
                            else Vec<float, PAIR>::load(filter + t * WIDE).get(f);
                            UNROLL for (int i = 0; i < WIDTH; ++i) {
                                if (is_edge.value && !(columns >> (i * STEP + s) & 1)) continue;
                                UNROLL for (int c = 0; c < PAIR; ++c)
                                    sums[j][i][c] += f[c] * values[i * STEP + s][c];
                            }
                        }
                    }
                };
                if (TAPS > 3 && (k < DEEP - 1 || k >= count)) add(is_exact, Is<true>());
                else add(is_exact, Is<false>());
            }
            slot = slot == STAGES - 1 ? 0 : slot + 1;
            const int p = p0 + k - (DEEP - 1);
            if (p < p0 || p >= p1) continue;
            UNROLL for (int i = 0; i < WIDTH; ++i)
                if (q0 + i < out[1]) store_pair(y, off + i * y_s[1], sums[DEEP - 1][i], alpha, beta, channel);
        }
    };
    if (SKIP && skips) walk(Is<SKIP>());
    else walk(Is<false>());
}

}  // namespace cydnn
