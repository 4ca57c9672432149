/*@kernel
name    = "conv_halo_{T}_{W_MAJOR}"
about   = """y[n, pixels] = w[n, taps and channels] @ im2col(x)[taps and channels, pixels] for unit stride \
             and at most 64 channels on Hopper's tensor cores (TMA, wgmma, f32 sums): a tile of x and what \
             lies around comes once for all taps. ak: forward. am: the data gradient, where x is dy and y is \
             dx."""
T       = ["f16", "bf16"]
W_MAJOR = ["ak", "am"]
targets = ["sm_90a"]
params  = ["const CUtensorMap x", "const CUtensorMap w", "T* y", "float alpha", "float beta", "int reads",
           "int channels", "int teams", "int tiles", "int rows", "int columns", "int x_rows", "int stages",
           "int height", "int width", "int is_plain", "int is_flipped", "int64_t y_n", "int64_t y_h",
           "int64_t y_w",
           "Array<int, 2> taps", "Array<int, 2> dilation", "Array<int, 2> first", "FastDiv pitch",
           "FastDiv strips", "FastDiv bands", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "1024 + 8 * 1536 + taps[0] * taps[1] * 8192 + stages * x_rows * 128"
extra   = ["blocks"]
needs   = ["1 <= reads and reads <= {line(T)}", "channels >= 1", "channels % {line(T) // 8} == 0",
           "teams == ceil_div(channels, 64)",
           "blocks % teams == 0",
           "1 <= tiles and tiles < 2147483648", "blocks // teams <= tiles",
           "tiles % (strips * bands) == 0", "rows * bands >= height", "columns * strips >= width",
           "rows >= 1", "columns >= 1", "(rows - 1) * pitch + columns <= 240",
           "pitch == columns + (taps[1] - 1) * dilation[1]", "pitch <= 256",
           "rows + (taps[0] - 1) * dilation[0] <= 256", "2 <= stages and stages <= 4", "x_rows % 8 == 0",
           "(rows + (taps[0] - 1) * dilation[0]) * pitch <= x_rows",
           "(taps[0] - 1) * dilation[0] * pitch + (taps[1] - 1) * dilation[1] + 240 <= x_rows"]
marks   = ["ahead", "epilogue"]
problems = ["""{'conv_fprop n2c40h9w29 k72r3s2' if W_MAJOR == 'ak' else 'conv_dgrad n2c72h9w29 k40r3s2'} \
               dilation=1,2 pre_pad=1,0 post_pad=0,2 {T} nhwc""",
            """{'conv_fprop n2c64h3w240 k8r1s3 pad=0,1' if W_MAJOR == 'ak' else \
               'conv_dgrad n2c8h3w240 k64r1s3 pad=0,1'} mode=convolution {T} nhwc""",
            """{'conv_fprop n1c24h8w9 k64r3s3' if W_MAJOR == 'ak' else 'conv_dgrad n1c64h8w9 k24r3s3'} \
               pad1 {T} nhwc""",
            """{'conv_fprop x=1x8x21x9' if W_MAJOR == 'ak' else 'conv_dgrad dy=1x8x21x9'}:{T}@1920,1,80,8 \
               w={'136x8x5x1' if W_MAJOR == 'ak' else '8x136x5x1'}:{T}@720,1,144,144 \
               {'y=1x136x21x9' if W_MAJOR == 'ak' else 'dx=1x136x21x9'}:{T}@40000,1,1600,160 pad=2,0"""]
@*/
// A block keeps the filters of 64 channels of y in shared memory, operand A, and takes every blocks / teams-
// th of the tiles: `rows` x `columns` pixels of an image of y. Tiles go along a row, `strips`, then down,
// `bands`, then to the next image. A stage has the pixels of x that the tile's taps meet, `pitch` = columns
// + reach of the taps in each row, then zeros up to x_rows. So tap (r, s) of the pixel at place row * pitch
// + column is the pixel of x at this place + r * dilation * pitch + s * dilation: the same panel, begun
// further down. Places of columns behind the tile's are multiplied, too, and not stored. The warpgroups take
// the tiles in turn: one multiplies while the other stores.
//
// taps, dilation, first: of height and width. Output o reads pixel o + first + t * dilation for tap t. The
// dims of the maps: c, w, h, 1, n of x; c, k, width, height, 1 of the filters. ak: k is y's channel; am: c.
// is_plain: nothing is fused, and y is T's. reads: channels of x; at most half a line of them take half of
// the products.
#include "lib/epilogue.cuh"
#include "tile/wgmma_store.cuh"
#include "tile/wgmma_wide.cuh"

namespace cydnn {
struct ak { static constexpr bool k_major = true; };
struct am { static constexpr bool k_major = false; };

constexpr int FILTERS = PART, WAY_OUT = 1536;    // bytes: 64 filters of a tap; what a warp has to turn sums
constexpr int PLACES = 240, SUMS = PLACES / 2, MOST_STAGES = 4;

struct HaloStages {
    unsigned char* at;
    uint64_t *full, *empty;
    int bytes, count, stage;
    unsigned phase;
    DEVICE unsigned char* here() const { return at + stage * bytes; }
    DEVICE void next(int by) {                   // at most the count
        stage += by;
        if (stage >= count) stage -= count, phase ^= 1;
    }
    // All threads: the rows from `first` on of every stage.
    DEVICE void zero_behind(int first) const {
        for (int s = 0; s < count; ++s)
            for (int e = first * LINE + threadIdx.x * CHUNK; e < bytes; e += blockDim.x * CHUNK)
                *reinterpret_cast<uint4*>(at + s * bytes + e) = make_uint4(0, 0, 0, 0);
    }
};

// One thread: those of 64 channels of y.
template <bool KMajor>
DEVICE void load_filters(unsigned char* to, const CUtensorMap& w, int channel, const Array<int, 2>& taps,
                         int is_flipped, uint64_t* arrived) {
    barrier_expect(arrived, taps[0] * taps[1] * FILTERS);
    NO_UNROLL for (int r = 0; r < taps[0]; ++r) NO_UNROLL for (int s = 0; s < taps[1]; ++s) {
        const int down = is_flipped ? taps[0] - 1 - r : r, right = is_flipped ? taps[1] - 1 - s : s;
        tensor_load(to + (r * taps[1] + s) * FILTERS, w,
                    {KMajor ? 0 : channel, KMajor ? channel : 0, right, down, 0}, arrived);
    }
}

// Which warpgroup's products are next.
DEVICE void turn_wait(int group) { asm volatile("bar.sync %0, 256;" :: "r"(group + 1) : "memory"); }
DEVICE void turn_give(int group) { asm volatile("bar.arrive %0, 256;" :: "r"(group + 1) : "memory"); }

struct HaloWindows {
    const Array<int, 2>&taps, &dilation;
    int pitch;

    // A warpgroup: d = all taps of the stage at x, Count products each. Wait for them.
    template <class A, class B, int Count, class Sum>
    DEVICE void multiply(Sum (&d)[SUMS], unsigned w, unsigned x) const {
        using Product = Wgmma<typename A::Elem::Type, PLACES>;
        uint64_t a = A::at(w), b = B::at(x);
        const int right = dilation[1] * CHUNKS, down = (dilation[0] * pitch - taps[1] * dilation[1]) * CHUNKS;
        int left = taps[0] * taps[1], s = 0, keep = 0;
        do {
            wgmma_begin(d);
            UNROLL for (int kk = 0; kk < Count; ++kk)
                Product::template add<A::transposed, B::transposed>(d, a + kk * A::next, b + kk * B::next,
                                                                    kk > 0 ? 1 : keep);
            wgmma_commit();
            keep = 1, a += FILTERS >> 4, b += right;
            if (++s == taps[1]) s = 0, b += down;
        } while (--left);
    }
};

// A tile's place in y, as a warp sees it: from its 16 channels on.
template <class Elem> struct HaloOut {
    Elem* y;
    float alpha, beta;
    const FastDiv& pitch;
    i64 y_h, y_w, first;
    int rows, columns, channel, channels;

    // A warpgroup, before its products: what is read beside the sums of 64 channels.
    DEVICE void ahead(int warp) const {
        NO_UNROLL for (int e = threadIdx.x % 128; e < PLACES; e += 128) {
            unsigned column;
            const unsigned row = pitch.divmod(e, column);
            if (row < rows && column < columns) fuse_ahead(first - 16 * warp + row * y_h + column * y_w);
        }
    }

    // Of a lane: the s-th 16 places; whether there is anything.
    DEVICE bool find(int s, i64& off) const {
        const int lane = threadIdx.x % 32;
        unsigned column;
        const unsigned row = pitch.divmod(16 * s + lane % 16, column);
        off = first + row * y_h + column * y_w + lane / 16 * 8;
        return row < rows && column < columns && channel + lane / 16 * 8 < channels;
    }

    // 16 places x 16 channels at a time, 48 bytes from place to place so that 8 of them meet all banks.
    template <class Sum> DEVICE void put_plain(const Sum (&d)[SUMS], unsigned char* turn) const {
        static_assert(sizeof(Elem) == 2, "stmatrix transposes elements of 16 bits");
        const int lane = threadIdx.x % 32;
        const unsigned to = shared_address(turn) + (lane % 8 + lane / 16 * 8) * 48 + lane / 8 % 2 * 16;
        UNROLL for (int s = 0; s < PLACES / 16; ++s) {
            alignas(4) Elem pairs[4][2];
            UNROLL for (int i = 0; i < 4; ++i)
                from_acc2(pairs[i], alpha * d[8 * s + 2 * i], alpha * d[8 * s + 2 * i + 1]);
            unsigned r[4];
            UNROLL for (int i = 0; i < 4; ++i) r[i] = *reinterpret_cast<unsigned*>(pairs[i]);
            stmatrix_x4_trans(to + s % 2 * (WAY_OUT / 2), r);
            __syncwarp();                                    // so have the reads of the other half
            const uint4 v = *reinterpret_cast<const uint4*>(turn + s % 2 * (WAY_OUT / 2) + lane % 16 * 48
                                                            + lane / 16 * 16);
            i64 off;
            if (find(s, off)) *reinterpret_cast<uint4*>(y + off) = v;
        }
    }

    // The same in f32, 80 bytes from place to place.
    template <class Sum> DEVICE void put(const Sum (&d)[SUMS], unsigned char* turn) const {
        const int lane = threadIdx.x % 32;
        float* to = reinterpret_cast<float*>(turn) + lane % 4 * 2 * 20 + lane / 4;
        const float4* from = reinterpret_cast<const float4*>(turn + lane % 16 * 80 + lane / 16 * 32);
        UNROLL for (int s = 0; s < PLACES / 16; ++s) {       // a loop would choose sums by branches
            __syncwarp();                                    // what was there has been read
            UNROLL for (int e = 0; e < 8; ++e)
                to[(e / 4 * 8 + e % 2) * 20 + e / 2 % 2 * 8] = d[8 * s + e];
            __syncwarp();
            i64 off;
            if (!find(s, off)) continue;
            const float4 low = from[0], high = from[1];
            float v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}, old[8];
            UNROLL for (float& sum : v) sum *= alpha;
            if (beta != 0.f) {
                Vec<Elem, 8>::load(y + off).get(old);
                UNROLL for (int e = 0; e < 8; ++e) v[e] += beta * old[e];
            }
            fuse_epilogue(v, off, channel + lane / 16 * 8);
            Vec<Elem, 8>::of(v).store(y + off);
        }
    }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, T* y, float alpha,
    float beta, int reads, int channels, int teams, int tiles, int rows, int columns, int x_rows, int stages,
    int height, int width, int is_plain, int is_flipped, i64 y_n, i64 y_h, i64 y_w, Array<int, 2> taps,
    Array<int, 2> dilation, Array<int, 2> first, FastDiv pitch, FastDiv strips, FastDiv bands, Fuse fuse) {
    using A = WgmmaPanel<T, 64, W_MAJOR::k_major>;
    using B = WgmmaPanel<T, PLACES, true>;
    extern __shared__ unsigned char shared[];
    __shared__ uint64_t barriers[2 * MOST_STAGES + 1];
    unsigned char* filters = shared + (-shared_address(shared) & 1023);
    uint64_t* kept = barriers + 2 * MOST_STAGES;         // the filters have come
    HaloStages ring = {filters + taps[0] * taps[1] * FILTERS, barriers, barriers + MOST_STAGES,
                       x_rows * LINE, stages, 0, 0};
    const int read = (rows + (taps[0] - 1) * dilation[0]) * int(pitch.by);       // places of a stage
    const int from = blockIdx.x % teams * 64;            // of y's channels
    const unsigned begin = blockIdx.x / teams, step = gridDim.x / teams;
    ring.zero_behind(read);
    if (threadIdx.x == 0) {
        UNROLL for (int s = 0; s < 2 * MOST_STAGES + 1; ++s) barrier_init(barriers + s, 1);
        barriers_begin();
        tensor_ahead(x), tensor_ahead(w);
    }
    fence_async();
    __syncthreads();

    const auto at = [&](unsigned tile, int (&place)[3]) {                // image, row, column
        unsigned strip, band;
        place[0] = bands.divmod(strips.divmod(tile, strip), band);
        place[1] = band * rows, place[2] = strip * columns;
    };
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);             // the same for all, known to ptxas
    if (role == 0) {
        registers_give<40>();
        if (threadIdx.x > 0) return;
        NO_UNROLL for (unsigned t = begin; t < tiles; t += step, ring.next(1)) {
            int place[3];
            at(t, place);
            barrier_wait(ring.empty + ring.stage, ring.phase ^ 1);       // a new barrier lets it pass
            barrier_expect(ring.full + ring.stage, read * LINE);
            tensor_load(ring.here(), x, {0, place[2] + first[1], place[1] + first[0], 0, place[0]},
                        ring.full + ring.stage);
            if (t == begin)                              // nearer
                load_filters<W_MAJOR::k_major>(filters, w, from, taps, is_flipped, kept);
        }
        return;
    }
    registers_take<232>();
    const int group = role - 1, warp = threadIdx.x / 32 % 4;
    unsigned char* turn = ring.at + stages * ring.bytes + (group * 4 + warp) * WAY_OUT;
    const HaloWindows windows = {taps, dilation, int(pitch.by)};
    barrier_wait(kept, 0);
    if (group == 1) turn_give(0);
    ring.next(group);
    NO_UNROLL for (unsigned t = begin + group * step; t < tiles; t += 2 * step, ring.next(2)) {
        MmaElem<T>::Sum d[SUMS];
        int place[3];
        at(t, place);
        const int channel = from + 16 * warp;
        const i64 corner = place[0] * y_n + place[1] * y_h + place[2] * y_w + channel;
        const HaloOut<T> to = {y, alpha, beta, pitch, y_h, y_w, corner, min(rows, height - place[1]),
                               min(columns, width - place[2]), channel, channels};
        if (!is_plain && from + 64 <= channels) to.ahead(warp);
        turn_wait(group);
        barrier_wait(ring.full + ring.stage, ring.phase);
        constexpr int all = MmaElem<T>::products;
        if (2 * reads <= MmaElem<T>::line)
            windows.multiply<A, B, all / 2>(d, shared_address(filters), shared_address(ring.here()));
        else windows.multiply<A, B, all>(d, shared_address(filters), shared_address(ring.here()));
        if (t + step < tiles) turn_give(1 - group);
        wgmma_wait<0>(d);
        if (threadIdx.x % 128 == 0) barrier_arrive(ring.empty + ring.stage);
        if (is_plain && beta == 0.f) to.put_plain(d, turn);
        else to.put(d, turn);
    }
}
