// The main loop of the three convolutions on CUDA cores (implicit GEMM): sums over a depth of
// gathered * plain.
//
//   gathered   the image operand (x; dy in dgrad). Element (row, depth) lies at  row.off + tap.off  and
//              exists where row.z[i] + tap.z[i] is inside the image for i = depth, height, width;
//              elsewhere it is 0.
//   plain      the other operand (w; dy in wgrad). Element (row, depth) lies at  row offset + plain.
//
// What belongs to a row is computed once by the thread that loads it; what belongs to a depth index is
// decoded once a step by one thread (`entry`) and left in a table in shared memory, one step ahead. Every
// thread loads E neighbouring depth indices of one row of each operand: the 4-vectors are single accesses
// where the host found that they are neighbours in memory (flags), and lanes run along the rows or along the
// depth, whichever is closer in memory.
#pragma once
#include "tile/simt.cuh"

namespace cydnn {

enum ConvSimtFlags {
    X_ALONG_DEPTH = 1, X_VECTORS = 2, W_ALONG_DEPTH = 4, W_VECTORS = 8, OUT_ALONG_ROWS = 16
};

constexpr int NOWHERE = -(1 << 30);                    // added to any coordinate, or to itself, stays outside

struct alignas(16) Tap {
    int off;
    int z[3];
};
template <int K> struct Taps {
    Tap gathered[2][K];
    int plain[2][K];
};

// A thread's place in an operand tile of `Rows` x `K`: one row, E neighbouring depth indices from k0
// on. Whether the thread's number has a sign is measured: it is up to 8 % of a kernel's time, as ptxas
// then takes other registers.
template <int Rows, int K> struct Place {
    static constexpr int E = Rows * K / 256, V = E < 4 ? E : 4;
    int row, k0;
    template <class Number> DEVICE Place(bool along_depth, Number t) {
        row = along_depth ? t / (K / E) : t % Rows;
        k0 = (along_depth ? t % (K / E) : t / Rows) * E;
    }
};

// PTX ISA §prefetch: brings the line into L1. A table's next step is asked for one step ahead: its
// latency would stand between two barriers.
DEVICE void prefetch(const int* p) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(__cvta_generic_to_global(p)));
}

// FastDiv of a number that only the device knows (cydnn/kernels/pack.py makes the others).
DEVICE FastDiv fastdiv(unsigned by) {
    const unsigned shr = by > 1 ? 32 - __clz(by - 1) : 0;
    return {unsigned(((1ull << (31 + shr)) + by - 1) / by), shr, by};
}

// A mixed-radix number: rest -> digits, the fastest first; the last digit is what is left.
DEVICE void digits_of(unsigned rest, const FastDiv& d0, const FastDiv& d1, const FastDiv& d2, int (&out)[4]) {
    unsigned digit;
    rest = d0.divmod(rest, digit), out[0] = digit;
    rest = d1.divmod(rest, digit), out[1] = digit;
    rest = d2.divmod(rest, digit), out[2] = digit, out[3] = rest;
}

// Channel and tap of an index over channels x taps: channels fastest (channels-last filters) or slowest.
DEVICE void channel_and_tap(unsigned index, const FastDiv& d0, const FastDiv& d1, const FastDiv& d2,
                            bool channel_inner, int& channel, int (&tap)[3]) {
    int v[4];
    digits_of(index, d0, d1, d2, v);
    channel = channel_inner ? v[0] : v[3];
    UNROLL for (int i = 0; i < 3; ++i) tap[i] = channel_inner ? v[3 - i] : v[2 - i];
}

template <class S, class Elem, class Entry>
DEVICE void gather_multiply(typename S::Shared& tiles, Taps<S::k>& taps, const Place<S::m, S::k> px,
                            const Elem* x, const int (&z)[3], const Array<int, 3>& size,
                            const Place<S::n, S::k> pw, const Elem* w, bool w_valid, int flags, int begin,
                            int end, Entry entry, typename S::Sum (&acc)[S::FM][S::FN]) {
    constexpr int EX = Place<S::m, S::k>::E, VX = Place<S::m, S::k>::V;
    constexpr int EW = Place<S::n, S::k>::E, VW = Place<S::n, S::k>::V;
    Elem rx[EX], rw[EW];

    auto decode = [&](int buffer, int first) {           // the table of the step that begins at depth `first`
        if (threadIdx.x >= S::k) return;
        Tap tap = {0, {NOWHERE, 0, 0}};
        int plain = 0;
        if (const int k = first + int(threadIdx.x); k < end) entry(unsigned(k), tap, plain);
        taps.gathered[buffer][threadIdx.x] = tap;
        taps.plain[buffer][threadIdx.x] = plain;
    };
    auto inside = [&](const Tap& tap) {
        return unsigned(z[0] + tap.z[0]) < unsigned(size[0]) &&
               unsigned(z[1] + tap.z[1]) < unsigned(size[1]) &&
               unsigned(z[2] + tap.z[2]) < unsigned(size[2]);
    };
    auto load = [&](int buffer, int first) {
        UNROLL for (int e = 0; e < EX; ++e) rx[e] = Elem(0.f);
        UNROLL for (int e = 0; e < EW; ++e) rw[e] = Elem(0.f);
        if (flags & X_VECTORS) {
            UNROLL for (int e = 0; e < EX; e += VX) {
                const Tap tap = taps.gathered[buffer][px.k0 + e];
                if (!inside(tap)) continue;
                const auto v = Vec<Elem, VX>::load_nc(x + tap.off);
                UNROLL for (int i = 0; i < VX; ++i) rx[e + i] = v[i];
            }
        } else {
            UNROLL for (int e = 0; e < EX; ++e) {
                const Tap tap = taps.gathered[buffer][px.k0 + e];
                if (inside(tap)) rx[e] = x[tap.off];
            }
        }
        const int left = w_valid ? end - first - pw.k0 : 0;           // depth indices that exist
        if (flags & W_VECTORS) {
            UNROLL for (int e = 0; e < EW; e += VW) {
                if (e >= left) continue;
                const auto v = Vec<Elem, VW>::load_nc(w + taps.plain[buffer][pw.k0 + e]);
                UNROLL for (int i = 0; i < VW; ++i) rw[e + i] = v[i];
            }
        } else {
            UNROLL for (int e = 0; e < EW; ++e)
                if (e < left) rw[e] = w[taps.plain[buffer][pw.k0 + e]];
        }
    };
    auto store = [&](int buffer) {
        UNROLL for (int e = 0; e < EX; ++e) tiles.a[buffer][px.k0 + e][px.row] = to_acc(rx[e]);
        UNROLL for (int e = 0; e < EW; ++e) tiles.b[buffer][pw.k0 + e][pw.row] = to_acc(rw[e]);
    };

    S::clear(acc);
    const int steps = ceil_div(end - begin, S::k);
    decode(0, begin);
    __syncthreads();
    load(0, begin);
    decode(1, begin + S::k);
    store(0);
    __syncthreads();
    NO_UNROLL for (int step = 0; step < steps; ++step) {
        const int now = step & 1, next = now ^ 1;
        const bool more = step + 1 < steps;
        if (more) load(next, begin + (step + 1) * S::k);            // in flight while this step is multiplied
        S::multiply(tiles, now, acc);
        if (more) {
            decode(now, begin + (step + 2) * S::k);            // table `now` was last read before the barrier
            store(next);
        }
        __syncthreads();
    }
}

}  // namespace cydnn
