// What the kernels share that read a tensor once and wait for the whole grid in between.
//
//   Item                    the vectors of one row: x, or x and dy
//   Held                    a thread's rows: in shared memory, in registers, and those that are read again
//   show_part, merge_parts  the parts of a column, left in memory for other blocks, and merged by them
#pragma once
#include "lib/grid.cuh"
#include "lib/mma.cuh"
#include "moments.cuh"

namespace cydnn {

template <class Elem, int Count> struct Item { Vec<Elem, 16 / sizeof(Elem)> v[Count]; };

// Row k of a thread is in shared memory for k < held (where a thread sees only its own slots: no barrier is
// needed), then in registers for Regs rows; later ones are read in both passes, backwards in the second: what
// the first read last is still in L2. address(k, i) is where vector i of row k is.
template <int Threads, class Elem, int Count, int Regs> struct Held {
    using Row = Item<Elem, Count>;
    static constexpr int Quarters = 4, Slots = (Regs ? 4 : 8) / Count;
    uint4* stash;
    int held, count, quarter;
    Row kept[Regs ? Regs : 1];
    Window<Slots, 1, Row> window;

    DEVICE Held(uint4* stash, int held, int count)
        : stash(stash), held(held), count(count), quarter(ceil_div(held, Quarters)) {}
    DEVICE uint4* slot(int k, int i) const { return stash + (k * Count + i) * Threads + threadIdx.x; }
    DEVICE Row stashed(int k) const {
        Row r;
        UNROLL for (int i = 0; i < Count; ++i) *reinterpret_cast<uint4*>(&r.v[i]) = *slot(k, i);
        return r;
    }
    template <class Address> static DEVICE Row loaded(Address address, int k) {
        Row r;
        UNROLL for (int i = 0; i < Count; ++i) r.v[i] = r.v[i].load(address(k, i));
        return r;
    }
    DEVICE int first_streamed() const { return held + Regs; }
    DEVICE int end_of(int part) const { return min(min((part + 1) * quarter, held), count); }

    // All loads that can be under way at once, in the order of their use.
    template <class Address> DEVICE void start(Address address) {
        UNROLL for (int part = 0; part < Quarters; ++part) {
            NO_UNROLL for (int k = part * quarter; k < end_of(part); ++k)
                UNROLL for (int i = 0; i < Count; ++i)
                    cp_async<16>(shared_address(slot(k, i)), address(k, i));
            cp_async_commit();
        }
        UNROLL for (int k = 0; k < Regs; ++k) if (held + k < count) kept[k] = loaded(address, held + k);
        window.start(first_streamed(), count, 1, [&](int k) { return loaded(address, k); });
    }
    DEVICE void wait() const { cp_async_wait<Quarters - 1>(); }        // for row 0
    template <int Part, class Use> DEVICE void use_part(Use use) const {
        cp_async_wait<Quarters - 1 - Part>();
        NO_UNROLL for (int k = Part * quarter; k < end_of(Part); ++k) use(k, stashed(k));
    }
    template <class Use> DEVICE void use_kept(Use use) const {
        UNROLL for (int k = 0; k < Regs; ++k) if (held + k < count) use(held + k, kept[k]);
    }
    template <class Address, class Use> DEVICE void first_pass(Address address, Use use) {
        use_part<0>(use), use_part<1>(use), use_part<2>(use), use_part<3>(use);
        use_kept(use);
        window.run(first_streamed(), count, 1, [&](int k) { return loaded(address, k); }, use);
    }
    // Its first loads, long before it: x does not change.
    template <class Address> DEVICE void start_again(Address address) {
        window.start(first_streamed(), count, 1, [&](int k) { return loaded(address, back(k)); });
    }
    DEVICE int back(int k) const { return first_streamed() + count - 1 - k; }
    template <class Address, class Use> DEVICE void second_pass(Address address, Use use) {
        window.run(first_streamed(), count, 1, [&](int k) { return loaded(address, back(k)); },
                   [&](int k, const Row& row) { use(back(k), row); });
        use_kept(use);
        NO_UNROLL for (int k = 0; k < min(held, count); ++k) use(k, stashed(k));
    }
};

// Two floats a column and split; how many rows a split has is known.
DEVICE float2 shown(const Stat<float>& s) { return {s.mean, s.m2}; }
DEVICE float2 shown(const GradSum<float>& s) { return {s.sum, s.dot}; }
DEVICE void seen(Stat<float>& s, float rows, float a, float b) { s = {rows, a, b}; }
DEVICE void seen(GradSum<float>& s, float, float a, float b) { s = {a, b}; }

// parts[split][column], merged: a thread takes two neighbouring columns of some splits.
template <class Part, int Threads, class Rows>
DEVICE Part merge_parts(const Team<Threads>& team, const float* parts, int columns, int splits,
                        Rows rows_of) {
    constexpr int Ahead = 8;
    const int pairs = columns / 2, jump = Threads / pairs;
    const float4* mine = reinterpret_cast<const float4*>(parts) + threadIdx.x % pairs;
    Part all[2] = {};
    NO_UNROLL for (int s = threadIdx.x / pairs; s < splits; s += Ahead * jump) {
        float4 some[Ahead];
        UNROLL for (int k = 0; k < Ahead; ++k) some[k] = mine[min(s + k * jump, splits - 1) * pairs];
        UNROLL for (int k = 0; k < Ahead; ++k)
            if (s + k * jump < splits) {
                const float rows = rows_of(s + k * jump);
                Part a, b;
                seen(a, rows, some[k].x, some[k].y), seen(b, rows, some[k].z, some[k].w);
                all[0] = merge(all[0], a), all[1] = merge(all[1], b);
            }
    }
    return combine_columns<Threads, 2, Part, 64>(team, all, 31 - __clz(pairs));
}

}  // namespace cydnn
