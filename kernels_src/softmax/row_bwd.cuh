// The backward twin of FwdRow: the rows of y and dy, spread over registers and shared memory in the same way.
#pragma once
#include "row.cuh"

namespace cydnn {

// Shared memory: 2 * Stashed * Lanes slots of 16 bytes, y before dy. Chunks beyond the row
// are 0 and add nothing.
template <class Elem, int Lanes, int Regs, int Stashed = 0> struct BwdRow {
    using Value = acc_t<Elem>;
    static constexpr int vec = RowPlan<Elem>::vec, edges = (RowPlan<Elem>::most_singles + Lanes - 1) / Lanes;

    RowPlan<Elem> at;
    int lane;
    uint4* stash;
    uint4 y[Regs], dy[Regs];
    Value edge_y[edges], edge_dy[edges];

    DEVICE BwdRow(int lane, i64 start, int cols, uint4* stash = nullptr)
        : at(start, cols), lane(lane), stash(stash) {}
    DEVICE uint4& slot(int k) const { return stash[k * Lanes + lane]; }

    DEVICE bool has(int k) const { return lane + k * Lanes < at.chunks; }

    // Registers first: they are added while the rest is under way.
    DEVICE void load(const Elem* from_y, const Elem* from_dy) {
        UNROLL for (int k = 0; k < Regs; ++k) {
            const int i = lane + k * Lanes;
            y[k] = load_or(i < at.chunks, from_y + at.chunk(i), 0);
            dy[k] = load_or(i < at.chunks, from_dy + at.chunk(i), 0);
        }
        NO_UNROLL for (int k = 0; k < Stashed && has(Regs + k); ++k) {
            const int i = lane + (Regs + k) * Lanes;
            cp_async<16>(shared_address(&slot(k)), from_y + at.chunk(i));
            cp_async<16>(shared_address(&slot(Stashed + k)), from_dy + at.chunk(i));
        }
        UNROLL for (int e = 0; e < edges; ++e) {
            const int i = lane + e * Lanes;
            edge_y[e] = i < at.singles ? to_acc(from_y[at.single(i)]) : Value(0);
            edge_dy[e] = i < at.singles ? to_acc(from_dy[at.single(i)]) : Value(0);
        }
    }
    static DEVICE Value share_of(uint4 y, uint4 dy, bool is_log) {
        Value sum = 0;
        UNROLL for (int j = 0; j < vec; ++j)
            sum += GradientOf<Elem>::share(to_acc(opened<Elem>(y)[j]), to_acc(opened<Elem>(dy)[j]), is_log);
        return sum;
    }
    // The lane's share of the row's sum.
    DEVICE Value sum(bool is_log) const {
        Value sum = 0;
        UNROLL for (int k = 0; k < Regs; ++k) sum += share_of(y[k], dy[k], is_log);
        UNROLL for (int e = 0; e < edges; ++e) sum += GradientOf<Elem>::share(edge_y[e], edge_dy[e], is_log);
        if constexpr (Stashed > 0) {
            cp_async_commit();
            cp_async_wait<0>();
            NO_UNROLL for (int k = 0; k < Stashed && has(Regs + k); ++k)
                sum += share_of(slot(k), slot(Stashed + k), is_log);
        }
        return sum;
    }
    DEVICE void put_k(Elem* dx, int k, uint4 a, uint4 b, const GradientOf<Elem>& of, Value beta) const {
        const int i = lane + k * Lanes;
        if (i >= at.chunks) return;
        Value f[vec];
        UNROLL for (int j = 0; j < vec; ++j)
            f[j] = of(to_acc(opened<Elem>(a)[j]), to_acc(opened<Elem>(b)[j]));
        put_chunk(dx + at.chunk(i), f, beta);
    }
    DEVICE void put(Elem* dx, const GradientOf<Elem>& of, Value beta) const {
        UNROLL for (int k = 0; k < Regs; ++k) put_k(dx, k, again(y[k]), again(dy[k]), of, beta);
        NO_UNROLL for (int k = 0; k < Stashed && has(Regs + k); ++k)
            put_k(dx, Regs + k, slot(k), slot(Stashed + k), of, beta);
        UNROLL for (int e = 0; e < edges; ++e) {
            const int i = lane + e * Lanes;
            if (i < at.singles) put_one(dx + at.single(i), of(edge_y[e], edge_dy[e]), beta);
        }
    }
};

}  // namespace cydnn
