// What a thread of softmax_fwd_columns does with its words: 4 bytes, one element or two neighbours, of each
// of its channels, `step` elements apart. `count`: how many it has; `most`: how many a thread of its block
// has at most. Words come four at a time: edges cost nothing where all four are there.
#pragma once
#include "columns.cuh"

namespace cydnn {

constexpr int FOUR = 4;
template <bool Value> struct Flag { static constexpr bool value = Value; };

// A compiler that sees what has been done with a word keeps that instead of the word.
DEVICE unsigned hidden(unsigned word) {
    asm volatile("" : "+r"(word));
    return word;
}
// So it is with a stride: pointers are then added up, not multiplied out.
DEVICE i64 hidden(i64 stride) {
    asm volatile("" : "+l"(stride));
    return stride;
}
template <class Elem> DEVICE void open_word(unsigned word, float (&out)[4 / sizeof(Elem)]) {
    reinterpret_cast<const Vec<Elem, 4 / sizeof(Elem)>&>(word).get(out);
}

// PTX ISA §ld. Volatile, so that all loads stay together, before the first use.
DEVICE unsigned load_now(const void* p) {
    unsigned word;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(__cvta_generic_to_global(p)));
    return word;
}
DEVICE unsigned load_now(const void* p, bool valid, unsigned filler) {
    asm volatile("{\n\t.reg .pred %%q;\n\tsetp.ne.b32 %%q, %2, 0;\n\t@%%q ld.global.u32 %0, [%1];\n\t}"
                 : "+r"(filler) : "l"(__cvta_generic_to_global(p)), "r"(int(valid)));
    return filler;
}

// -inf in each element: it changes neither maximum nor sum.
template <class Elem> DEVICE unsigned lowest_word();
template <> DEVICE unsigned lowest_word<f32>() { return 0xFF800000; }
template <> DEVICE unsigned lowest_word<f16>() { return 0xFC00FC00; }
template <> DEVICE unsigned lowest_word<bf16>() { return 0xFF80FF80; }

template <class Elem, int Held>
DEVICE void load_words(unsigned (&words)[Held], const Elem* x, i64 step, int count, int most) {
    const char* p = reinterpret_cast<const char*>(x);
    step = hidden(step * i64(sizeof(Elem)));
    UNROLL for (int k = 0; k < Held; k += FOUR) {
        if (k >= most) break;
        const char *a = p, *b = a + step, *c = b + step, *d = c + step;
        p = reinterpret_cast<const char*>(hidden(reinterpret_cast<i64>(d + step)));
        if (k + FOUR <= count) {
            words[k] = load_now(a), words[k + 1] = load_now(b);
            words[k + 2] = load_now(c), words[k + 3] = load_now(d);
        } else {
            const unsigned filler = lowest_word<Elem>();
            words[k] = load_now(a, k < count, filler), words[k + 1] = load_now(b, k + 1 < count, filler);
            words[k + 2] = load_now(c, k + 2 < count, filler), words[k + 3] = filler;
        }
    }
}

// The greater of two words, element by element; NaN wins.
template <class Elem> DEVICE unsigned max_words(unsigned a, unsigned b) {
    const auto m = max_nan(__uint_as_float(a), __uint_as_float(b));
    return __float_as_uint(m);
}
template <> DEVICE unsigned max_words<f16>(unsigned a, unsigned b) {
    const __half2 m = __hmax2_nan(reinterpret_cast<__half2&>(a), reinterpret_cast<__half2&>(b));
    return reinterpret_cast<const unsigned&>(m);
}
template <> DEVICE unsigned max_words<bf16>(unsigned a, unsigned b) {
    using Pair = __nv_bfloat162;
    const Pair m = __hmax2_nan(reinterpret_cast<Pair&>(a), reinterpret_cast<Pair&>(b));
    return reinterpret_cast<const unsigned&>(m);
}
template <class Elem, int Held>
DEVICE void top_of(float (&top)[4 / sizeof(Elem)], const unsigned (&words)[Held], int most) {
    unsigned all = words[0];
    UNROLL for (int k = 1; k < Held; ++k) {
        if (k % FOUR == 0 && k >= most) break;
        all = max_words<Elem>(all, words[k]);
    }
    open_word<Elem>(all, top);
}

// x -> raised(exp(x - base)), in two steps. For a logarithm the first is exact: x - base. Without one,
// of 16-bit types it is x * scale - base * scale, rounded once: every element is off by the same, which the
// division by the sum takes out. A base of 2^24 or more would be off by too much; but there no other bf16
// is near enough for more than 0, whatever the scale.
template <class Elem, bool IsLog> struct ExponentOf {
    static constexpr bool is_fused = sizeof(Elem) == 2 && !IsLog;
    static constexpr float log2_e = 1.4426950408889634f;
    float scale, offset;
    ExponentOf() = default;
    DEVICE explicit ExponentOf(float base) : scale(log2_e), offset(-base) {
        if constexpr (is_fused) {
            const float up = 1.f / lowered<Elem>(1.f);               // how far the sum is raised
            if (up > 1 && !(fabsf(base) < 0x1p24f)) scale = 1.f;     // bf16; no f16 is that great
            offset = fma(-base, scale, up > 1 ? 24.f : 0.f);
        }
    }
    DEVICE float shifted(float x) const { return is_fused ? fma(x, scale, offset) : x + offset; }
    DEVICE float raised(float x) const { return is_fused ? exp2_flush(x) : raised_exp<Elem>(x); }
};

// Results of of(k, r), rounded, stored, and blended with what is there when beta is not 0.
template <class Elem, int Held, class Of>
DEVICE void put_words(Elem* y, i64 step, int count, float beta, Of of) {
    constexpr int vec = 4 / sizeof(Elem);
    i64 p = i64(__cvta_generic_to_global(y));
    step = hidden(step * i64(sizeof(Elem)));
    UNROLL for (int k = 0; k < Held; k += FOUR) {
        if (k >= count) break;
        float r[FOUR][vec];
        Elem* at[FOUR];
        UNROLL for (int i = 0; i < FOUR; ++i) {
            at[i] = static_cast<Elem*>(__cvta_global_to_generic(p));
            p = hidden(p + step);
            of(k + i, r[i]);
        }
        if (beta != 0)
            UNROLL for (int i = 0; i < FOUR; ++i)
                if (k + i < count) {
                    const auto old = Vec<Elem, vec>::load(at[i]);
                    UNROLL for (int j = 0; j < vec; ++j) r[i][j] += beta * to_acc(old[j]);
                }
        Vec<Elem, vec> out[FOUR];
        UNROLL for (int i = 0; i < FOUR; ++i) out[i] = Vec<Elem, vec>::of(r[i]);
        if (k + FOUR <= count) UNROLL for (int i = 0; i < FOUR; ++i) out[i].store(at[i]);
        else UNROLL for (int i = 0; i < FOUR - 1; ++i) if (k + i < count) out[i].store(at[i]);
    }
}

}  // namespace cydnn
