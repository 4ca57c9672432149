// A row of a softmax, spread over the registers of a group of lanes.
//
//   RowPlan<Elem>                      where the 16-byte chunks of a row are
//   MaxSum, Merge<Elem>                maximum and sum of exp(x - maximum), and how parts of a row become one
//   SoftmaxOf<Elem>, GradientOf<Elem>  from an element to its result, once the row is known
//   FwdRow, BwdRow                     load, fold, put: the row of x; the rows of y and dy
//
// Loads are plain (not ld.global.nc): y may be x and dx may be dy. A lane stores only where it has loaded.
#pragma once
#include "lib/mma.cuh"
#include "lib/reduce.cuh"

namespace cydnn {

// PTX ISA §ex2 (.ftz.approx.f32): without the steps that keep results below 2^-126.
DEVICE float exp2_flush(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
// exp with the accuracy that Elem can show; of 16-bit types 0 below 2^-126.
template <class Elem> DEVICE acc_t<Elem> row_exp(acc_t<Elem> x) {
    if constexpr (sizeof(Elem) == 2) return exp2_flush(x * 1.4426950408889634f);
    else return exp(x);
}
// bf16 has numbers down to 2^-133. So the exponentials that a row sums and divides are all raised, by
// 2^24: an fma in place of a product. raised_exp(x) = raised(exp(x)) for x <= 0; lowered() takes it back.
template <class Elem> DEVICE acc_t<Elem> raised_exp(acc_t<Elem> x) { return row_exp<Elem>(x); }
template <> DEVICE float raised_exp<bf16>(float x) { return exp2_flush(fma(x, 1.4426950408889634f, 24.f)); }
template <class Elem> DEVICE acc_t<Elem> lowered(acc_t<Elem> x) { return x; }
template <> DEVICE float lowered<bf16>(float x) { return x * 0x1p-24f; }

// A sum that ptxas does not fuse with the last product of exp; a - b * c is written as fma for the same
// reason: bits depend on nothing but the PTX.
DEVICE float add_rn(float a, float b) { return __fadd_rn(a, b); }
DEVICE double add_rn(double a, double b) { return __dadd_rn(a, b); }

// A chunk is held as words, opened where it is used: held as elements, or converted once for both passes,
// it would take two to four times the registers. `again` hides that the words have been opened before.
template <class Elem> DEVICE Vec<Elem, 16 / sizeof(Elem)> opened(uint4 words) {
    Vec<Elem, 16 / sizeof(Elem)> c;
    *reinterpret_cast<uint4*>(&c) = words;
    return c;
}
DEVICE uint4 again(uint4 w) {
    asm volatile("" : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w));
    return w;
}
// The chunk at p, or one that is `filler` everywhere.
template <class Elem> DEVICE uint4 load_or(bool valid, const Elem* p, float filler) {
    Vec<Elem, 16 / sizeof(Elem)> none;
    UNROLL for (int i = 0; i < none.count; ++i) none[i] = from_acc<Elem>(filler);
    uint4 words = *reinterpret_cast<const uint4*>(&none);
    if (valid) words = *reinterpret_cast<const uint4*>(p);
    return words;
}

// A row begins at any element: `head` single elements, `chunks` aligned chunks of 16 bytes, a tail of single
// elements; head and tail are `singles`. `start`: the row's offset from a 16-byte boundary, in elements.
template <class Elem> struct RowPlan {
    static constexpr int vec = 16 / sizeof(Elem), most_singles = 2 * vec - 2;
    int head, chunks, singles;
    DEVICE RowPlan(i64 start, int cols) {
        head = min(int(-start & (vec - 1)), cols);
        chunks = (cols - head) / vec, singles = cols - chunks * vec;
    }
    DEVICE int chunk(int i) const { return head + i * vec; }                    // column where chunk i begins
    DEVICE int single(int i) const { return i < head ? i : i + chunks * vec; }  // column of single element i
};

template <class Value> struct MaxSum { Value max, sum; };          // the sum is raised
template <class Value> DEVICE MaxSum<Value> nothing() { return {Value(-INFINITY), Value(0)}; }
// No -inf + inf.
template <class Value> DEVICE Value base_of(Value max) { return max == Value(-INFINITY) ? Value(0) : max; }

template <class Elem> struct Merge {       // mul_rn keeps it symmetric in a and b, so that all lanes agree
    using Value = acc_t<Elem>;
    DEVICE MaxSum<Value> operator()(const MaxSum<Value>& a, const MaxSum<Value>& b) const {
        const Value top = max_nan(a.max, b.max), base = base_of(top);
        return {top, mul_rn(a.sum, row_exp<Elem>(a.max - base)) + mul_rn(b.sum, row_exp<Elem>(b.max - base))};
    }
};

// Take Count more elements of the row: one rescaling for all of them. An element of -inf changes nothing.
template <class Elem, int Count> DEVICE void fold(MaxSum<acc_t<Elem>>& row, const acc_t<Elem> (&x)[Count]) {
    acc_t<Elem> top = row.max;
    UNROLL for (int i = 0; i < Count; ++i) top = max_nan(top, x[i]);
    const acc_t<Elem> base = base_of(top);
    acc_t<Elem> sum = row.sum * row_exp<Elem>(row.max - base);
    UNROLL for (int i = 0; i < Count; ++i) sum = add_rn(sum, raised_exp<Elem>(x[i] - base));
    row = {top, sum};
}

// alpha * softmax or log-softmax of x. A row of -inf has -inf - -inf = NaN everywhere, like the reference.
template <class Elem> struct SoftmaxOf {
    using Value = acc_t<Elem>;
    Value max, factor, alpha;
    bool is_log;
    SoftmaxOf() = default;
    DEVICE SoftmaxOf(MaxSum<Value> row, Value alpha, bool is_log)
        : max(row.max), factor(is_log ? -alpha * log(lowered<Elem>(row.sum)) : alpha / row.sum), alpha(alpha),
          is_log(is_log) {}
    DEVICE Value operator()(Value x) const {
        return is_log ? fma(x - max, alpha, factor) : raised_exp<Elem>(x - max) * factor;
    }
};

// What an element adds to the row's sum, and alpha * gradient once the sum is known.
template <class Elem> struct GradientOf {
    using Value = acc_t<Elem>;
    Value sum, alpha;
    bool is_log;
    static DEVICE Value share(Value y, Value dy, bool is_log) { return is_log ? dy : dy * y; }
    DEVICE Value operator()(Value y, Value dy) const {
        return alpha * (is_log ? fma(-row_exp<Elem>(y), sum, dy) : y * (dy - sum));
    }
};

// Round and store a chunk of results, blended with what is there when beta is not 0.
template <class Elem, int Count> DEVICE void put_chunk(Elem* y, acc_t<Elem> (&r)[Count], acc_t<Elem> beta) {
    if (beta != 0) {
        const auto old = Vec<Elem, Count>::load(y);
        UNROLL for (int i = 0; i < Count; ++i) r[i] += beta * to_acc(old[i]);
    }
    Vec<Elem, Count>::of(r).store(y);
}
template <class Elem> DEVICE void put_one(Elem* y, acc_t<Elem> r, acc_t<Elem> beta) {
    *y = from_acc<Elem>(beta == 0 ? r : r + beta * to_acc(*y));
}

// Chunk k of lane l is chunk l + k * Lanes of the row: the first Regs in registers, Stashed more in shared
// memory (Stashed * Lanes slots of 16 bytes), where a lane sees only its own slots: no barrier is needed.
template <class Elem, int Lanes, int Regs, int Stashed = 0> struct FwdRow {
    using Value = acc_t<Elem>;
    static constexpr int vec = RowPlan<Elem>::vec, edges = (RowPlan<Elem>::most_singles + Lanes - 1) / Lanes;
    static constexpr int group = Regs % 2 ? 1 : 2;                     // chunks folded together
    RowPlan<Elem> at;
    int lane;
    uint4 *stash, chunk[Regs];
    Value edge[edges];
    DEVICE FwdRow(int lane, i64 start, int cols, uint4* stash = nullptr)
        : at(start, cols), lane(lane), stash(stash) {}
    DEVICE uint4& slot(int k) const { return stash[k * Lanes + lane]; }
    DEVICE bool has(int k) const { return lane + k * Lanes < at.chunks; }
    // Registers first: they are folded while the rest is under way, in four groups.
    DEVICE void load(const Elem* x) {
        UNROLL for (int k = 0; k < Regs; ++k) {
            const int i = lane + k * Lanes;
            chunk[k] = load_or(i < at.chunks, x + at.chunk(i), -INFINITY);
        }
        NO_UNROLL for (int k = 0; k < Stashed; ++k) {
            if (has(Regs + k))
                cp_async<16>(shared_address(&slot(k)), x + at.chunk(lane + (Regs + k) * Lanes));
            if ((k + 1) % (Stashed / 4) == 0) cp_async_commit();
        }
        UNROLL for (int e = 0; e < edges; ++e) {
            const int i = lane + e * Lanes;
            edge[e] = i < at.singles ? to_acc(x[at.single(i)]) : Value(-INFINITY);
        }
    }
    DEVICE void fold_stash(MaxSum<Value>& row, int first) const {
        NO_UNROLL for (int k = first; k < first + Stashed / 4 && has(Regs + k); ++k) {
            Value f[vec];
            opened<Elem>(slot(k)).get(f);
            fold<Elem>(row, f);
        }
    }
    DEVICE void fold_into(MaxSum<Value>& row) const {
        UNROLL for (int k = 0; k < Regs; k += group) {
            Value f[group * vec];
            UNROLL for (int i = 0; i < group * vec; ++i)
                f[i] = to_acc(opened<Elem>(chunk[k + i / vec])[i % vec]);
            fold<Elem>(row, f);
        }
        if constexpr (Stashed > 0) {
            static_assert(Stashed % 4 == 0, "FwdRow: the stash arrives in four parts");
            cp_async_wait<3>(), fold_stash(row, 0);
            cp_async_wait<2>(), fold_stash(row, Stashed / 4);
            cp_async_wait<1>(), fold_stash(row, Stashed / 2);
            cp_async_wait<0>(), fold_stash(row, Stashed / 4 * 3);
        }
        fold<Elem>(row, edge);
    }
    DEVICE void put_k(Elem* y, int k, uint4 words, const SoftmaxOf<Elem>& of, Value beta) const {
        const int i = lane + k * Lanes;
        if (i >= at.chunks) return;
        Value f[vec];
        opened<Elem>(words).get(f);
        UNROLL for (int j = 0; j < vec; ++j) f[j] = of(f[j]);
        put_chunk(y + at.chunk(i), f, beta);
    }
    DEVICE void put(Elem* y, const SoftmaxOf<Elem>& of, Value beta) const {
        UNROLL for (int k = 0; k < Regs; ++k) put_k(y, k, again(chunk[k]), of, beta);
        NO_UNROLL for (int k = 0; k < Stashed && has(Regs + k); ++k) put_k(y, Regs + k, slot(k), of, beta);
        UNROLL for (int e = 0; e < edges; ++e) {
            const int i = lane + e * Lanes;
            if (i < at.singles) put_one(y + at.single(i), of(edge[e]), beta);
        }
    }
};

}  // namespace cydnn
