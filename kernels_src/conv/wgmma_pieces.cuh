// The Source of tile/wgmma_blocks.cuh for images whose channels are no whole lines: what is left of a tap
// behind its last whole line comes in pieces of 32, 16 or 8 channels, and a step has those of several taps.
//
//   section   channels of a piece   pieces of a step   in shared memory
//   0         64                    1                  a line, as in tile/wgmma.cuh
//   1         32                    2                  rows of 64 bytes, TMA's swizzle of 64 bytes
//   2         16                    4                  rows of 32 bytes, swizzle of 32 bytes
//   3          8                    8                  rows of 16 bytes: a product has two pieces
//
// Sections follow each other; `ends` are the steps up to each one's end, `starts` its first channel. The taps
// of a section follow each other, of section 0 for each line. What lies behind the last tap is not multiplied
// (16 of the depth each) or zeros (beside a last piece of 8, from outside of both tensors). Filters lie as
// pixels do, in boxes of `filter_rows`, of which as many come as hold filters.
#pragma once
#include "wgmma_windows.cuh"

namespace cydnn {

template <class Tile> struct Pieces : Windows<Tile, bk> {
    using Base = Windows<Tile, bk>;
    static constexpr bool in_pieces = true;
    static constexpr int sections = 4;
    const CUtensorMap &x32, &x16, &x8, &w32, &w16, &w8;
    const Array<int, sections>&ends, &starts;
    int filter_rows, step = 0, section = 0, boxes = 0;   // of filters, of a tile

    // Of four, without a copy in local memory.
    static DEVICE int at_of(const Array<int, sections>& of, int section) {
        return section < 2 ? section == 0 ? of[0] : of[1] : section == 2 ? of[2] : of[3];
    }
    DEVICE int all_taps() const { return this->taps[0].by * this->taps[1].by * this->taps[2].by; }
    DEVICE int section_of(int at) const { return (at >= ends[0]) + (at >= ends[1]) + (at >= ends[2]); }
    DEVICE int begin_of(int section) const { return section ? at_of(ends, section - 1) : 0; }

    // ---- All threads, then a barrier: zeros where no filter comes to columns ----

    DEVICE int boxes_at(int column) const {
        return (min(Tile::n, this->columns - column) + filter_rows - 1) / filter_rows;
    }
    DEVICE void prepare(const WgmmaRing<Tile>& ring) const {
        constexpr int chunks = Tile::n * LINE / CHUNK;
        if (boxes_at((this->columns - 1) / Tile::n * Tile::n) * filter_rows == Tile::n) return;
        NO_UNROLL for (int i = threadIdx.x; i < Tile::stages * chunks; i += Tile::threads)
            reinterpret_cast<uint4*>(ring.stages + i / chunks * Tile::stage_bytes + Tile::a_bytes)
                [i % chunks] = uint4{};
        fence_async();
    }

    // ---- A thread of each of four warps: what a stage gets ----

    DEVICE void begin(const TileAt& tile, int depth) {
        Base::begin(tile, 0);
        step = depth / Tile::k, section = section_of(step);
        boxes = boxes_at(tile.col);
        unsigned rest = (step - begin_of(section)) << section, digit;
        UNROLL for (int d = 2; d >= 0; --d) rest = this->taps[d].divmod(rest, digit), this->tap[d] = digit;
        this->chunk = section ? at_of(starts, section) : rest * Tile::k;
    }
    DEVICE const CUtensorMap& map(bool of_filters) const {
        if (of_filters) return section < 2 ? section == 0 ? this->w : w32 : section == 2 ? w16 : w8;
        return section < 2 ? section == 0 ? this->x : x32 : section == 2 ? x16 : x8;
    }
    DEVICE void filters(unsigned char* to, const CUtensorMap& map, int channel, uint64_t* full) const {
        int of[3];
        this->filter_tap(of);
        NO_UNROLL for (int box = 0, row = this->w_row; box < boxes; ++box, row += filter_rows) {
            tensor_load(to, map, {channel, row, of[0], of[1], of[2]}, full);
            to += filter_rows * (LINE >> section);
        }
    }
    // Of four warps two bring pixels and two filters, each every second piece.
    DEVICE void bring(WgmmaRing<Tile>& ring, int steps) {
        const int stripe = threadIdx.x / 64;
        const bool of_filters = threadIdx.x / 32 & 1;
        NO_UNROLL while (steps > 0) {
            const int count = min(steps, at_of(ends, section) - step), width = LINE >> section;
            const int each = (of_filters ? Tile::n : Tile::m) * width;           // from a piece to the next
            const int bytes = of_filters ? boxes * filter_rows * width : each;
            const CUtensorMap& from = map(of_filters);
            int left = section ? all_taps() - ((step - begin_of(section)) << section) : 1 << 30;
            steps -= count, step += count;
            NO_UNROLL for (int i = 0; i < count; ++i, left -= 1 << section, ring.next()) {
                const int pieces = min(1 << section, left), loads = section < 3 ? pieces : (pieces + 1) & ~1;
                unsigned char* to = ring.at() + (of_filters ? Tile::a_bytes : 0) + stripe * each;
                uint64_t* full = ring.full + ring.stage;
                barrier_wait(ring.empty + ring.stage, ring.phase ^ 1);   // a new barrier lets it pass
                if (loads > stripe) barrier_expect(full, (loads + 1 - stripe) / 2 * bytes);
                else barrier_arrive(full);
                NO_UNROLL for (int piece = 0; piece < loads; ++piece) {
                    const int channel = piece < pieces ? this->chunk : this->channels;
                    if (piece % 2 == stripe) {
                        if (of_filters) filters(to, from, channel, full);
                        else this->pixels(to, from, channel, full);
                        to += 2 * each;
                    }
                    if (piece < pieces) this->next();
                }
            }
            if (steps == 0) return;
            section = section_of(step), this->chunk = at_of(starts, section);
            this->tap[0] = this->tap[1] = this->tap[2] = 0;
        }
    }

    // ---- A warpgroup: its products ----

    // How pieces of `rows` rows lie: a descriptor's halves without an address, and in units of 16 bytes how
    // far each 16 of the depth lies from those before, and each second.
    struct Lies {
        static constexpr int transposed = 0;
        unsigned low, high;
        int next, second;
        unsigned part;                                   // of a stage: where the group's begins
        // Behind the 18 bits of an address lies the rank of the block in its cluster.
        DEVICE unsigned at(unsigned stage) const { return low | (stage + part & 0x3FFFF) >> 4; }
        DEVICE uint64_t product(unsigned at, int kk) const {
            return uint64_t(high) << 32 | (at + kk % 2 * next + kk / 2 * second);
        }
    };
    static DEVICE Lies lies(int section, int rows, unsigned part) {
        const int width = LINE >> section, leading = section == 3 ? rows * CHUNK : CHUNK;
        return {unsigned(leading >> 4 << 16), unsigned(8 * width >> 4 | (section + 1 & 3) << 30),
                section < 2 ? 2 : rows * 2, section == 0 ? 4 : rows * 4, part};
    }
    DEVICE void sums(typename Tile::Sum (&d)[Tile::sums], WgmmaRing<Tile>& ring, int depth, int steps,
                     int group) const {
        const int taps = all_taps();
        int at = __shfl_sync(~0u, depth, 0) / Tile::k, left = steps;     // the same for all, known to ptxas
        NO_UNROLL while (left > 0) {
            const int section = section_of(at), end = at_of(ends, section), width = LINE >> section;
            const int count = min(left, end - at), behind = taps - (end - begin_of(section) - 1 << section);
            const int last = section ? ((behind << 6 >> section) + 15) / 16 : Tile::Elem::products;
            const unsigned a_part = Tile::groups_m > 1 ? group * 64 * width : 0;
            const unsigned b_part = Tile::a_bytes + (Tile::groups_m > 1 ? 0 : group * Tile::group_n * width);
            const Lies a = lies(section, Tile::m, a_part), b = lies(section, Tile::n, b_part);
            const bool is_cut = at + count == end && last < Tile::Elem::products;
            if (count > is_cut) wgmma_steps<4>(d, ring, count - is_cut, a, b, left < steps);
            if (is_cut) {
                const bool keep = left < steps || count > 1;
                if (last == 1) wgmma_steps<1>(d, ring, 1, a, b, keep);
                else if (last == 2) wgmma_steps<2>(d, ring, 1, a, b, keep);
                else wgmma_steps<3>(d, ring, 1, a, b, keep);
            }
            at += count, left -= count;
        }
    }
};
}  // namespace cydnn
