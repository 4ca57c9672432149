// Hopper's tile program where operand A is changed on its way: in shared memory, the warpgroup that
// multiplies pixels makes of them what stands in front of the convolution. Whole depths.
//
//   Prologue<Tile>      one warpgroup's 64 rows: which of their taps lie in the image, and their change
//   wgmma_prologue      the program; a Source and an Out as in tile/wgmma_blocks.cuh
//
// A thread has the same chunk of a line in four rows, 16 apart: eight channels, whose numbers it reads once.
// Pixels beside the image are 0 behind the change, too. Operand A in registers, with nothing written back,
// took as long on an H200.
#pragma once
#include "tile/wgmma_sums.cuh"
#include "wgmma_windows.cuh"

namespace cydnn {

// What the tensor that TMA brings has at 8 channels from `col` on, in four rows.
DEVICE void fuse_prologue(float (&v)[4][8], int col) {
#define CYDNN_ROW(R) "+f"(v[R][0]), "+f"(v[R][1]), "+f"(v[R][2]), "+f"(v[R][3]), "+f"(v[R][4]), \
                     "+f"(v[R][5]), "+f"(v[R][6]), "+f"(v[R][7])
    asm volatile("// @fuse.prologue v=%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"
                 "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31 rows=4 col=%32;"
                 : CYDNN_ROW(0), CYDNN_ROW(1), CYDNN_ROW(2), CYDNN_ROW(3) : "r"(col));
#undef CYDNN_ROW
}

template <class Tile> struct Prologue {
    using Elem = typename Tile::Elem::Type;
    static constexpr int rows = 4, apart = 16;
    const Window& window;
    const Array<FastDiv, 3>& taps;
    int channels;                                        // of a group
    unsigned mask[rows], place;                          // of a chunk in the warpgroup's part of a stage
    int chunk, tap[3], first;

    DEVICE Prologue(const Window& window, const Array<FastDiv, 3>& taps, int channels)
        : window(window), taps(taps), channels(channels) {
        const int row = threadIdx.x % 128 / CHUNKS, lane = threadIdx.x % CHUNKS;
        place = row * LINE + ((lane ^ (row & 7)) << 4);
    }
    // The next lines are those of the pixels from `pixel` on.
    DEVICE void begin(int pixel, unsigned group, const Array<FastDiv, 3>& out) {
        UNROLL for (int i = 0; i < rows; ++i) {
            int at[4];
            pixel_of(pixel + int(threadIdx.x % 128) / CHUNKS + i * apart, out.v, at);
            mask[i] = row_of(window, at, 0).mask;
        }
        chunk = threadIdx.x % CHUNKS * int(CHUNK / sizeof(Elem)), first = int(group) * channels;
        UNROLL for (int d = 0; d < 3; ++d) tap[d] = 0;
    }
    DEVICE void change(unsigned char* part) {
        const unsigned need = need_of(window, tap[0], tap[1], tap[2]);
        Elem* at = reinterpret_cast<Elem*>(part + place);
        constexpr int step = apart * LINE / int(sizeof(Elem));
        float v[rows][8] = {};
        if (chunk < channels) {
            UNROLL for (int i = 0; i < rows; ++i) Vec<Elem, 8>::load(at + i * step).get(v[i]);
            fuse_prologue(v, first + chunk);
        }
        UNROLL for (int i = 0; i < rows; ++i) {
            auto changed = Vec<Elem, 8>::of(v[i]);
            auto* words = reinterpret_cast<unsigned*>(&changed);
            UNROLL for (int e = 0; e < 4; ++e) words[e] = (mask[i] & need) == need ? words[e] : 0;
            changed.store(at + i * step);
        }
        next();
    }
    DEVICE void next() {                                 // as Windows
        if (++tap[2] < int(taps[2].by)) return;
        tap[2] = 0;
        if (++tap[1] < int(taps[1].by)) return;
        tap[1] = 0;
        if (++tap[0] < int(taps[0].by)) return;
        tap[0] = 0, chunk += Tile::k;
    }
};

template <class Tile, class A, class B, class Source, class Out>
DEVICE void wgmma_prologue(unsigned char* shared, Source& source, const Window& window,
                           const TileOrder<Tile>& order, int k, const CUtensorMap& boxes, const Out& to) {
    WgmmaRing<Tile> ring(shared);
    if (threadIdx.x == 0) source.ahead(), ring.begin();
    __syncthreads();
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);             // the same for all, known to ptxas
    const int steps = k / Tile::k;
    static_assert(Tile::groups_m > 1, "a warpgroup changes what it alone reads");

    if (role == 0) {
        registers_give<40>();
        if (threadIdx.x == 0) NO_UNROLL for (unsigned i = blockIdx.x; i < order.count(); i += gridDim.x) {
            source.begin(order[i], 0);
            wgmma_produce(ring, steps,
                          [&](int, unsigned char* stage, uint64_t* full) { source.load(stage, full); });
        }
        return;
    }
    registers_take<Tile::registers>();
    const int group = role - 1;
    unsigned char* out = ring.way_out(group);
    Prologue<Tile> prologue(window, source.taps, source.channels);
    NO_UNROLL for (unsigned i = blockIdx.x; i < order.count(); i += gridDim.x) {
        const TileAt tile = order[i];
        typename Tile::Sum d[Tile::sums];
        const i64 first = source.offset(tile.matrix);
        const int column = source.column(tile.matrix), row = tile.row + slice_row<Tile>(group, 0);
        if (to.form == FUSED && to.may_change(tile)) to.ahead(first, row, tile.col);
        prologue.begin(row, tile.matrix, source.out);
        wgmma_sums<Tile, A, B>(d, ring, steps, group, [&](unsigned char* stage) {
            prologue.change(stage + group * PART);
            fence_async();
            group_barrier(group);
        });
        if (to.goes_in_boxes() && to.may_change(tile)) {
            put_boxes<Tile>(d, out, boxes, to, source, tile, group);
        } else {
            if (to.form == FUSED) boxes_leave<Tile>(group);              // those of the tile before
            to.put(d, ring, group, first, column, tile, Depth<Tile>{k, k, 1});
        }
    }
    if (sends_boxes<Tile>()) store_wait_read<0>();       // shared memory goes with the block
}

}  // namespace cydnn
