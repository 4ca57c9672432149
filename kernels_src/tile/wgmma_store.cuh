// The ways out of sums of tile/wgmma.cuh, by slices of 64 columns through 16 KB of shared memory a
// warpgroup, while the next tile's stages come in.
//
//   store_boxes      16-bit elements, stmatrix and TMA: what lies outside is dropped
//   store_changed    the same behind a function of 32 sums
//   store_rows       as they are; a warp hands its 16 rows x 64 columns to a function, which reads 8 or 1
//                    neighbours (and may put 8 back)
//   store_added      the same for sums that the blocks of a cluster add up: each takes a share of the slices
#pragma once
#include "lib/cluster.cuh"
#include "lib/epilogue.cuh"
#include "lib/math.cuh"
#include "tile/wgmma.cuh"

namespace cydnn {

// Marks beside those of lib/epilogue.cuh, for the same program:
//   fuse_pairs(v, off, col);       // @fuse.pairs v=%f1,%f2 off=%rd7 col=%r9;
//       where the program stores nothing itself; what is behind it the kernel stores as it likes
//   fuse_pairs<8>(v, off, col);    // @fuse.pairs v=%f1,%f2 off=%rd7 col=%r9 plus=8;
//       the same for what lies 8 elements behind off and col, so that many marks share an address
//   fuse_ahead(off);               // @fuse.ahead off=%rd7;
//       64 elements of the output from `off` on are computed soon: what is read of tensors with the same
//       layout comes to the L2 cache
DEVICE void fuse_pairs(float& a, float& b, i64 off, int col) {
    asm volatile("// @fuse.pairs v=%0,%1 off=%2 col=%3;" : "+f"(a), "+f"(b) : "l"(off), "r"(col));
}
template <int Plus> DEVICE void fuse_pairs(float& a, float& b, i64 off, int col) {
    asm volatile("// @fuse.pairs v=%0,%1 off=%2 col=%3 plus=%4;"
                 : "+f"(a), "+f"(b) : "l"(off), "r"(col), "n"(Plus));
}
DEVICE void fuse_ahead(i64 off) { asm volatile("// @fuse.ahead off=%0;" :: "l"(off)); }

DEVICE void group_barrier(int group) { asm volatile("bar.sync %0, 128;" :: "r"(group + 1) : "memory"); }

// The thread that sends boxes, and waits for them before it leaves: one of a warpgroup, whose boxes have 64
// rows, or one of a warp, whose boxes have 16, so that no warp waits for others.
template <class Tile> DEVICE bool sends_boxes() {
    return Tile::by_warp ? threadIdx.x % 32 == 0 : threadIdx.x % 128 == 96;
}
template <class Tile> DEVICE void boxes_barrier(int group) {
    if constexpr (Tile::by_warp) __syncwarp();
    else group_barrier(group);
}

// body(Int<From>), …, body(Int<End - 1>).
template <int Value> struct Int { static constexpr int value = Value; };
template <int From, int End, class Body> DEVICE void each(Body body) {
    if constexpr (From < End) body(Int<From>()), each<From + 1, End>(body);
}

// A warpgroup or a warp: all its boxes have been read.
template <class Tile> DEVICE void boxes_leave(int group) {
    if (sends_boxes<Tile>()) store_wait_read<0>();
    boxes_barrier<Tile>(group);
}

// Before the boxes of a tile: of an odd number the first lies where the last of the tile before does.
template <class Tile> DEVICE void boxes_begin() {
    if constexpr (Tile::group_n / 64 % Tile::boxes) if (sends_boxes<Tile>()) store_wait_read<0>();
}

// Boxes are in turn on their way. A warp's lie where its rows are (store_rows).
template <class Tile> DEVICE unsigned char* box_of(unsigned char* out, int s) {
    const int warp = threadIdx.x / 32 % 4;
    if constexpr (Tile::by_warp) return out + warp * Tile::warp_bytes + s % Tile::boxes * (PART / 4);
    else return out + s % Tile::boxes * PART;
}

// The address of a row's 16-byte chunk in a box of 64 rows of a line, as TMA reads it with its swizzle.
DEVICE unsigned box_chunk(unsigned box, int row, int chunk) {
    return box + row * LINE + ((chunk ^ (row & 7)) << 4);
}

// 64 columns come to a box, which the thread that sends may send. part(v, j): the j-th 16 of them.
template <class Elem, class Tile, class Part>
DEVICE void fill_box(unsigned char* box, int group, Part part) {
    static_assert(sizeof(Elem) == 2, "a box has lines of 64 columns; stmatrix stores 16 bits");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = (Tile::by_warp ? 0 : 16 * warp) + lane % 16;
    if (sends_boxes<Tile>()) store_wait_read<Tile::boxes - 1>();
    boxes_barrier<Tile>(group);
    each<0, 4>([&](auto j) {                                 // 16 columns, 16 rows: four matrices of 8 x 8
        float v[8];
        part(v, j);
        alignas(4) Elem pairs[4][2];
        UNROLL for (int i = 0; i < 4; ++i) from_acc2(pairs[i], v[2 * i], v[2 * i + 1]);
        unsigned r[4];
        UNROLL for (int i = 0; i < 4; ++i) r[i] = *reinterpret_cast<unsigned*>(pairs[i]);
        stmatrix_x4(box_chunk(shared_address(box), row, 2 * j.value + lane / 16), r);
    });
    fence_async();
    boxes_barrier<Tile>(group);
}
// Of alpha * v.
template <class Elem, class Tile, class Sum>
DEVICE void fill_box(const Sum* v, float alpha, unsigned char* box, int group) {
    fill_box<Elem, Tile>(box, group, [&](float (&to)[8], auto j) {
        UNROLL for (int x = 0; x < 8; ++x) to[x] = alpha * v[8 * j.value + x];
    });
}

// To the box of the map at (col, row), or a warp's at its rows from there on.
template <class Tile>
DEVICE void send_box(unsigned char* box, const CUtensorMap& y, int row, int col, const int (&batch)[3]) {
    if (sends_boxes<Tile>()) {
        const int mine = Tile::by_warp ? threadIdx.x / 32 % 4 * 16 : 0;
        tensor_store(y, {col, row + mine, batch[0], batch[1], batch[2]}, box);
        store_commit();
    }
}

// alpha * sums: send(s, box) for the s-th 64 columns.
template <class Elem, class Tile, class Send>
DEVICE void store_boxes(const typename Tile::Sum (&d)[Tile::sums], unsigned char* out, float alpha, int group,
                        Send send) {
    boxes_begin<Tile>();
    UNROLL for (int s = 0; s < Tile::group_n / 64; ++s) {
        unsigned char* box = box_of<Tile>(out, s);
        fill_box<Elem, Tile>(d + 32 * s, alpha, box, group);
        if (sends_boxes<Tile>()) {
            send(s, box);
            store_commit();
        }
    }
}

// To the boxes from (col, row) of the map on.
template <class Elem, class Tile>
DEVICE void store_boxes(const typename Tile::Sum (&d)[Tile::sums], unsigned char* out, const CUtensorMap& y,
                        int row, int col, const int (&batch)[3], float alpha, int group) {
    boxes_begin<Tile>();
    UNROLL for (int s = 0; s < Tile::group_n / 64; ++s) {
        fill_box<Elem, Tile>(d + 32 * s, alpha, box_of<Tile>(out, s), group);
        send_box<Tile>(box_of<Tile>(out, s), y, row, col + 64 * s, batch);
    }
}

// Sums that are floats become alpha times as much; by what they are still to be multiplied.
template <int Count> DEVICE float scaled(float (&d)[Count], float alpha) {
    if (alpha != 1.f) UNROLL for (float& sum : d) sum *= alpha;
    return 1.f;
}
template <class Sum, int Count> DEVICE float scaled(Sum (&)[Count], float alpha) { return alpha; }

// change(v, s): what alpha * sums become, the columns from 64 s on. One copy of it for all of them; by warps,
// where registers are few, one for 8 sums (s is an Int): the columns from 16 s on.
template <class Elem, class Tile, class Change>
DEVICE void store_changed(typename Tile::Sum (&d)[Tile::sums], unsigned char* out, const CUtensorMap& y,
                          int row, int col, const int (&batch)[3], float alpha, int group, Change change) {
    constexpr int slices = Tile::group_n / 64;
    boxes_begin<Tile>();
    if constexpr (Tile::by_warp) {
        const float by = scaled(d, alpha);
        each<0, slices>([&](auto s) {
            unsigned char* box = box_of<Tile>(out, s.value);
            fill_box<Elem, Tile>(box, group, [&](float (&v)[8], auto j) {
                UNROLL for (int x = 0; x < 8; ++x) v[x] = by * d[32 * s.value + 8 * j.value + x];
                change(v, Int<4 * s.value + j.value>());
            });
            send_box<Tile>(box, y, row, col + 64 * s.value, batch);
        });
    } else NO_UNROLL for (int s = 0; s < slices; ++s) {
        float v[32];
        asm volatile("" : "+f"(alpha));                      // or all products move in front of the loop
        UNROLL for (int i = 0; i < slices; ++i)
            if (i == s) UNROLL for (int x = 0; x < 32; ++x) v[x] = alpha * d[32 * i + x];
        change(v, s);
        fill_box<Elem, Tile>(v, 1.f, box_of<Tile>(out, s), group);
        send_box<Tile>(box_of<Tile>(out, s), y, row, col + 64 * s, batch);
    }
}

// 16 rows of 64 sums of a warp. The 32-byte unit u of row r lies at place u ^ (r & 3), and in the units
// from 4 on the two chunks change places: the 8-byte stores of half a warp (4 rows, 4 lanes each) and the
// 16-byte loads of 8 lanes (8 units of a row) meet all 32 banks once.
template <class Sum> struct SliceOf {
    using Two = typename Several<Sum>::Two;
    using Four = typename Several<Sum>::Four;
    unsigned char* at;
    DEVICE Sum* chunk(int row, int chunk) const {
        return reinterpret_cast<Sum*>(at + row * 256 + ((chunk ^ (chunk >> 3) ^ ((row & 3) << 1)) << 4));
    }
    // A warp's 32 sums of each lane, as wgmma has them: block of 8 columns, upper or lower half.
    DEVICE Two& pair(int i, int lane) const {
        const int row = lane / 4 + i % 2 * 8, col = i / 2 * 8 + lane % 4 * 2;
        return *reinterpret_cast<Two*>(chunk(row, col / 4) + col % 4);
    }
    template <class Value> DEVICE void put(const Value* d, int lane) const {
        UNROLL for (int i = 0; i < 16; ++i) pair(i, lane) = {Sum(d[2 * i]), Sum(d[2 * i + 1])};
    }
    DEVICE void add(Sum* d, int lane) const {
        UNROLL for (int i = 0; i < 16; ++i) {
            const Two two = pair(i, lane);
            d[2 * i] += two.x, d[2 * i + 1] += two.y;
        }
    }
    DEVICE void get(Sum (&v)[8], int row, int col) const {
        UNROLL for (int half = 0; half < 2; ++half) {
            const Four four = *reinterpret_cast<const Four*>(chunk(row, col / 4 + half));
            Sum* to = v + 4 * half;
            to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
        }
    }
    DEVICE void set(const Sum (&v)[8], int row, int col) const {
        UNROLL for (int half = 0; half < 2; ++half) {
            const Sum* from = v + 4 * half;
            *reinterpret_cast<Four*>(chunk(row, col / 4 + half)) = {from[0], from[1], from[2], from[3]};
        }
    }
    DEVICE Sum get(int row, int col) const { return chunk(row, col / 4)[col % 4]; }
};

// What is scaled and fused: floats. A warp's sums of another type become floats where they lie.
using Slice = SliceOf<float>;
DEVICE Slice floats_of(const Slice& slice) { return slice; }
template <class Sum> DEVICE Slice floats_of(const SliceOf<Sum>& slice) {
    NO_UNROLL for (int e = threadIdx.x % 32; e < 1024; e += 32) {
        Sum* at = slice.chunk(e / 64, e % 64 / 4) + e % 4;
        *reinterpret_cast<float*>(at) = float(*at);
    }
    __syncwarp();
    return {slice.at};
}

// Where slice s of a warp of a group lies in the tile.
template <class Tile> DEVICE int slice_row(int group, int warp) {
    return (Tile::groups_m > 1 ? 64 * group : 0) + 16 * warp;
}
template <class Tile> DEVICE int slice_col(int group, int s) {
    return (Tile::groups_m > 1 ? 0 : group * Tile::group_n) + 64 * s;
}

// write(slice, row, col): stores what the slice, a SliceOf<Tile::Sum>, has for the tile's rows from `row`,
// columns from `col` on.
template <class Tile, class Write>
DEVICE void store_rows(const typename Tile::Sum (&d)[Tile::sums], unsigned char* out, int group,
                       Write write) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const SliceOf<typename Tile::Sum> slice = {out + warp * (SLICE / 4)};
    const auto store = [&](int s) {
        __syncwarp();                                        // what was there has been read
        UNROLL for (int i = 0; i < Tile::group_n / 64; ++i)
            if (i == s) slice.put(d + 32 * i, lane);
        __syncwarp();
        write(slice, slice_row<Tile>(group, warp), slice_col<Tile>(group, s));
    };
    constexpr int slices = Tile::group_n / 64;
    if constexpr (Tile::sums < 128) NO_UNROLL for (int s = 0; s < slices; ++s) store(s);
    else UNROLL for (int s = 0; s < slices; ++s) store(s);           // or ptxas spills
}

// Every block of the cluster has sums of the same tile, of another part of the depth. They lie where its
// stages were, which nobody needs any more; block `rank` adds every team-th slice, in the order of the ranks.
template <class Tile, class Write>
DEVICE void store_added(const typename Tile::Sum (&d)[Tile::sums], unsigned char* stages, unsigned char* out,
                        int group, int team, int rank, Write write) {
    using Sums = SliceOf<typename Tile::Sum>;
    using Four = typename Sums::Four;
    constexpr int slices = Tile::group_n / 64, each = SLICE / 4;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    static_assert(2 * slices * SLICE <= Tile::stages * Tile::stage_bytes);
    asm volatile("bar.sync 3, 256;" ::: "memory");           // both groups have read all stages
    UNROLL for (int s = 0; s < slices; ++s)
        Sums{stages + ((group * slices + s) * 4 + warp) * each}.put(d + 32 * s, lane);
    cluster_arrive();
    cluster_wait();
    const Sums mine = {out + warp * each};
    NO_UNROLL for (int i = (group * 4 + warp) * team + rank; i < 8 * slices; i += 8 * team) {
        const unsigned from = shared_address(stages + i * each) + 16 * lane;
        __syncwarp();                                        // what was there has been read
        UNROLL for (int half = 0; half < 2; ++half) {
            Four v[4] = {};
            NO_UNROLL for (int b = 0; b < team; ++b)
                UNROLL for (int e = 0; e < 4; ++e) {
                    const Four w = Several<typename Tile::Sum>::of(
                        cluster_read4(from + (4 * half + e) * 512, b));
                    v[e].x += w.x, v[e].y += w.y, v[e].z += w.z, v[e].w += w.w;
                }
            UNROLL for (int e = 0; e < 4; ++e)
                *reinterpret_cast<Four*>(mine.at + (4 * half + e) * 512 + 16 * lane) = v[e];
        }
        __syncwarp();
        write(mine, slice_row<Tile>(i / 4 / slices, i % 4), slice_col<Tile>(i / 4 / slices, i / 4 % slices));
    }
    cluster_arrive();                                        // others may still read
    cluster_wait();
}

}  // namespace cydnn
