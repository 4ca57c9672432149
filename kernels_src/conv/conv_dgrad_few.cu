/*@kernel
name    = "conv_dgrad_few_{T}_r{ROWS}"
about   = """dx of few channels, on Hopper's tensor cores (TMA, wgmma, f32 sums): a row of dy is read once, \
             and adds to all the rows of dx that it meets."""
T       = ["f16", "bf16"]
ROWS    = [1, 2, 4, 8]
targets = ["sm_90a"]
params  = ["const CUtensorMap dy", "const T* w", "T* dx", "float alpha", "float beta", "int items",
           "int tiles", "int strips", "int strip", "int chunks", "int k", "int c", "int pitch",
           "int is_flipped", "int in_pairs", "FastDiv apart", "int each", "Array<int, 2> out",
           "Array<int, 2> window", "Array<int, 2> first", "Array<int, 2> stride", "Array<int, 2> size",
           "Array<int, 2> pad", "Array<int, 2> dilation", "Array<int, 2> taps", "Array<int64_t, 4> w_s",
           "Array<int64_t, 4> dx_s", "Fuse fuse"]
block   = [640, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "1024 + 12 * 8192 + 4 * 3 * 10240 + 256"
extra   = ["blocks"]
needs   = ["items >= 1", "strip >= 1", "tiles == ceil_div(out[1], 64)", "strips == ceil_div(out[0], strip)",
           "chunks == ceil_div(k, {line(T)})", "chunks * window[1] <= 12",
           "1 <= window[0] and window[0] <= ROWS", "window[1] >= 1", "pitch >= stride[1] * c",
           "each * pitch <= 64 // ROWS", "apart == ceil_div(stride[0], each)", "stride[0] <= 255",
           "blocks % apart == 0"]
marks   = ["epilogue"]
problems = ["""conv_dgrad n2c{1 if ROWS == 8 else 3}h8w152 k{72 if ROWS < 8 else 40}\
r{(4, 3, 7)[ROWS // 2] if ROWS < 8 else 7}s{(4, 3, 7)[ROWS // 2] if ROWS < 8 else 7} \
               stride={(4, 2, 2)[ROWS // 2] if ROWS < 8 else 1} {T} nhwc \
               pre_pad={(0, 1, 3)[ROWS // 2] if ROWS < 8 else 3} \
               post_pad={(3, 1, 2)[ROWS // 2] if ROWS < 8 else 2}""",
            """conv_dgrad n1c{(8, 5, 5)[ROWS // 2] if ROWS < 8 else 2}h9w70 \
               k16r{(1, 2, 4)[ROWS // 2] if ROWS < 8 else 5}s3 stride={2 if ROWS < 4 else 1},3 \
               dilation=1,2 pad=1 mode=convolution {T} nhwc""",
            """{'conv_dgrad n3c16w67 k136s5 stride=2 pad=2 nhwc' if ROWS == 1 else ''} \
               {T if ROWS == 1 else ''}""",
            """{'conv_dgrad n2c3h21w30 k24r11s11 stride4 pad2 nhwc' if ROWS == 4 else ''} \
               {T if ROWS == 4 else ''}""",
            """{'conv_dgrad dy=1x24x9x6:' if ROWS == 2 else ''}{T if ROWS == 2 else ''}\
{'@1536,1,168,24 w=24x3x2x1:' if ROWS == 2 else ''}{T if ROWS == 2 else ''}\
{'@7,2,1,1 dx=1x3x10x6:' if ROWS == 2 else ''}{T if ROWS == 2 else ''}\
{'@256,70,7,1' if ROWS == 2 else ''}"""]
@*/
// All classes of pixels (conv_dgrad_wgmma.cu) are columns of one product: pixels (h', w') of the grid `out`,
// the union of the classes' windows, columns (a, b, channel) for pixel (stride * h' + a, stride * w' + b) of
// dx. Pixel (a, h') gets from row h' + o of dy the tap r with r * dilation = a + pad - o * stride, if there
// is one; o = first … first + window - 1; the same along w. Column a * pitch + b * c + channel.
//
// A warpgroup walks down rows of dy, 64 pixels of a row and what the window adds to them at a time. From
// each it makes the sums of `window` rows of dx at once: the 64 columns of the product are ROWS blocks, block
// i for the row whose tap is first + window - 1 - i. Block 0 is complete then and leaves; the others move up.
// The taps along w are the same pixels of the stage, read a row of 128 bytes further on. The filters of a
// block stay in shared memory: for 64 of k and a tap along w 64 rows of 64, as in tile/wgmma.cuh; where
// there is no tap they are zero.
//
// Residues a that have no room beside each other go apart: `each` of them in each of `apart` blocks that
// follow each other, which read the same rows of dy.
//
// An item is a strip of `strip` rows of 64 pixels of an image; each of the four warpgroups takes items of its
// own, with a ring of stages of its own: between two rows a warpgroup waits for its products and stores.
// in_pairs: every two columns are neighbours in dx, and all rows that `out` has are inside.
#include "lib/epilogue.cuh"
#include "lib/hopper.cuh"
#include "lib/math.cuh"

namespace cydnn {

constexpr int WIDE = 64, WORKERS = 4, STAGES = 3;            // pixels, warpgroups, of each
constexpr int STAGE = 80 * LINE, PART = 64 * LINE, PARTS = 12;     // bytes, bytes, of the filters

struct Item { int image, row, rows, col; };                  // of the grid

struct Class { int a, b, channel; bool is_there; };

struct Few {
    int items, tiles, strips, strip, chunks, k, c, pitch, is_flipped, each, part, place, places;
    const Array<int, 2>&out, &window, &first, &stride, &size, &pad, &dilation, &taps;

    DEVICE Item item(int index) const {
        const int tile = index % tiles, rest = index / tiles, row = rest % strips * strip;
        return {rest / strips, row, min(strip, out[0] - row), tile * WIDE};
    }
    DEVICE Class column(int index) const {
        const int own = index / pitch, a = part * each + own, rest = index % pitch, b = rest / c;
        return {a, b, rest % c, own < each && a < stride[0] && b < stride[1]};
    }
    // The first item of a warpgroup of this block; they are places * WORKERS from each other.
    DEVICE int first_item(int group) const { return place * WORKERS + group; }
    // The tap of residue `a` that reads `offset` further on in dy, or -1.
    template <int D> DEVICE int tap(int a, int offset) const {
        const int x = a + pad[D] - offset * stride[D], r = x / dilation[D];
        if (x < 0 || r * dilation[D] != x || r >= taps[D]) return -1;
        return is_flipped ? taps[D] - 1 - r : r;
    }
};

// The stages of a warpgroup.
struct FewRing {
    unsigned char* stages;
    uint64_t *full, *empty;
    int stage = 0;
    unsigned phase = 0;
    DEVICE FewRing(unsigned char* all, uint64_t* barriers, int group)
        : stages(all + group * STAGES * STAGE), full(barriers + group * 2 * STAGES), empty(full + STAGES) {}
    DEVICE unsigned char* at() const { return stages + stage * STAGE; }
    DEVICE void next() {
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
};

template <class T> DEVICE void few_produce(const Few& few, const CUtensorMap& dy, FewRing ring, int group) {
    const int bytes = (WIDE + few.window[1] - 1) * LINE;
    NO_UNROLL for (int i = few.first_item(group); i < few.items; i += WORKERS * few.places) {
        const Item item = few.item(i);
        NO_UNROLL for (int row = 0; row < item.rows + few.window[0] - 1; ++row)
            NO_UNROLL for (int chunk = 0; chunk < few.chunks; ++chunk, ring.next()) {
                barrier_wait(ring.empty + ring.stage, ring.phase ^ 1);
                barrier_expect(ring.full + ring.stage, bytes);
                tensor_load(ring.at(), dy, {chunk * MmaElem<T>::line, item.col + few.first[1],
                            item.row + few.first[0] + row, item.image, 0}, ring.full + ring.stage);
            }
    }
}

// The filters, by all warpgroups. Neighbouring lanes take columns: their channels and taps lie together.
template <class T, int Rows>
DEVICE void few_filters(const Few& few, const T* w, const Array<i64, 4>& w_s, unsigned char* to, int thread) {
    using Elem = MmaElem<T>;
    NO_UNROLL for (int i = thread; i < few.chunks * few.window[1] * 64 * CHUNKS; i += WORKERS * 128) {
        const int row = i % 64, place = i / 64 % CHUNKS, part = i / (64 * CHUNKS);
        const int chunk = part / few.window[1], along = part % few.window[1], block = row / (64 / Rows);
        const Class at = few.column(row % (64 / Rows));
        const int r = few.tap<0>(at.a, few.first[0] + few.window[0] - 1 - block);
        const int s = few.tap<1>(at.b, few.first[1] + along), k0 = chunk * Elem::line + place * Elem::chunk;
        const bool is_there = at.is_there && block < few.window[0] && r >= 0 && s >= 0;
        const T* from = w + k0 * w_s[0] + at.channel * w_s[1] + r * w_s[2] + s * w_s[3];
        Vec<T, Elem::chunk> v;
        UNROLL for (int e = 0; e < Elem::chunk; ++e)
            v[e] = is_there && k0 + e < few.k ? from[e * w_s[0]] : from_acc<T>(0.f);
        v.store(reinterpret_cast<T*>(to + part * PART + row * LINE + (place ^ row % 8) * CHUNK));
    }
}

// A chosen one of the first `count` registers.
template <class Value, int Count> DEVICE Value pick(const Value (&v)[Count], int index, int count = Count) {
    Value found = v[0];
    UNROLL for (int i = 1; i < Count; ++i) found = i < count && index == i ? v[i] : found;
    return found;
}

// What a thread stores of block 0: pixels lane / 4 and 8 further, columns 8j + 2 (lane % 4) and the next.
template <class T, int Rows> struct FewOut {
    static constexpr int eights = 8 / Rows;
    T* dx;
    float alpha, beta;
    const Array<i64, 4>& dx_s;
    int column[2 * eights];                                  // bytes: a, b, channel; -1 for none
    int pair[eights];                                        // from a pixel of dx on, where pairs leave
    i64 pixel[2] = {};
    unsigned inside = 0;                                     // bit by place in the sums: its column of dx is

    DEVICE FewOut(const Few& few, const Array<i64, 4>& dx_s, T* dx, float alpha, float beta)
        : dx(dx), alpha(alpha), beta(beta), dx_s(dx_s) {
        UNROLL for (int q = 0; q < 2 * eights; ++q) {
            const Class at = few.column(q / 2 * 8 + threadIdx.x % 4 * 2 + q % 2);
            column[q] = at.is_there ? at.a | at.b << 8 | at.channel << 16 : -1;
            if (q % 2 == 0) pair[q / 2] = at.a * dx_s[2] + at.b * dx_s[3] + at.channel * dx_s[1];
        }
    }
    DEVICE void begin(const Few& few, const Item& item) {
        inside = 0;
        UNROLL for (int half = 0; half < 2; ++half) {
            const int at = item.col + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + 8 * half;
            const int w = at * few.stride[1];
            pixel[half] = item.image * dx_s[0] + w * dx_s[3];
            UNROLL for (int q = 0; q < 2 * eights; ++q) {
                const bool is = column[q] >= 0 && (column[q] >> 8 & 255) < few.size[1] - w;
                inside |= unsigned(at < few.out[1] && is) << (q / 2 * 4 + half * 2 + q % 2);
            }
        }
    }
    // `above`: elements of dx in front of the row.
    DEVICE void put_pairs(const float (&d)[32], i64 above) const {
        static_assert(sizeof(T) == 2, "a pair is a word");
        T* const row[2] = {dx + above + pixel[0], dx + above + pixel[1]};
        UNROLL for (int e = 0; e < 4 * eights; e += 2) {
            alignas(4) T two[2];
            from_acc2(two, alpha * d[e], alpha * d[e + 1]);
            if (inside >> e & 1)
                *reinterpret_cast<unsigned*>(row[e / 2 % 2] + pair[e / 4]) =
                    *reinterpret_cast<const unsigned*>(two);
        }
    }
    // `left`: rows of dx from it on.
    DEVICE void put_elements(const float (&d)[32], i64 above, int left) const {
        NO_UNROLL for (int e = 0; e < 4 * eights; ++e) {
            const int at = pick(column, e / 4 * 2 + e % 2), a = at & 255, b = at >> 8 & 255;
            const int channel = at >> 16;
            if (!(inside >> e & 1) || a >= left) continue;
            const i64 off = above + (e / 2 % 2 ? pixel[1] : pixel[0]) + a * dx_s[2] + b * dx_s[3]
                          + channel * dx_s[1];
            float v[1] = {blend(alpha, pick(d, e, 4 * eights), beta, dx + off)};
            fuse_epilogue(v, off, channel);
            dx[off] = from_acc<T>(v[0]);
        }
    }
};

// Only the lower half of a descriptor changes: its address.
DEVICE uint64_t few_panel(unsigned lower) { return swizzled_panel(0, 0, 8 * LINE) | lower; }

// A row of dy, all of k.
template <class T>
DEVICE void few_sums(float (&d)[32], const Few& few, FewRing& ring, unsigned filters) {
    const bool speaks = threadIdx.x % 128 == 0;
    const int steps = few.chunks * few.window[1];
    unsigned a = 0, b = unsigned(swizzled_panel(filters, CHUNK, 0));
    int s = 0;
    NO_UNROLL for (int step = 0; step < steps; ++step, a += CHUNKS, b += PART >> 4) {
        if (s == 0) {
            barrier_wait(ring.full + ring.stage, ring.phase);
            a = unsigned(swizzled_panel(shared_address(ring.at()), CHUNK, 0));
        }
        wgmma_begin(d);
        UNROLL for (int kk = 0; kk < MmaElem<T>::products; ++kk)             // of two chunks each
            Wgmma<T, 64>::template add<0, 0>(d, few_panel(a + kk * 2), few_panel(b + kk * 2), 1);
        wgmma_commit();
        wgmma_wait<1>();
        if (++s < few.window[1]) continue;
        wgmma_wait<0>();
        if (speaks) barrier_arrive(ring.empty + ring.stage);
        s = 0, ring.next();
    }
    wgmma_wait<0>(d);
}
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(640, 1) void KERNEL(
    const __grid_constant__ CUtensorMap dy, const T* w, T* dx, float alpha, float beta, int items, int tiles,
    int strips, int strip, int chunks, int k, int c, int pitch, int is_flipped, int in_pairs, FastDiv apart,
    int each, Array<int, 2> out, Array<int, 2> window, Array<int, 2> first, Array<int, 2> stride,
    Array<int, 2> size, Array<int, 2> pad, Array<int, 2> dilation, Array<int, 2> taps, Array<i64, 4> w_s,
    Array<i64, 4> dx_s, Fuse fuse) {
    extern __shared__ unsigned char shared[];
    unsigned char* filters = shared + (-shared_address(shared) & 1023);
    unsigned char* stages = filters + PARTS * PART;
    uint64_t* barriers = reinterpret_cast<uint64_t*>(stages + WORKERS * STAGES * STAGE);
    unsigned part;
    const int place = apart.divmod(blockIdx.x, part), places = apart.div(gridDim.x);
    const Few few = {items, tiles, strips, strip, chunks, k, c, pitch, is_flipped, each, int(part), place,
                     places, out, window, first, stride, size, pad, dilation, taps};
    if (threadIdx.x == 0) {
        UNROLL for (int i = 0; i < 2 * WORKERS * STAGES; ++i) barrier_init(barriers + i, 1);
        barriers_begin();
        tensor_ahead(dy);
    }
    __syncthreads();
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);             // the same for all, known to ptxas
    if (role == 0) {
        if (threadIdx.x % 32 == 0)
            few_produce<T>(few, dy, FewRing(stages, barriers, threadIdx.x / 32), threadIdx.x / 32);
        return;
    }
    few_filters<T, ROWS>(few, w, w_s, filters, threadIdx.x - 128);
    fence_async();
    asm volatile("bar.sync 1, 512;" ::: "memory");
    FewRing ring(stages, barriers, role - 1);
    FewOut<T, ROWS> to(few, dx_s, dx, alpha, beta);
    NO_UNROLL for (int i = few.first_item(role - 1); i < items; i += WORKERS * few.places) {
        const Item item = few.item(i);
        to.begin(few, item);
        float d[32] = {};
        NO_UNROLL for (int row = 1 - window[0]; row < item.rows; ++row) {
            few_sums<T>(d, few, ring, shared_address(filters));
            if (row >= 0) {
                const int h = (item.row + row) * stride[0];
                if (in_pairs && beta == 0.f) to.put_pairs(d, h * dx_s[2]);
                else to.put_elements(d, h * dx_s[2], size[0] - h);
            }
            constexpr int block = 32 / ROWS;
            UNROLL for (int e = 0; e < 32; ++e)              // a block without a row stays 0: dy may have NaN
                d[e] = e + block < 32 && e / block + 1 < window[0] ? d[(e + block) % 32] : 0.f;
        }
    }
}
