// Rows of an image of few channels in shared memory, where wgmma reads overlapping windows: what the first
// layers of a network share.
//
// An operand without swizzle is made of cores, 8 rows of 16 bytes that follow each other. So where output q
// of a row reads from byte 16 q on, a descriptor (plain_panel) that begins at a row of the image has the
// windows of 64 outputs as its rows, and nobody copies them: K-major with 16 bytes to the next 8 of the depth
// and 128 to the next 8 windows, MN-major (the depth are windows) the other way round.
//
//   chunk    16 bytes: 8 / lanes pixels of 1, 2, 4 or 8 lanes of 16 bits; channels that are not there are 0
//   line     one row of the image, from the first pixel that the strip's first output reads on: its chunks in
//            `step` parts, step = chunks from the window of an output to that of the next. Chunk j lies in
//            part j % step at place j / step, so window q begins 16 q bytes behind window 0 in every part.
//            step is 1 or even. Places that no window of the strip needs are 0 (FirstImage::clear).
//   rest     a part behind the others, where a window ends inside a chunk (kept < 8): its last chunk, all but
//            the first `kept` elements 0. Place q is of window q. So 0 is never multiplied by a pixel that is
//            no tap, which may be infinite.
//
//   place    0      1      2      3          3 channels in 4 lanes, stride 2, 7 taps, pad 3 (step 1, kept 4)
//   part 0   p0 p1  p2 p3  p4 p5  p6 p7 ...  window q: places q to q + 3; its pixels p(2q) to p(2q + 6)
//   rest     p6 0   p8 0   ...               p0 is pixel -3, which is 0, as are pixels behind the last
//
// Rows of y are counted (image, strip, row), the last fastest; a block takes neighbours in this order. Lines
// stay in a ring while rows need them (FirstWalk), so a row that follows another brings stride_h lines.
// Warps bring lines in turn and arrive at the barrier of the row, whether they had one or not.
#pragma once
#include "lib/hopper.cuh"

namespace cydnn {

// PTX ISA §wgmma, matrix descriptor: no swizzle. leading, stride: bytes to the next core in the depth and
// across (K-major), or the other way round (MN-major).
DEVICE uint64_t plain_panel(unsigned address, unsigned leading, unsigned stride) {
    return uint64_t((address & 0x3FFFF) >> 4) | uint64_t((leading & 0x3FFFF) >> 4) << 16
         | uint64_t((stride & 0x3FFFF) >> 4) << 32;
}

// Lanes are counted, shifted and masked as halves of words.
template <class Type> DEVICE const unsigned short* first_lanes(const Type* x) {
    static_assert(MmaElem<Type>::bytes == 2, "a word of a chunk has two lanes");
    return reinterpret_cast<const unsigned short*>(x);
}

constexpr int FILLERS = 8, ROW_EVENTS = 16;      // warps that bring lines; rows of y on their way at most

struct FirstImage {
    const unsigned short* x;                     // f16 or bf16, channels innermost
    i64 x_n, x_h;
    int x_w, height, width, channels, lanes_log, stride_h, stride_w, top, left;  // top, left: padding
    int strip;                                   // outputs of a row of y that go together
    int step, places, part_bytes;                // places: of a part, those that windows need
    int last_part, last_place, kept;             // of window 0: where its last chunk lies

    DEVICE int line_bytes() const { return part_bytes * (step + (kept < 8)); }
    DEVICE unsigned rest() const { return part_bytes * step; }

    // Where chunk t of window 0 lies in a line.
    DEVICE unsigned chunk(int t) const {
        if (kept < 8 && t == last_place * step + last_part) return rest();
        return t % step * part_bytes + t / step * 16;
    }
    // All threads of the block; then fence_async() and a barrier.
    static DEVICE void clear(unsigned char* lines, int bytes) {
        for (int i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16)
            *reinterpret_cast<uint4*>(lines + i) = {};
    }

    // A warp: row `h` of image n, of the at-th strip; what is outside the image is 0.
    // ready(): waits until the line may be written.
    template <class Ready> DEVICE void fill(unsigned char* line, int n, int h, int at, Ready ready) const {
        const unsigned short* row = x + n * x_n + h * x_h;
        const bool inside = unsigned(h) < unsigned(height), packs = lanes_log == 2 && channels == 3;
        const bool copies = lanes_log == 3 || channels == 1 << lanes_log;
        const bool in_words = !(reinterpret_cast<uintptr_t>(row) & 2) && width * channels % 2 == 0;
        const int first = at * strip * stride_w - left;
        if (x_w == channels && in_words && (copies || packs))
            fill_from<true>(line, row, first, inside ? width * channels : 0, ready);
        else fill_from<false>(line, row, first, inside ? width : 0, ready);
    }

private:
    // A row from pixel `first` on, of which the first `size` elements (Dense) or pixels are in the image.
    template <bool Dense, class Ready>
    DEVICE void fill_from(unsigned char* line, const unsigned short* row, int first, int size,
                          Ready ready) const {
        constexpr int BATCH = 4;                 // loads on their way: BATCH chunks of a thread
        const int lane = threadIdx.x % 32;
        int part = 0, from = 0;
        bool waits = true;
        while (part < step) {
            unsigned w[BATCH][5], odd[BATCH];
            int put_part[BATCH], put_place[BATCH];
            UNROLL for (int b = 0; b < BATCH; ++b) {
                const int place = from + lane, pixel = first + ((place * step + part) << 3 - lanes_log);
                put_part[b] = part, put_place[b] = part < step && place < places ? place : -1;
                const unsigned most = put_place[b] >= 0 ? size : 0;
                if constexpr (Dense) words(w[b], odd[b], row, pixel * channels, most);
                else elements(w[b], row, pixel, most);
                if ((from += 32) >= places) from = 0, ++part;
            }
            if (waits) ready();
            waits = false;
            UNROLL for (int b = 0; b < BATCH; ++b) {
                if (put_place[b] < 0) continue;
                if constexpr (Dense) spread(w[b], odd[b]);
                put(line + put_part[b] * part_bytes + put_place[b] * 16, w[b]);
                const int window = put_place[b] - last_place;
                if (kept == 8 || put_part[b] != last_part || window < 0) continue;
                keep(w[b], kept);
                put(line + rest() + window * 16, w[b]);
            }
        }
    }
    static DEVICE void put(unsigned char* to, const unsigned (&w)[5]) {
        *reinterpret_cast<uint4*>(to) = {w[0], w[1], w[2], w[3]};
    }
    static DEVICE void keep(unsigned (&w)[5], int count) {
        UNROLL for (int i = 0; i < 4; ++i) w[i] &= 2 * i + 1 < count ? ~0u : 2 * i < count ? 0xFFFFu : 0u;
    }
    // The chunk of a pixel, one element at a time.
    DEVICE void elements(unsigned (&w)[5], const unsigned short* row, int pixel, unsigned most) const {
        unsigned e[8];
        UNROLL for (int i = 0; i < 8; ++i) {
            const int p = pixel + (i >> lanes_log), c = i & (1 << lanes_log) - 1;
            e[i] = c < channels && unsigned(p) < most ? __ldg(row + p * x_w + c) : 0;
        }
        UNROLL for (int i = 0; i < 4; ++i) w[i] = e[2 * i] | e[2 * i + 1] << 16;
    }
    // The words with the elements of a chunk, which begin at element `at` of a row, the odd-th of the first.
    DEVICE void words(unsigned (&w)[5], unsigned& odd, const unsigned short* row, int at,
                      unsigned most) const {
        const int count = channels << 3 - lanes_log;
        odd = at & 1, at -= odd;
        UNROLL for (int i = 0; i < 5; ++i) {
            const bool is = 2 * i < count + int(odd) && unsigned(at + 2 * i) < most;
            w[i] = is ? __ldg(reinterpret_cast<const unsigned*>(row + at + 2 * i)) : 0;
        }
    }
    // The chunk that these words hold.
    DEVICE void spread(unsigned (&w)[5], unsigned odd) const {
        UNROLL for (int i = 0; i < 4; ++i) w[i] = __funnelshift_r(w[i], w[i + 1], 16 * odd);
        if (lanes_log == 2 && channels == 3)
            w[3] = w[2] >> 16, w[2] = w[1] >> 16 | w[2] << 16, w[1] &= 0xFFFF;
        else if (lanes_log == 3) keep(w, channels);
    }
};

// A block's way through rows of y, and which lines it needs: `span` for a row, of which the last `lines` are
// new. Line l of a row shows row p * stride_h - top + l of the image, and is number base + l of all, in place
// slot(l) of the ring.
struct FirstWalk {
    int rows, strips, span, step, ring;          // step: min(stride_h, span)
    int n, strip, p, lines, at;
    unsigned base;

    DEVICE FirstWalk(int rows, int strips, int span, int stride_h, int ring, unsigned index)
        : rows(rows), strips(strips), span(span), step(min(stride_h, span)), ring(ring),
          n(index / rows / strips), strip(index / rows % strips), p(index % rows), lines(span), at(0),
          base(0) {}
    DEVICE void next() {
        lines = step;
        if (++p == rows) {
            p = 0, lines = span;
            if (++strip == strips) strip = 0, ++n;
        }
        base += lines, at += lines;
        if (at >= ring) at -= ring;
    }
    DEVICE int slot(int l) const { return at + l < ring ? at + l : at + l - ring; }
};

// full[i]: all fillers have arrived. empty[i]: `readers` have read what row i needs, and no row before needs
// anything. Rows of y are counted from the block's first; row i uses barrier i % ROW_EVENTS of each.
struct FirstRing {
    unsigned char* lines;
    uint64_t *full, *empty;

    DEVICE void begin(int readers, int fillers = FILLERS) const {        // one thread, then a barrier
        UNROLL for (int i = 0; i < ROW_EVENTS; ++i)
            barrier_init(full + i, fillers), barrier_init(empty + i, readers);
        barriers_begin();
    }
    static DEVICE int at(unsigned i) { return i % ROW_EVENTS; }
    static DEVICE unsigned phase(unsigned i) { return i / ROW_EVENTS & 1; }
    DEVICE void wait_full(unsigned i) const { barrier_wait(full + at(i), phase(i)); }
    DEVICE void wait_empty(unsigned i) const { barrier_wait(empty + at(i), phase(i)); }
};

// Filler `warp`, for `count` rows from that of `walk` on. Image: FirstImage, or one that is filled like it.
template <int Fillers = FILLERS, class Image>
DEVICE void first_fill(const Image& image, const FirstRing& ring, FirstWalk walk, unsigned count,
                       int warp) {
    FirstWalk tail = walk;                       // the first row that may still be read
    unsigned done = 0, waited = 0;
    const int line_bytes = image.line_bytes();
    NO_UNROLL for (unsigned i = 0; i < count; ++i, walk.next()) {
        // Row `done` must have been read where its first line is overwritten, or its barrier used again.
        const unsigned kept = walk.base + walk.span - walk.ring;
        for (; int(kept - tail.base) > 0 || i - done >= ROW_EVENTS; ++done) tail.next();
        const auto ready = [&] {
            NO_UNROLL for (; waited < done; ++waited) ring.wait_empty(waited);        // every phase once
        };
        const int top = walk.p * image.stride_h - image.top, old = walk.span - walk.lines;
        const int mine = (warp + Fillers - (walk.base + old) % Fillers) % Fillers;
        NO_UNROLL for (int l = old + mine; l < walk.span; l += Fillers)
            image.fill(ring.lines + walk.slot(l) * line_bytes, walk.n, top + l, walk.strip, ready);
        ready();
        if (old + mine < walk.span) fence_async();           // it has written
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(ring.full + ring.at(i));
    }
}

}  // namespace cydnn
