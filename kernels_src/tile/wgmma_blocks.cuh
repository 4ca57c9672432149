// The kernel of Hopper's tile program but for what it reads: blocks that stay and take tile after tile, a
// warpgroup that loads, those that multiply, and the ways out of the sums.
//
// A Source says what is read, and where its sums go:
//   ahead()                      one thread: the maps are fetched
//   begin(tile, first)           one thread: the next loads are of `tile`, from `first` of the depth on
//   load(stage, full)            one thread: both operands of the next Tile::k of the depth
//   by_hand                      threads bring them, not TMA (matmul/by_hand.cuh)
//   in_pieces                    it says what a stage holds: prepare, bring (a thread of each warp), sums
//                                (conv/wgmma_pieces.cuh)
//   may_cast, brings             of operand B
//   box(matrix, at)              the coordinates of a matrix in the map of c, behind column and row
//   offset(matrix), column(matrix)   of its first element in c; what its first column is to the epilogue
#pragma once
#include "lib/epilogue.cuh"
#include "tile/wgmma_shares.cuh"

namespace cydnn {

// Of c: any; rows are whole vectors of 8; it has a map, too; the same, and something is fused.
enum WgmmaForm { ELEMENTS, ROWS, BOXES, FUSED };

// c = alpha * sums + beta * c of m x n matrices, or the sums to `parts`. along_m: neighbours in the memory
// of c are rows. A tile's sums come in `d`, and leave through `out`.
template <class Tile, class Type, bool Boxes = true> struct WgmmaOut {
    using Elem = Type;
    using Sum = typename Tile::Sum;
    static constexpr bool is_matrix = true, has_boxes = Boxes;
    Elem* c;
    Sum* parts;
    float alpha, beta;
    int m, n, form, along_m;
    i64 c_m, c_n;

    DEVICE bool goes_in_boxes() const { return form >= BOXES && !parts && beta == 0.f; }     // team 1
    DEVICE bool is_inside(const TileAt& tile, int rows, int columns) const {
        return tile.row + rows <= m && tile.col + columns <= n;
    }
    // What is fused may work on the sums of a tile and leave in boxes.
    DEVICE bool may_change(const TileAt& tile) const {
        return is_inside(tile, Tile::by_warp ? 0 : Tile::m, Tile::n);
    }
    // Who sends boxes together has rows of the matrix, where a warpgroup's begin at `row`. The same for all
    // of a warp, known to ptxas: or the stages of what comes next leave the uniform registers.
    DEVICE bool has_rows(int row) const {
        return row + (Tile::by_warp ? int(__shfl_sync(~0u, threadIdx.x / 32 % 4 * 16, 0)) : 0) < m;
    }

    // What is fused, for a thread's 32 sums of a slice at (row, col) of the matrix: pairs of neighbours, in
    // the upper and the lower half of a warp's 16 rows.
    DEVICE void change(float (&v)[32], i64 first, int column, int row, int col) const {
        const int lane = threadIdx.x % 32;
        row += threadIdx.x / 32 % 4 * 16 + lane / 4, col += lane % 4 * 2;
        const i64 off = first + row * c_m + col;
        UNROLL for (int j = 0; j < 8; ++j) UNROLL for (int half = 0; half < 2; ++half) {
            float* two = v + 4 * j + 2 * half;
            fuse_pairs(two[0], two[1], off + half * 8 * c_m + 8 * j, column + col + 8 * j);
        }
    }

    // The same for any number of sums, where they are the From-th as many columns from `col` on. Rows behind
    // the last, whose sums nobody stores, read what the last reads.
    template <int Count, int From>
    DEVICE void change(float (&v)[Count], i64 first, int column, int row, int col, Int<From>) const {
        const int lane = threadIdx.x % 32;
        row += threadIdx.x / 32 % 4 * 16 + lane / 4, col += lane % 4 * 2;
        const i64 upper = first + min(row, m - 1) * c_m + col;
        const i64 lower = first + min(row + 8, m - 1) * c_m + col;
        each<0, Count / 4>([&](auto j) {
            UNROLL for (int half = 0; half < 2; ++half) {
                float* two = v + 4 * j.value + 2 * half;
                fuse_pairs<2 * Count * From + 8 * j.value>(two[0], two[1], half ? lower : upper,
                                                           column + col);
            }
        });
    }

    // beta * c is added to the same sums.
    template <int Count, int From>
    DEVICE void blend_pairs(float (&v)[Count], i64 first, int row, int col, Int<From>) const {
        const int lane = threadIdx.x % 32;
        row += threadIdx.x / 32 % 4 * 16 + lane / 4, col += lane % 4 * 2;
        UNROLL for (int j = 0; j < Count / 4; ++j) UNROLL for (int half = 0; half < 2; ++half) {
            float old[2], *two = v + 4 * j + 2 * half;
            const i64 off = first + min(row + 8 * half, m - 1) * c_m + col + 2 * Count * From + 8 * j;
            Vec<Elem, 2>::load(c + off).get(old);
            two[0] += beta * old[0], two[1] += beta * old[1];
        }
    }

    // A warpgroup, before its products: what `change` will read of tensors as large as the output.
    DEVICE void ahead(i64 first, int row, int col) const {
        constexpr int slices = Tile::group_n / 64;
        NO_UNROLL for (int e = threadIdx.x % 128; e < 64 * slices; e += 128)
            if (row + e / slices < m) fuse_ahead(first + (row + e / slices) * c_m + col + e % slices * 64);
    }

    DEVICE void put_parts(const Sum (&d)[Tile::sums], unsigned char* out, int group, Sum* sums,
                          const TileAt& tile) const {
        const int lane = threadIdx.x % 32;
        store_rows<Tile>(d, out, group, [&](const SliceOf<Sum>& slice, int first_row, int first_col) {
            const int count = n % 8 ? 1 : 8;
            NO_UNROLL for (int e = lane * count; e < 1024; e += 32 * count) {
                const int r = e / 64, q = e % 64;
                const int row = tile.row + first_row + r, col = tile.col + first_col + q;
                if (row >= m || col >= n) continue;
                Sum v[8], *to = sums + i64(row) * n + col;
                if (count == 8) slice.get(v, r, q), Vec<Sum, 8>::of(v).store(to);
                else *to = slice.get(r, q);
            }
        });
    }

    // `first`: of the matrix, in c; `column`: of its first column. team > 1: the sums of all blocks.
    DEVICE void put(const Sum (&d)[Tile::sums], const WgmmaRing<Tile>& ring, int group, i64 first,
                    int column, const TileAt& tile, const Depth<Tile>& depth) const {
        const auto slices = [&](const SliceOf<Sum>& slice, int row, int col) {
            write(slice, first, column, tile.row + row, tile.col + col, threadIdx.x % 32);
        };
        unsigned char* out = ring.way_out(group);
        if (Tile::by_warp || depth.team == 1) store_rows<Tile>(d, out, group, slices);
        else store_added<Tile>(d, ring.stages, out, group, depth.team, depth.rank(), slices);
    }

    DEVICE void write(const SliceOf<Sum>& sums, i64 first, int column, int row, int col, int lane) const {
        const Slice slice = floats_of(sums);
        if (form != ELEMENTS) put_vectors(slice, first, column, row, col, lane);
        else put_elements(slice, first, column, row, col, lane);
    }

    DEVICE void put_vectors(const Slice& slice, i64 first, int column, int row0, int col0, int lane) const {
        const int r = lane / 8, q = lane % 8 * 8;
        const int row = row0 + r, col = col0 + q, rows = min(16 - r, m - row);
        i64 off = first + row * c_m + col;
        if (col >= n) return;
        float v[8], old[8], scale = alpha;
        if (beta != 0.f) {                                   // apart: seldom asked for, and long
            NO_UNROLL for (int e = 0; e < rows; e += 4) {
                slice.get(v, r + e, q);
                Vec<Elem, 8>::load(c + off + e * c_m).get(old);
                UNROLL for (int x = 0; x < 8; ++x) v[x] = alpha * v[x] + beta * old[x];
                slice.set(v, r + e, q);
            }
            scale = 1.f;
        }
        Slice here = slice;                                  // 4 rows at once: the swizzle repeats with them
        NO_UNROLL for (int e = 0; e < rows; e += 4, off += 4 * c_m, here.at += 1024) {
            here.get(v, r, q);
            UNROLL for (int x = 0; x < 8; ++x) v[x] *= scale;
            fuse_epilogue(v, off, column + col);
            Vec<Elem, 8>::of(v).store(c + off);
        }
    }

    DEVICE void put_elements(const Slice& slice, i64 first, int column, int row0, int col0, int lane) const {
        NO_UNROLL for (int e = lane; e < 1024; e += 32) {
            const int r = along_m ? e % 16 : e / 64, q = along_m ? e / 16 : e % 64;
            const int row = row0 + r, col = col0 + q;
            if (row >= m || col >= n) continue;
            const i64 off = first + row * c_m + col * c_n;
            float v[1] = {blend(alpha, slice.get(r, q), beta, c + off)};
            fuse_epilogue(v, off, column + col);
            c[off] = from_acc<Elem>(v[0]);
        }
    }
};

// The threads that bring what TMA cannot: two warpgroups, before and behind those that multiply.
constexpr int BRINGERS = 256;
DEVICE int bringer() { return threadIdx.x < 128 ? threadIdx.x : threadIdx.x - 256; }

// All of them. source.copy(slot): asks for both operands of the next Tile::k of the depth; shift(slot,
// stage): those that were asked for first come to where TMA would have brought them.
template <class Tile, class Source>
DEVICE void wgmma_bring(WgmmaRing<Tile>& ring, int steps, Source& source) {
    constexpr int ahead = Source::ahead_by;
    UNROLL for (int step = 0; step < ahead; ++step) {
        if (step < steps) source.copy(step);
        cp_async_commit();
    }
    NO_UNROLL for (int step = 0, slot = 0; step < steps; ++step, ring.next()) {
        cp_async_wait<ahead - 1>();
        __syncwarp();                                        // the other lanes' have come, too
        barrier_wait(ring.empty + ring.stage, ring.phase ^ 1);           // a new barrier lets it pass
        source.shift(slot, ring.at());
        fence_async();
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(ring.full + ring.stage);
        if (step + ahead < steps) source.copy(slot);
        cp_async_commit();
        if (++slot == ahead) slot = 0;
    }
}

// A tile's sums leave by TMA.
template <class Tile, class Out, class Source>
DEVICE void put_boxes(typename Tile::Sum (&d)[Tile::sums], unsigned char* out, const CUtensorMap& boxes,
                      const Out& to, Source& source, const TileAt& tile, int group) {
    using Elem = typename Out::Elem;
    const int row = tile.row + slice_row<Tile>(group, 0), col = tile.col + slice_col<Tile>(group, 0);
    int at[3];
    source.box(tile.matrix, at);
    if (to.form == BOXES) {
        store_boxes<Elem, Tile>(d, out, boxes, row, col, at, to.alpha, group);
        return;
    }
    const i64 first = source.offset(tile.matrix);
    const int column = source.column(tile.matrix);
    const auto change = [&](auto& v, auto s) {
        if constexpr (Tile::by_warp) to.change(v, first, column, row, col, s);
        else to.change(v, first, column, row, col + 64 * s);
    };
    if (!Tile::by_warp || to.has_rows(row))
        store_changed<Elem, Tile>(d, out, boxes, row, col, at, to.alpha, group, change);
}

// Order: count() tiles, the index-th. Parts: as Depth. Boxes: the map of c, or none. Out: as WgmmaOut with
// all ways out, or put alone.
struct NoBoxes {};

template <class Tile, class A, class B, class Source, class Order, class Parts, class Boxes, class Out>
DEVICE void wgmma_blocks(unsigned char* shared, Source& source, const Order& order, const Parts& depth,
                         const Boxes& boxes, const Out& to) {
    using Walk = typename Parts::template Walk<Order>;
    constexpr int bringers = Source::by_hand ? BRINGERS / 32 : Source::in_pieces ? 4 : 1;    // warps
    WgmmaRing<Tile> ring(shared);
    if constexpr (Source::may_cast) ring.cast = depth.cast;
    if constexpr (Source::in_pieces) source.prepare(ring);
    if (threadIdx.x == 0) source.ahead(), ring.template begin<bringers>();
    if (ring.cast == 1) __syncthreads();
    else __syncwarp(), cluster_arrive(), cluster_wait();     // others count at these barriers, too
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);             // the same for all, known to ptxas

    if (role == 0 || Source::by_hand && role > Tile::groups) {
        registers_give<Source::by_hand ? 88 : Source::in_pieces ? 64 : 40>();
        Walk walk(order, depth);
        if constexpr (Source::by_hand) NO_UNROLL while (walk.more()) {
            source.begin(walk.tile, walk.begin);
            wgmma_bring(ring, walk.steps, source);
        } else {
            if constexpr (Source::may_cast)
                if (ring.cast > 1) source.brings = blockIdx.x % 2 ? SECOND : FIRST;
            if (Source::in_pieces ? threadIdx.x % 32 == 0 : threadIdx.x == 0) NO_UNROLL while (walk.more()) {
                source.begin(walk.tile, walk.begin);
                if constexpr (Source::in_pieces) source.bring(ring, walk.steps);
                else wgmma_produce(ring, walk.steps, [&](int, unsigned char* stage, uint64_t* full) {
                    source.load(stage, full);
                });
            }
        }
        if (ring.cast > 1) __syncwarp(), cluster_arrive(), cluster_wait();
        return;
    }
    registers_take<Source::by_hand ? 168 : Source::in_pieces ? 216 : Tile::registers>();
    const int group = role - 1;
    unsigned char* out = ring.way_out(group);
    constexpr bool adds = Parts::may_stream && !Out::is_matrix;
    StreamSums<Tile> others;
    StreamShares<Tile, Source::by_hand ? 1 : 4> all = {ring.way_out(0), group};
    Walk walk(order, depth);
    NO_UNROLL while (walk.more()) {
        const TileAt tile = walk.tile;
        typename Tile::Sum d[Tile::sums];
        bool is_part = false, begins = false;
        if constexpr (Parts::may_stream) is_part = walk.is_part(), begins = walk.begin == 0;
        // of the same number for all, so all that counts is in uniform registers
        const unsigned what = __shfl_sync(~0u, 4 * walk.steps + 2 * is_part + begins, 0);
        const int steps = what >> 2;
        if constexpr (Out::has_boxes)
            if (to.form == FUSED && to.may_change(tile))
                to.ahead(source.offset(tile.matrix), tile.row + slice_row<Tile>(group, 0),
                         tile.col + slice_col<Tile>(group, 0));
        if constexpr (Source::in_pieces) source.sums(d, ring, walk.begin, steps, group);
        else if (!Parts::may_be_empty || steps > 0) wgmma_sums<Tile, A, B>(d, ring, steps, group);
        if constexpr (Parts::may_stream) if (what & 2) {
            if constexpr (!adds) {
                all.keep(d, depth, what & 1);
                continue;
            }
            if (!(what & 1)) others.keep(d, depth.sums);
            others.tell();
            if (!(what & 1)) continue;
            others.add(d, depth.sums, walk.later(), depth.lanes.by);
        }
        if constexpr (Parts::may_be_empty)                   // chosen, so that no register is copied
            UNROLL for (auto& sum : d) sum = steps > 0 ? sum : 0;
        if constexpr (!Out::is_matrix) {
            to.put(d, ring, group, source.offset(tile.matrix), source.column(tile.matrix), tile, depth);
        } else {
            bool in_boxes = false;
            if constexpr (Out::has_boxes)
                in_boxes = to.goes_in_boxes() && (to.form == BOXES || to.may_change(tile));
            if (in_boxes) {
                if constexpr (Out::has_boxes) put_boxes<Tile>(d, out, boxes, to, source, tile, group);
            } else if (!Tile::by_warp && to.parts) {
                auto* sums = to.parts + (i64(tile.split) * order.batches() + tile.matrix) * to.m * to.n;
                to.put_parts(d, out, group, sums, tile);
            } else {
                if (to.form == FUSED) boxes_leave<Tile>(group);        // those of the tile before
                to.put(d, ring, group, source.offset(tile.matrix), source.column(tile.matrix), tile, depth);
            }
        }
    }
    if constexpr (adds) if (depth.share) others.tell();
    if constexpr (Parts::may_stream && !adds) if (depth.share) {
        boxes_leave<Tile>(group);
        all.add_all(walk, [&](const auto& slice, int row, int col) {
            const TileAt& tile = walk.tile;
            to.write(slice, source.offset(tile.matrix), source.column(tile.matrix), tile.row + row,
                     tile.col + col, all.thread() % 32);
        });
    }
    if (sends_boxes<Tile>()) store_wait_read<0>();    // shared memory goes with the block
    if (ring.cast > 1) __syncwarp(), cluster_arrive(), cluster_wait();       // and that of a cast with both
}

}  // namespace cydnn
