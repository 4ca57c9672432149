/*@kernel
name    = "rnn_pack_{T}_{FORM}"
about   = """What a persistent recurrence begins with: a matrix of weights a plane, in the order of \
             fragments; where there is an exchange its planes: states of those that are begun, then `turns` \
             areas to be written."""
T       = ["f16", "bf16", "f32"]
FORM    = ["forward", "backward"]
targets = ["sm_80"]
params  = ["const T* weights", "const T* hx", "T* packed", "T* exchange", "int batch",
           "int hidden", "int gates", "int tiles", "int blocks", "int groups", "int group_rows", "int planes",
           "int begun", "int turns", "int64_t weights_dir", "int64_t hx_dir", "int64_t hx_row"]
block   = [256, 1, 1]
grid    = ["shares", 1, "matrices"]
extra   = ["matrices", "shares"]
needs   = ["hidden % 2 == 0", "blocks * tiles * 16 >= hidden", "group_rows % 16 == 0",
           "groups * group_rows >= batch",
           "blocks * ceil_div(hidden, 8) * gates * tiles * 32 < 2147483648",
           "ceil_div(hidden, 8) * gates * group_rows * groups * 2 * (turns + 1) < 2147483648"]
problems = ["""rnn_{'fwd' if FORM == 'forward' else 'bwd_data'} t2n18i8 hidden=40 cell=gru \
               bidirectional=True {T}""",
            "rnn_{'fwd' if FORM == 'forward' else 'bwd_data'} t2n2i8 hidden=8 cell=lstm hx=none {T}"]
@*/
// Orders as in persist.cuh. Forward: rows of the product are units of each gate, the depth is what comes in.
// Backward: rows are what comes in, the depth is gate by gate, each filled up to whole k steps.
#include "rnn/persist.cuh"

namespace cydnn {
namespace forward { constexpr bool Transposed = false; }
namespace backward { constexpr bool Transposed = true; }

// Words of a lane: rows `unit` and `unit + 1`, at depths `in` and half a k step on. In a word: one f32, or
// two 16-bit neighbours along the depth.
template <class Elem> DEVICE unsigned word_of(const Elem* p, i64 step) {
    if constexpr (sizeof(Elem) == 4) return __float_as_uint(*p);
    else return __byte_perm(*reinterpret_cast<const unsigned short*>(p),
                            *reinterpret_cast<const unsigned short*>(p + step), 0x5410);
}
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* weights, const T* hx, T* packed, T* exchange, int batch, int hidden, int gates, int tiles,
    int blocks, int groups, int group_rows, int planes, int begun, int turns, i64 weights_dir,
    i64 hx_dir, i64 hx_row) {
    constexpr bool Transposed = FORM::Transposed;
    constexpr int Depth = Fragment<T>::Depth, PerWord = Depth / 8;
    const int pairs = group_rows / 16;
    const int each = ceil_div(hidden, Depth);
    const int k_steps = Transposed ? gates * each : each, m_tiles = Transposed ? tiles : gates * tiles;
    const int thread = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256;
    const int words = blocks * k_steps * m_tiles * 32, area = k_steps * pairs * 32;
    weights += blockIdx.z * weights_dir;

    uint4* to = reinterpret_cast<uint4*>(packed) + i64(blockIdx.z) * words;
    NO_UNROLL for (int i = thread; i < words; i += threads) {
        const int lane = i % 32, m = i / 32 % m_tiles, k = i / (32 * m_tiles) % k_steps;
        const int slot = i / (32 * m_tiles * k_steps);
        const int unit = (slot * tiles + (Transposed ? m : m % tiles)) * 16 + lane / 4 * 2;
        const int gate = Transposed ? k / each : m / tiles;
        const int in = (Transposed ? k % each : k) * Depth + lane % 4 * PerWord;
        const i64 along = Transposed ? hidden : 1, across = Transposed ? 1 : hidden;
        unsigned a[4] = {};
        UNROLL for (int part = 0; part < 4; ++part) {
            const int d = in + part / 2 * (Depth / 2), u = unit + part % 2;
            if (u < hidden && d < hidden)
                a[part] = word_of(weights + i64(gate) * hidden * hidden + u * across + d * along, along);
        }
        to[i] = {a[0], a[1], a[2], a[3]};
    }
    if (!exchange) return;
    NO_UNROLL for (int plane = blockIdx.z; plane < planes; plane += gridDim.z)
        NO_UNROLL for (int i = thread; i < (turns + 1) * groups * area; i += threads) {
            const int lane = i % 32, pair = i / 32 % pairs, k = i / (32 * pairs) % k_steps;
            const int group = i / area % groups, turn = i / (groups * area);
            unsigned b[4];
            UNROLL for (int part = 0; part < 4; ++part) {
                const int n = group * group_rows + pair * 16 + part / 2 * 8 + lane / 4;
                const int d = k % each * Depth + part % 2 * (Depth / 2) + lane % 4 * PerWord;
                b[part] = 0;                     // what no step writes, and where nothing has been
                if (n >= batch || d >= hidden) continue;
                if (turn > 0) b[part] = EMPTY;
                else if (!Transposed && hx && plane < begun)
                    b[part] = word_of(hx + plane * hx_dir + n * hx_row + d, 1);
                if (turn == 0 && b[part] == EMPTY) b[part] = PerWord == 2 ? 0x7FFF7FFF : 0x7FFFFFFF;
            }
            const i64 at = (i64(turn) * planes + plane) * groups * area + i % (groups * area);
            reinterpret_cast<uint4*>(exchange)[at] = {b[0], b[1], b[2], b[3]};
        }
}
