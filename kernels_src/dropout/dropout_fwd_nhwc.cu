/*@kernel
name   = "dropout_fwd_nhwc_{T}"
about  = "y = kept ? x / (1 - p) : 0 and its mask, x and y NHWC: eight channels at eight positions a thread."
T      = ["f64", "f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
when   = ["sm == 75 or T == bf16"]
params = ["const T* x", "T* y", "u8* mask", "int64_t* states", "unsigned rows", "unsigned groups",
          "int lanes_log2", "FastDiv tiles", "FastDiv octets", "unsigned upper", "unsigned lower",
          "Acc_T factor"]
block  = [256, 1, 1]
grid   = ["blocks", 1, 1]
extra  = ["blocks"]
needs  = ["1 <= rows < 2**31", "1 <= groups", "0 <= lanes_log2 <= 3", "1 <= blocks < 2**24"]
problems = ["dropout_fwd x=2x24x4x6:{T}@nhwc y=2x24x4x6:{T}@nhwc p=0.55219268798828125",
            "dropout_fwd x=3x8x2x5x4:{T}@nhwc y=3x8x2x5x4:{T}@nhwc p=0.25",
            "dropout_fwd x=1x72x24x12:{T}@nhwc y=1x72x24x12:{T}@nhwc p=0.25"]
@*/
// The mask is in logical order: a thread has an octet of each of its channels, and turns their bits. A tile
// is 2^lanes_log2 groups of eight channels by as many octets of positions as the other threads have, `tiles`
// side by side along the channels; the mask of a tile is gathered, so that neighbours write neighbours.
// `rows`: octets of all images, `octets`: of one.
#include "philox.cuh"
#include "select.cuh"

// PTX ISA §prefetch: x is on its way while bits are drawn, without the registers that would hold it.
DEVICE void prefetch(const void* p) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
}

extern "C" __global__ __launch_bounds__(256, 3) void KERNEL(
    const T* x, T* y, u8* mask, int64_t* states, unsigned rows, unsigned groups, int lanes_log2,
    FastDiv tiles, FastDiv octets, unsigned upper, unsigned lower, Acc_T factor) {
    __shared__ unsigned long long seen[2];
    __shared__ u8 kept[8 * 256 + 8 * 4];                 // channels of a tile by its octets
    const Draw draw = next_draw(states, seen);
    const unsigned lanes = 1u << lanes_log2, across = 256 >> lanes_log2;
    const unsigned lane = threadIdx.x & (lanes - 1), down = threadIdx.x >> lanes_log2;
    const unsigned mine = threadIdx.x & (across - 1), third = threadIdx.x / across;
    const unsigned every = (rows + across - 1) / across * tiles.by;
    NO_UNROLL for (unsigned tile = blockIdx.x; tile < every; tile += gridDim.x) {
        unsigned first_group, o;
        const unsigned first = tiles.divmod(tile, first_group) * across;
        first_group *= lanes;
        const unsigned g = first_group + lane, n = octets.divmod(min(first + down, rows - 1), o);
        if (first + down < rows && g < groups) {
            const Patch p(n, o, g, groups, octets.by);
            u8* slot = kept + lane * (8 * across + 4) + down;
            i64 at = p.at, step = i64(groups) * 8;
            UNROLL for (int j = 0; j < 8; ++j) prefetch(x + at + j * step);
            unsigned long long bits = 0;
            i64 octet = p.octet;
            NO_UNROLL for (int i = 0; i < 4; ++i) {
                Octet two[2];
                draw.keep(two, {octet, octet + octets.by}, {upper, lower});
                const unsigned low = two[0].bits(), high = two[1].bits();
                slot[0] = u8(low), slot[across] = u8(high);
                slot += 2 * across, octet += 2 * i64(octets.by);
                bits = bits >> 16 | (unsigned long long)(low | high << 8) << 48;
            }
            asm volatile("" : "+l"(at), "+l"(step));     // or sixteen hold addresses
            Rows<T> held;
            held.load(x + at, step);
            held.select(x + at, y + at, step, turned(bits), factor);
        }
        __syncthreads();
        const unsigned n_of = octets.divmod(min(first + mine, rows - 1), o);
        if (first + mine < rows) {
            const u8* slot = kept + third * across + mine;   // every `lanes`th channel of the tile
            u8* out = mask + (i64(n_of) * groups * 8 + first_group * 8 + third) * octets.by + o;
            const i64 step = i64(lanes) * octets.by;
            const unsigned there = min(lanes, groups - first_group) * 8;
            UNROLL for (int i = 0; i < 8; ++i) {
                const unsigned c = third + i * lanes;
                if (c >= there) break;
                *out = slot[i * 256 + c / 8 * 4];
                out += step;
            }
        }
        __syncthreads();
    }
}
