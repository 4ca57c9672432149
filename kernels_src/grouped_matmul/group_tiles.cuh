// Products of groups of rows on the tile program of Hopper: which tiles there are is known on the device.
//
//   Intervals        where the rows of groups begin, in shared memory; before them, behind them: of none
//   GroupTiles       an Order: the tiles of one interval after the other
//   GroupDepth       Parts: the whole depth, or none of rows of no group
//   GroupOut         the way out of the rows of one group, each to its place
#pragma once
#include "grouped_matmul/groups.cuh"
#include "tile/wgmma_blocks.cuh"

namespace cydnn {

constexpr int MOST_GROUPS = 440;                 // whose offsets have room beside the stages
constexpr unsigned REST = ~0u;                   // a tile's matrix: only places that no row goes to become 0

// begins[0] is 0, then those of the groups, where the last ends, and how many rows there are.
struct Intervals {
    int begins[MOST_GROUPS + 3];
    // All threads, then a barrier. True to this thread where offsets fall.
    DEVICE bool fill(const Groups& of, int rows) {
        bool falls = false;
        NO_UNROLL for (int i = threadIdx.x; i < of.groups + 3; i += blockDim.x) {
            begins[i] = i == 0 ? 0 : i > of.count || i > of.groups + 1 ? rows : of.at(i - 1, rows);
            falls |= i > 1 && i <= of.count && begins[i] < of.at(i - 2, rows);
        }
        return falls;
    }
    // The same in rising order, as Groups counts them.
    DEVICE void fill_in_order(const Groups& of, int rows) {
        if (!__syncthreads_or(fill(of, rows))) return;
        NO_UNROLL for (int i = threadIdx.x; i < of.count; i += blockDim.x) {
            const int mine = of.at(i, rows);
            int rank = 1, j = 0;
            NO_UNROLL do {
                const int other = of.at(j, rows);
                rank += other < mine || other == mine && j < i;
            } while (++j < of.count);
            begins[rank] = mine;
        }
        __syncthreads();
    }
};

// Of an interval's tiles a band of `rows` rows goes together, down and then to the right. `band`: its tiles.
template <class Tile> struct GroupTiles {
    const int* begins;
    int groups, m, has_rest;                     // has_rest: behind all others all rows once more
    const FastDiv &experts, &band;
    int rows;
    DEVICE unsigned columns() const { return band.by / rows; }
};

struct GroupDepth {
    static constexpr bool may_be_empty = true, may_stream = false;
    int all;                                     // steps
    template <class Order> struct Walk;
};

template <class Order> struct GroupDepth::Walk {
    const Order& order;
    const GroupDepth& parts;
    unsigned next, first = 0, tiles = 0;         // a tile; of the interval the first, and how many
    int interval = -1, row = 0, end = 0;
    TileAt tile = {};
    int begin = 0, steps = 0;

    DEVICE Walk(const Order& order, const GroupDepth& parts) : order(order), parts(parts), next(blockIdx.x) {}
    template <class Tile> static DEVICE int height(const GroupTiles<Tile>&) { return Tile::m; }
    template <class Tile> static DEVICE int width(const GroupTiles<Tile>&) { return Tile::n; }
    DEVICE bool more() {
        const int high = height(order), groups = order.groups;
        const unsigned columns = order.columns();
        while (next - first >= tiles) {
            first += tiles;
            if (++interval > groups + 1 + order.has_rest) return false;
            const bool is_rest = interval > groups + 1;
            row = is_rest ? 0 : order.begins[interval], end = is_rest ? order.m : order.begins[interval + 1];
            tiles = ceil_div(max(end - row, 0), high) * columns;
        }
        unsigned in_band, expert;
        const int top = order.band.divmod(next - first, in_band) * order.rows;
        const unsigned rows = min(order.rows, ceil_div(end - row, high) - top), column = in_band / rows;
        order.experts.divmod(max(interval - 1, 0), expert);
        const int at = row + (top + int(in_band - column * rows)) * high;
        tile = {at, int(column) * width(order), expert, unsigned(end)};
        if (interval > groups + 1) tile.matrix = REST;
        steps = interval > 0 && interval <= groups ? parts.all : 0, next += gridDim.x;
        return true;
    }
};

// Places of rows: index and slot of groups that are scattered, rows_of where to; else null.
struct Places {
    const int *rows_of, *index, *slot;
    i64 index_step, slot_step;
    int top_k, m;
    // -1: nowhere.
    DEVICE int of(int row, int end, bool is_rest) const {
        if (row >= end) return -1;
        if (is_rest) return rows_of[row] == 0 ? row : -1;
        if (!rows_of) return row;
        const int place = place_of(index[row * index_step], slot[row * slot_step], top_k, m);
        return place >= 0 && rows_of[place] == row + 1 ? place : -1;
    }
};

template <class Tile, class T> struct GroupOut {
    static constexpr bool is_matrix = false, has_boxes = false;
    T* y;
    int n, form, along_m;
    i64 y_m, y_n;
    Places places;

    // tile.split: the row behind the group's last.
    DEVICE void put(const float (&d)[Tile::sums], const WgmmaRing<Tile>& ring, int group, i64, int,
                    const TileAt& tile, const GroupDepth&) const {
        const bool is_rest = tile.matrix == REST;
        store_rows<Tile>(d, ring.way_out(group), group, [&](const Slice& slice, int row, int col) {
            const int first = tile.row + row, end = tile.split;
            if (form == ROWS) put_vectors(slice, first, tile.col + col, end, is_rest);
            else put_elements(slice, first, tile.col + col, end, is_rest);
        });
    }
    DEVICE void put_vectors(const Slice& slice, int row, int col, int end, bool is_rest) const {
        const int lane = threadIdx.x % 32, q = lane % 8 * 8;
        if (col + q >= n) return;
        NO_UNROLL for (int r = lane / 8; r < 16; r += 4) {
            const int place = places.of(row + r, end, is_rest);
            if (place < 0) continue;
            const i64 off = place * y_m + col + q;
            float v[8];
            slice.get(v, r, q);
            fuse_epilogue(v, off, col + q);
            Vec<T, 8>::of(v).store_stream(y + off);
        }
    }
    DEVICE void put_elements(const Slice& slice, int row, int col, int end, bool is_rest) const {
        NO_UNROLL for (int e = threadIdx.x % 32; e < 1024; e += 32) {
            const int r = along_m ? e % 16 : e / 64, q = along_m ? e / 16 : e % 64;
            const int place = places.of(row + r, end, is_rest);
            if (place < 0 || col + q >= n) continue;
            const i64 off = place * y_m + (col + q) * y_n;
            float v[1] = {slice.get(r, q)};
            fuse_epilogue(v, off, col + q);
            y[off] = from_acc<T>(v[0]);
        }
    }
};

}  // namespace cydnn
