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

extern "C" __global__ __launch_bounds__(256) void KERNEL(
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
            Rows<T> held;
            held.load(x + p.at, i64(groups) * 8);
            unsigned long long bits = 0;
            _Pragma("unroll 2") for (int i = 0; i < 8; ++i) {
                const unsigned row = draw.kept(p.octet + i64(i) * octets.by, {upper, lower}).bits();
                kept[(lane * 8 + i) * across + lane * 4 + down] = u8(row);
                bits |= (unsigned long long)row << 8 * i;
            }
            held.select(x + p.at, y + p.at, i64(groups) * 8, turned(bits), factor);
        }
        __syncthreads();
        const unsigned n_of = octets.divmod(min(first + mine, rows - 1), o);
        NO_UNROLL for (unsigned c = third; c < lanes * 8; c += lanes) {
            const unsigned channel = first_group * 8 + c, at = c * across + c / 8 * 4 + mine;
            if (first + mine < rows && channel < groups * 8)
                mask[(i64(n_of) * groups * 8 + channel) * octets.by + o] = kept[at];
        }
        __syncthreads();
    }
}
