// What a reduction does with its elements: a fold (the axis FOLD) and flags (the parameter `how`).
//
//   sum    add, avg, norm1, norm2        prod   mul, mul_no_zeros        top   max, amax, and min as -max(-x)
//
// start(how), take(so far, x, how), join(a, b); then finish(all, how, count) once. NaN passes through all of
// them. Before take, Signs(how)(unit) makes the elements of a unit |x| or -x.
#pragma once
#include "lib/math.cuh"

namespace cydnn {

// On elements (take), or on the reduced value (finish). cydnn/engines/reduction/view.py has the same numbers.
enum How : int { ABSOLUTE = 1, SQUARED = 2, SKIP_ZEROS = 4, NEGATED = 8, MEAN = 16, ROOT = 32, MINUS = 64 };

struct sum {
    template <class Value> static DEVICE Value start(int) { return 0; }
    template <class Value> static DEVICE Value take(Value all, Value x, int how) {
        return fma(x, how & SQUARED ? x : Value(1), all);
    }
    template <class Value> static DEVICE Value join(Value a, Value b) { return a + b; }
    template <class Value> static DEVICE Value finish(Value all, int how, double count) {
        if (how & MEAN) all /= Value(count);
        return how & ROOT ? sqrt(all) : all;
    }
};
struct prod {
    template <class Value> static DEVICE Value start(int) { return 1; }
    template <class Value> static DEVICE Value take(Value all, Value x, int how) {
        return how & SKIP_ZEROS && x == 0 ? all : all * x;
    }
    template <class Value> static DEVICE Value join(Value a, Value b) { return a * b; }
    template <class Value> static DEVICE Value finish(Value all, int, double) { return all; }
};
struct top {
    template <class Value> static DEVICE Value start(int how) {
        return how & ABSOLUTE ? Value(0) : Value(-INFINITY);
    }
    template <class Value> static DEVICE Value take(Value all, Value x, int) { return max_nan(all, x); }
    template <class Value> static DEVICE Value join(Value a, Value b) { return max_nan(a, b); }
    template <class Value> static DEVICE Value finish(Value all, int how, double) {
        return how & MINUS ? -all : all;
    }
};

// ABSOLUTE and NEGATED as masks of the sign bits: one operation on a word, for both of its 16-bit elements.
template <class Elem> struct Signs {
    unsigned keep, flip;
    DEVICE Signs(int how) {
        const unsigned bits = sizeof(Elem) == 2 ? 0x80008000u : 0x80000000u;
        keep = how & ABSOLUTE ? ~bits : ~0u, flip = how & NEGATED ? bits : 0u;
    }
    template <int Count> DEVICE Vec<Elem, Count> operator()(Vec<Elem, Count> unit) const {
        if constexpr (sizeof(unit) == 2) {
            auto& half = reinterpret_cast<unsigned short&>(unit);
            half = static_cast<unsigned short>((half & keep) ^ flip);
        } else {
            constexpr int each = sizeof(Elem) == 8 ? 2 : 1;         // of an f64, the second word has the sign
            unsigned* words = reinterpret_cast<unsigned*>(&unit);
            UNROLL for (int w = each - 1; w < int(sizeof(unit) / 4); w += each)
                words[w] = (words[w] & keep) ^ flip;
        }
        return unit;
    }
};

template <class Elem, class Value> DEVICE void put_as(void* y, i64 off, Value r, Value alpha, Value beta) {
    Elem* const p = static_cast<Elem*>(y) + off;
    *p = from_acc<Elem>(blend(alpha, r, beta, p));
}
// y[off] = alpha * r + beta * y[off]; y_type is the place of y's type in f64 f32 f16 bf16.
template <class Value>
DEVICE void put_result(void* y, int y_type, i64 off, Value r, double alpha, double beta) {
    const Value a = Value(alpha), b = Value(beta);
    switch (y_type) {
        case 0: return put_as<f64>(y, off, r, a, b);
        case 1: return put_as<f32>(y, off, r, a, b);
        case 2: return put_as<f16>(y, off, r, a, b);
        default: return put_as<bf16>(y, off, r, a, b);
    }
}

}  // namespace cydnn
