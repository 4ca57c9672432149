// Which products the blocks of the tile program make, one tile after the other.
//
//   Depth         parts of a depth: a block has one of each tile; a cluster shares one
//   Stream        the same, or stream-K: every block has as many steps
//   StreamSums    what a block has of the tiles of others, and what it adds of theirs
//
// Parts::Walk<Order> goes through them: while (walk.more()) … walk.tile, walk.begin, walk.steps.
#pragma once
#include "lib/grid.cuh"
#include "tile/wgmma.cuh"

namespace cydnn {

// Tiles that a block takes one after the other: the next one, where its products begin and how many steps.
template <class Order, class Parts> struct WholeTiles {
    const Order& order;
    const Parts& parts;
    unsigned next;
    TileAt tile = {};
    int begin = 0, steps = 0;

    DEVICE WholeTiles(const Order& order, const Parts& parts)
        : order(order), parts(parts), next(parts.first()) {}
    DEVICE bool more() {
        if (next >= order.count()) return false;
        tile = order[next], begin = parts.begin(tile), steps = parts.steps(tile), next += gridDim.x;
        return true;
    }
};

// Parts of `each` of a depth. The blocks of a cluster, `team` of them, have parts that follow each other, of
// the same tile; then a block takes one tile. cast: as in tile/wgmma.cuh, without teams.
template <class Tile> struct Depth {
    static constexpr bool may_be_empty = false, may_stream = false;
    template <class Order> using Walk = WholeTiles<Order, Depth>;
    int whole, each, team, cast = 1;
    DEVICE int first() const { return team == 1 ? blockIdx.x : blockIdx.x / team; }
    DEVICE int rank() const { return team == 1 ? 0 : blockIdx.x % team; }
    DEVICE int begin(const TileAt& tile) const { return (tile.split * team + rank()) * each; }
    DEVICE int steps(const TileAt& tile) const {
        const int end = min(i64(begin(tile)) + each, i64(whole));
        return (end - begin(tile) + Tile::k - 1) / Tile::k;
    }
};

// The same; or stream-K: blocks take `alone` tiles as a whole, and have `share` each of the `rest` steps of
// the others, one tile's behind the other's. A block has a part of at most one tile that another began, and
// of one that another ends; they lie in `sums`. `lanes` blocks that follow each other go abreast, through
// tiles that do: `rest` is what each lane has. `each_tile`: the steps of a tile, or more, a multiple of
// `share`; then a block has a part of one tile.
template <class Tile> struct Stream : Depth<Tile> {
    static constexpr bool may_stream = true;
    template <class Order> struct Walk;
    typename Tile::Sum* sums;
    int share, alone, rest;
    const FastDiv &each_tile, &lanes;
    DEVICE int all() const { return each_tile.by; }
};

template <class Tile> template <class Order> struct Stream<Tile>::Walk {
    const Order& order;
    const Stream& parts;
    int at;                                      // ~ the next tile; then of the steps of all the others
    TileAt tile = {};
    int begin = 0, steps = 0;

    DEVICE Walk(const Order& order, const Stream& parts) : order(order), parts(parts), at(~parts.first()) {}
    DEVICE void begin_shared() { at = parts.lanes.div(blockIdx.x) * parts.share; }
    DEVICE bool more() {
        unsigned index = unsigned(~at) >> (parts.cast - 1), done = 0, lane;
        const int place = parts.lanes.divmod(blockIdx.x, lane);
        if (at < 0 && int(index) >= parts.alone) at = place * parts.share;
        if (at < 0) at -= gridDim.x;
        else {
            const int left = min((place + 1) * parts.share, parts.rest) - at;
            if (left <= 0) return false;
            index = parts.alone + parts.each_tile.divmod(at, done) * parts.lanes.by + lane;
            const int taken = min(parts.all() - int(done), left);
            begin = done * Tile::k;
            steps = min(taken, (parts.whole - begin + Tile::k - 1) / Tile::k), at += taken;
        }
        tile = order[index];
        if (at < 0) begin = parts.begin(tile), steps = parts.steps(tile);
        return true;
    }
    // Other blocks have some of the tile, too; where its steps begin.
    DEVICE bool is_part() const { return at >= 0 && (begin > 0 || parts.each_tile.mod(at)); }
    DEVICE int from() const { return parts.each_tile.div(at - 1) * parts.all(); }
    // Behind the first steps of a tile: how many blocks have the others.
    DEVICE int later() const {
        return (parts.all() - steps + parts.share - 1) / parts.share;
    }
};

// A warpgroup's part of a tile that belongs to another block, and what others have of its own.
template <class Tile> struct StreamSums {
    using Sum = typename Tile::Sum;
    using Four = typename Several<Sum>::Four;
    static constexpr int at_once = Tile::sums < 32 ? 32 / Tile::sums : 1;
    bool has_told = false;
    unsigned told;

    static DEVICE Four* lies(Sum* sums, int block) {
        return reinterpret_cast<Four*>(sums + i64(block) * Tile::m * Tile::n) + threadIdx.x - 128;
    }
    DEVICE void keep(const Sum (&d)[Tile::sums], Sum* sums) {
        Four* to = lies(sums, blockIdx.x);
        UNROLL for (int i = 0; i < Tile::sums; i += 4) to[i / 4 * 256] = {d[i], d[i + 1], d[i + 2], d[i + 3]};
    }
    // Once in a block: what it keeps lies there.
    DEVICE void tell() {
        if (has_told) return;
        asm volatile("bar.sync 3, 256;" ::: "memory");
        if (threadIdx.x == 128) told = grid_tell();
        has_told = true;
    }
    // Of the `count` blocks behind this one in its lane; those of a few sums come several at once.
    DEVICE void add(Sum (&d)[Tile::sums], Sum* sums, int count, int lanes) {
        if (threadIdx.x == 128) grid_hear(told);
        asm volatile("bar.sync 3, 256;" ::: "memory");
        _Pragma("unroll at_once") for (int b = 1; b <= count; ++b) {
            const Four* from = lies(sums, blockIdx.x + b * lanes);
            UNROLL for (int i = 0; i < Tile::sums; i += 4) {
                const Four v = from[i / 4 * 256];
                d[i] += v.x, d[i + 1] += v.y, d[i + 2] += v.z, d[i + 3] += v.w;
                if (i % 32 == 28) asm volatile("" ::: "memory");         // no more of them on their way
            }
        }
    }
};

}  // namespace cydnn
