// Attention of 8 bits on Hopper (sm_90a): a warpgroup of sdpa_fwd_fp8_wgmma.cu that multiplies.
//
// Thread t of the warpgroup, lane l, has rows 16 (t / 32) + l / 4 and that + 8, and of these the keys
// 8j + 2 (l % 4) + {0, 1}; of o, the elements 16g + 4 (l % 4) + {0, 1, 2, 3} (fwd_fp8_wgmma.cuh).
//
// Weights are 2^8 exp2(score - top), `top` the largest so far: that uses the range of e4m3, whose largest
// number is 448. The tensor cores keep some 14 bits of sums of 8-bit products, so the products of a step go
// to sums of their own, and o = o * shrink + these in f32: no more work than to shrink o.
#pragma once
#include "fwd_fp8_wgmma.cuh"

namespace cydnn {

// Four neighbours in a word, rounded to nearest even; what is too large becomes the largest.
#define CYDNN_F8_WORD(ELEM, NAME)                                                                        \
    DEVICE unsigned word_of(ELEM, float a, float b, float c, float d) {                                  \
        unsigned word;                                                                                   \
        asm("{\n\t.reg .b16 low, high;\n\tcvt.rn.satfinite." NAME "x2.f32 low, %2, %1;\n\t"               \
            "cvt.rn.satfinite." NAME "x2.f32 high, %4, %3;\n\tmov.b32 %0, {low, high};\n\t}"              \
            : "=r"(word) : "f"(a), "f"(b), "f"(c), "f"(d));                                              \
        return word;                                                                                     \
    }                                                                                                    \
    DEVICE void store4(ELEM* to, float a, float b, float c, float d) {                                   \
        *reinterpret_cast<unsigned*>(to) = word_of(ELEM{}, a, b, c, d);                                  \
    }
CYDNN_F8_WORD(f8_e4m3, "e4m3")
CYDNN_F8_WORD(f8_e5m2, "e5m2")
#undef CYDNN_F8_WORD
template <class Elem> DEVICE void store4(Elem* to, float a, float b, float c, float d) {
    uint2 words;
    from_acc2(reinterpret_cast<Elem*>(&words.x), a, b), from_acc2(reinterpret_cast<Elem*>(&words.y), c, d);
    *reinterpret_cast<uint2*>(to) = words;
}

template <class Tile> struct SdpaSums8 {
    using Product = Wgmma8<typename Tile::Type>;
    static constexpr int count = 64, steps = Tile::keys / 32, BITS = 8;
    float s[count], part[count], o[count];                           // part: what a step adds to o
    unsigned p[steps][4];                                            // weights of a step, as an operand
    float top[2], total[2], shrink[2];                               // of the two rows; totals of own columns

    DEVICE void clear() {
        UNROLL for (int i = 0; i < count; ++i) o[i] = 0;
        UNROLL for (int h = 0; h < 2; ++h) top[h] = -INFINITY, total[h] = 0;
    }

    // ---- Products ----

    DEVICE void ask_scores(unsigned q, unsigned k) {
        const uint64_t a = swizzled_panel(q, CHUNK, 8 * LINE), b = swizzled_panel(k, CHUNK, 8 * LINE);
        UNROLL for (int i = 0; i < Tile::depth / 32; ++i)
            Product::add(s, panel_on(a, i * 32), panel_on(b, i * 32), i > 0);
        wgmma_commit();
    }
    DEVICE void ask_values(unsigned v) {
        const uint64_t b = swizzled_panel(v, CHUNK, 8 * LINE);
        UNROLL for (int i = 0; i < steps; ++i) Product::add(part, p[i], panel_on(b, i * 32), i > 0);
        wgmma_commit();
    }
    DEVICE void weights_change() {
        UNROLL for (int i = 0; i < steps; ++i)
            UNROLL for (int r = 0; r < 4; ++r) asm volatile("" : "+r"(p[i][r]) :: "memory");
    }
    DEVICE void add_part(const float (&shrink)[2]) {
        UNROLL for (int i = 0; i < count; ++i) o[i] = fmaf(o[i], shrink[i / 2 % 2], part[i]);
    }

    // ---- Scores to weights ----

    DEVICE void negate() {
        UNROLL for (int i = 0; i < count; ++i) s[i] = -s[i];
    }
    // Column i of the thread is seen by row h from first[h] on, up to before end[h].
    DEVICE void hide(const int (&first)[2], const int (&end)[2], int key) {
        UNROLL for (int i = 0; i < count; ++i) {
            const int h = i / 2 % 2, column = key + i / 4 * 8 + i % 2;
            if (column < first[h] || column >= end[h]) s[i] = -INFINITY;
        }
    }
    static DEVICE float base_of(float top) { return top == -INFINITY ? 0.f : top; }

    // The largest scores of both rows, and by what `o` shrinks. `scale` is above 0.
    DEVICE void raise(float scale) {
        float most[2];
        UNROLL for (int h = 0; h < 2; ++h) {
            float high[2] = {s[2 * h], s[2 * h + 1]};
            UNROLL for (int i = 4 + 2 * h; i < count; i += 4)
                UNROLL for (int n = 0; n < 2; ++n) high[n] = fmaxf(high[n], s[i + n]);
            most[h] = fmaxf(high[0], high[1]);
        }
        UNROLL for (int h = 0; h < 2; ++h) most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 1));
        UNROLL for (int h = 0; h < 2; ++h) {
            most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 2));
            const float now = fmaxf(top[h], most[h] * scale);
            shrink[h] = exp2_near(top[h] - base_of(now)), top[h] = now;
        }
    }
    // Weights to `p`, and totals. Conversion and sums run some elements behind the exponentials, whose unit
    // takes 8 clocks for each. `zero`: what must be there first (SdpaRows8::zero).
    DEVICE void exponentials(float scale, float zero) {
        constexpr int BEHIND = 16;
        const float base[2] = {base_of(top[0]) - BITS + zero, base_of(top[1]) - BITS + zero};
        float sum[2][2] = {};
        UNROLL for (int i = 0; i < count + BEHIND; i += 8) {
            const int k = i - BEHIND;
            UNROLL for (int n = 0; n < 8; ++n)
                if (i < count) s[i + n] = exp2_near(fmaf(s[i + n], scale, -base[n / 2 % 2]));
            UNROLL for (int h = 0; h < 2; ++h) {
                if (k < 0) continue;
                const float* const e = s + k + 2 * h;
                sum[h][0] += e[0] + e[4], sum[h][1] += e[1] + e[5];
                p[k / 16][k % 16 / 8 * 2 + h] = word_of(f8_e4m3{}, e[0], e[1], e[4], e[5]);
            }
        }
        UNROLL for (int h = 0; h < 2; ++h) total[h] = fmaf(total[h], shrink[h], sum[h][0] + sum[h][1]);
    }

    // ---- The way out ----

    // What was summed of rows that are not there may be no number.
    DEVICE void drop(const bool (&is_there)[2]) {
        UNROLL for (int i = 0; i < count; ++i) o[i] = is_there[i / 2 % 2] ? o[i] : 0;
        UNROLL for (int h = 0; h < 2; ++h) {
            total[h] = is_there[h] ? total[h] : 0;
            top[h] = is_there[h] ? top[h] : -INFINITY;
        }
    }
    // `o` divided by the totals, times `factor`. `empty`: o of a row that sees no key.
    DEVICE void finish(float empty, float factor) {
        float by[2];
        UNROLL for (int h = 0; h < 2; ++h) {
            total[h] += __shfl_xor_sync(~0u, total[h], 1), total[h] += __shfl_xor_sync(~0u, total[h], 2);
            by[h] = total[h] == 0 ? empty : __fdividef(factor, total[h]);
            total[h] *= 1.f / (1 << BITS);
        }
        UNROLL for (int i = 0; i < count; ++i) o[i] *= by[i / 2 % 2];
    }
    // The bits of the largest |o| of row h of the thread; NaN is the largest of all.
    DEVICE unsigned largest(int h) const {
        unsigned most = 0;
        UNROLL for (int i = 0; i < count; ++i)
            if (i / 2 % 2 == h) most = max(most, __float_as_uint(fabsf(o[i])));
        return most;
    }
    // Row h of the thread times `factor`, its first `depth` elements; `to` is where they begin.
    template <class Elem> DEVICE void put(Elem* to, int h, float factor, int depth) const {
        UNROLL for (int g = 0; g < Tile::depth / 16; ++g) {
            const float* const f = o + 8 * g + 2 * h;
            const int at = 16 * g + threadIdx.x % 4 * 4;
            if (at < depth) store4(to + at, f[0] * factor, f[4] * factor, f[1] * factor, f[5] * factor);
        }
    }
};

}  // namespace cydnn
