// Where the kernels for channels innermost work: a block has neighbouring channels of neighbouring columns, a
// thread Many channels of one column, and walks down the rows. Columns meet in shared memory.
#pragma once
#include "walk.cuh"

namespace cydnn {

// `lanes` (a power of two) threads side by side have the channels of a column. A block has a group of
// channels, a segment of the columns and a chunk of `per` rows of an image; of its columns `useful` behind
// the first `lead` make results, the others only lend what they have. IsUnrolled: full windows
// are summed along w without a loop, which takes registers.
template <int Many, int Strip, bool IsUnrolled, class Value> struct ChannelSite {
    static constexpr int THREADS = 256;
    using Word = Vec<Value, Many>;
    Word* room;                                  // in shared memory, Strip * THREADS
    int lanes, column, channel, first, width;    // those that are there, also where the thread's are not
    int low, high;                               // places in the block whose columns are there
    unsigned n;
    bool is_useful;
    DEVICE ChannelSite(Word* room, int lanes_log2, int vectors, int width, int per, int lead, int useful,
                       const FastDiv& segments, const FastDiv& chunks, const FastDiv& groups)
        : room(room), width(width) {
        lanes = 1 << lanes_log2;
        const int place = threadIdx.x >> lanes_log2, places = THREADS >> lanes_log2;
        unsigned group, segment, chunk;
        n = chunks.divmod(segments.divmod(groups.divmod(blockIdx.x, group), segment), chunk);
        const int vector = group * lanes + (threadIdx.x & (lanes - 1)), before = int(segment) * useful - lead;
        column = before + place, first = chunk * per;
        low = max(0, -before), high = min(places, width - before) - 1;
        is_useful = vector < vectors && unsigned(column) < unsigned(width)
                    && unsigned(place - lead) < unsigned(useful);
        column = min(max(column, 0), width - 1), channel = min(vector, vectors - 1) * Many;
    }
    // Where an operand begins for the thread; null stays null.
    template <class Elem> DEVICE Elem* start(Elem* p, const Array<i64, 3>& strides) const {
        return p ? p + n * strides[2] + column * strides[1] + channel : p;
    }
    // Columns of the window that are there.
    DEVICE int wide(int, int window) const { return span_of(column, width, window); }

    template <int Most, bool Ahead, bool IsFull, int Count>
    DEVICE void across(Value (&sum)[Count][Many], int window) const {
        const int place = threadIdx.x / lanes, less = (window - 1) / 2, more = window / 2;
        const int behind = Ahead ? less : more, ahead = Ahead ? more : less;
        __syncthreads();                         // what was left before has been read
        UNROLL for (int i = 0; i < Count; ++i) room[i * THREADS + threadIdx.x] = Word::of(sum[i]);
        __syncthreads();
        const auto add = [&](int at) {
            const Word* row = room + threadIdx.x + (at - place) * lanes;
            UNROLL for (int i = 0; i < Count; ++i) UNROLL for (int j = 0; j < Many; ++j)
                sum[i][j] += row[i * THREADS][j];
        };
        if constexpr (IsFull && IsUnrolled && Ahead) UNROLL for (int e = 1; e <= Most / 2; ++e) {
            if (e < Most - Most / 2 && place - e >= low) add(place - e);
            if (place + e <= high) add(place + e);
        } else NO_UNROLL for (int at = max(place - behind, low); at <= min(place + ahead, high); ++at)
            if (at != place) add(at);
    }
    // One r for a channel of all columns of the block, of every other row.
    template <class Elem, int All>
    DEVICE void nearest_of(Value (&r)[Many], const Row<Elem, Many> (&rows)[All]) const {
        constexpr int warps = THREADS / 32;
        Value least[Many], most[Many];
        UNROLL for (int j = 0; j < Many; ++j) {
            least[j] = INFINITY, most[j] = -INFINITY;
            UNROLL for (int i = 0; i < All; i += 2)
                least[j] = fmin(least[j], rows[i][j]), most[j] = fmax(most[j], rows[i][j]);
            NO_UNROLL for (int away = lanes; away < 32; away *= 2) {
                least[j] = fmin(least[j], __shfl_xor_sync(~0u, least[j], away));
                most[j] = fmax(most[j], __shfl_xor_sync(~0u, most[j], away));
            }
        }
        const int mine = threadIdx.x & (lanes - 1), warp = threadIdx.x / 32;
        __syncthreads();
        if (threadIdx.x % 32 == mine) {
            room[warp * 32 + mine] = Word::of(least);
            room[THREADS + warp * 32 + mine] = Word::of(most);
        }
        __syncthreads();
        NO_UNROLL for (int w = 0; w < warps; ++w) {
            const Word a = room[w * 32 + mine], b = room[THREADS + w * 32 + mine];
            UNROLL for (int j = 0; j < Many; ++j)
                least[j] = fmin(least[j], a[j]), most[j] = fmax(most[j], b[j]);
        }
        UNROLL for (int j = 0; j < Many; ++j) r[j] = nearest(least[j], most[j]);
    }
};

}  // namespace cydnn
