// The main loop of the three convolutions on CUDA cores (implicit GEMM): sums over a depth of
// gathered * plain.
//
//   gathered   the image operand (x; dy in dgrad). Element (row, depth) lies at  row.off + tap.off  and
//              exists where row.z[i] + tap.z[i] is inside the image for i = depth, height, width;
//              elsewhere it is 0.
//   plain      the other operand (w; dy in wgrad). Element (row, depth) lies at  row offset + plain.
//
// What belongs to a row is computed once by the thread that loads it; what belongs to a depth index is
// decoded once by one thread (`entry`), TABLE of them at a time, and left in a table in shared memory, one
// step ahead. Every thread loads E neighbouring depth indices of one row of each operand, or E / V of V
// neighbouring rows: the vectors are single accesses where the host found that they are neighbours in memory
// (flags), and lanes run along the rows or along the depth, whichever is closer in memory.
#pragma once
#include "tile/simt.cuh"

namespace cydnn {

enum ConvSimtFlags {
    X_ALONG_DEPTH = 1, X_VECTORS = 2, W_ALONG_DEPTH = 4, W_VECTORS = 8, OUT_ALONG_ROWS = 16,
    X_ROW_VECTORS = 32, W_ROW_VECTORS = 64
};

constexpr int NOWHERE = -(1 << 30);                    // added to any coordinate, or to itself, stays outside

struct alignas(16) Tap {
    int off;
    int z[3];
};
constexpr int TABLE = 32;                              // the depth of the deepest step
struct Taps {                                          // what is decoded, by depth modulo 2 * TABLE
    Tap gathered[2 * TABLE];
    int plain[2 * TABLE];
};

// A thread's place in an operand tile of `Rows` x `K`: one row, E neighbouring depth indices from k0
// on; with `vectors` of rows, V rows and E / V depths. Whether the thread's number has a sign is measured: it
// is up to 8 % of a kernel's time, as ptxas then takes other registers.
template <int Rows, int K> struct Place {
    static constexpr int E = Rows * K / 256, V = E < 4 ? E : 4;
    int row, k0;
    template <class Number> DEVICE Place(bool along_depth, Number t, bool vectors = false) {
        row = along_depth ? t / (K / E) : t % Rows;
        k0 = (along_depth ? t % (K / E) : t / Rows) * E;
        if (vectors) row = t % (Rows / V) * V, k0 = t / (Rows / V) * (E / V);
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

// What a thread has loaded goes to its place in a tile.
template <bool Vectors, int Rows, int K, class Elem, class Sum, int Pitch>
DEVICE void put(Sum (&tile)[K][Pitch], const Place<Rows, K>& at, const Elem (&held)[Place<Rows, K>::E],
                bool vectors) {
    constexpr int E = Place<Rows, K>::E, V = Place<Rows, K>::V;
    if (Vectors && vectors) {
        UNROLL for (int e = 0; e < E; e += V) {
            Vec<Sum, V> v;
            UNROLL for (int j = 0; j < V; ++j) v[j] = to_acc(held[e + j]);
            v.store(&tile[at.k0 + e / V][at.row]);
        }
    } else {
        UNROLL for (int e = 0; e < E; ++e) tile[at.k0 + e][at.row] = to_acc(held[e]);
    }
}

// The half of the table that begins with depth `first` of a sum over [begin, end).
template <class Entry> DEVICE void decode_taps(Taps& taps, int begin, int end, int first, Entry entry) {
    if (first % TABLE != 0 || threadIdx.x >= TABLE) return;
    Tap tap = {0, {NOWHERE, 0, 0}};
    int plain = 0;
    if (const int k = begin + first + int(threadIdx.x); k < end) entry(unsigned(k), tap, plain);
    taps.gathered[first % (2 * TABLE) + threadIdx.x] = tap;
    taps.plain[first % (2 * TABLE) + threadIdx.x] = plain;
}

DEVICE bool is_inside(const int (&z)[3], const Tap& tap, const Array<int, 3>& size) {
    return unsigned(z[0] + tap.z[0]) < unsigned(size[0]) && unsigned(z[1] + tap.z[1]) < unsigned(size[1]) &&
           unsigned(z[2] + tap.z[2]) < unsigned(size[2]);
}

// RX, RW: whether operands may lie in vectors of rows.
template <class S, bool RX, bool RW, class Elem, class Entry>
DEVICE void gather_multiply(typename S::Shared& tiles, Taps& taps, const Place<S::m, S::k> px,
                            const Elem* x, const int (&z)[3], const Array<int, 3>& size,
                            const Place<S::n, S::k> pw, const Elem* w, bool w_valid, int flags, int begin,
                            int end, Entry entry, typename S::Sum (&acc)[S::FM][S::FN]) {
    constexpr int EX = Place<S::m, S::k>::E, VX = Place<S::m, S::k>::V;
    constexpr int EW = Place<S::n, S::k>::E, VW = Place<S::n, S::k>::V;
    Elem rx[EX], rw[EW];

    auto decode = [&](int first) { decode_taps(taps, begin, end, first, entry); };
    auto inside = [&](const Tap& tap) { return is_inside(z, tap, size); };
    auto load = [&](int first) {
        const Tap* gathered = taps.gathered + first % (2 * TABLE) + px.k0;
        const int* plain = taps.plain + first % (2 * TABLE) + pw.k0;
        UNROLL for (int e = 0; e < EX; ++e) rx[e] = Elem(0.f);
        UNROLL for (int e = 0; e < EW; ++e) rw[e] = Elem(0.f);
        if (flags & X_VECTORS || RX && flags & X_ROW_VECTORS) {
            const int step = RX && flags & X_ROW_VECTORS ? 1 : VX;       // depths from vector to vector
            UNROLL for (int e = 0; e < EX; e += VX) {
                const Tap tap = gathered[e / VX * step];
                if (!inside(tap)) continue;
                const auto v = Vec<Elem, VX>::load_nc(x + tap.off);
                UNROLL for (int i = 0; i < VX; ++i) rx[e + i] = v[i];
            }
        } else {
            UNROLL for (int e = 0; e < EX; ++e) {
                const Tap tap = gathered[e];
                if (inside(tap)) rx[e] = x[tap.off];
            }
        }
        const int left = w_valid ? end - begin - first - pw.k0 : 0;   // depth indices that exist
        if (flags & W_VECTORS || RW && flags & W_ROW_VECTORS) {
            const int step = RW && flags & W_ROW_VECTORS ? 1 : VW;
            UNROLL for (int e = 0; e < EW; e += VW) {
                if (e / VW * step >= left) continue;
                const auto v = Vec<Elem, VW>::load_nc(w + plain[e / VW * step]);
                UNROLL for (int i = 0; i < VW; ++i) rw[e + i] = v[i];
            }
        } else {
            UNROLL for (int e = 0; e < EW; ++e)
                if (e < left) rw[e] = w[plain[e]];
        }
    };
    auto store = [&](int buffer) {
        put<RX>(tiles.a[buffer], px, rx, flags & X_ROW_VECTORS);
        put<RW>(tiles.b[buffer], pw, rw, flags & W_ROW_VECTORS);
    };

    S::clear(acc);
    const int steps = ceil_div(end - begin, S::k);
    decode(0);
    __syncthreads();
    load(0);
    decode(S::k);
    store(0);
    __syncthreads();
    NO_UNROLL for (int step = 0; step < steps; ++step) {
        const int now = step & 1, next = now ^ 1;
        const bool more = step + 1 < steps;
        if (more) load((step + 1) * S::k);                          // in flight while this step is multiplied
        S::multiply(tiles, now, acc);
        if (more) {
            decode((step + 2) * S::k);                         // its half was last read before the barrier
            store(next);
        }
        __syncthreads();
    }
}

}  // namespace cydnn
