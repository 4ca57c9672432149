/*@kernel
name   = "dropout_fwd_vector_{T}"
about  = """y = kept ? x / (1 - p) : 0 and its mask, x and y packed: 16-byte vectors, a byte of the mask \
            a lane."""
T      = ["f64", "f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
when   = ["sm == 75 or T == bf16"]
params = ["const T* x", "T* y", "u8* mask", "int64_t* states", "int64_t count", "unsigned upper",
          "unsigned lower", "Acc_T factor"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 4096)", 1, 1]
needs  = ["1 <= count < 2**35"]
problems = ["dropout_fwd x=3x5x11:{T} y=3x55:{T} p=0.55219268798828125",
            "dropout_fwd x=4096:{T} y=64x64:{T}",
            "dropout_fwd x=3x4099:{T} y=3x4099:{T} p=0.55219268798828125",
            "dropout_fwd x=5x17:{T} y=5x17:{T} p=1"]
@*/
// A block has 512 octets: each of its warps two times 32.
#include "philox.cuh"
#include "select.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, T* y, u8* mask, int64_t* states, int64_t count, unsigned upper, unsigned lower,
    Acc_T factor) {
    __shared__ unsigned long long seen[2];
    const int lane = threadIdx.x % 32;
    const i64 first = i64(blockIdx.x) * 512 + threadIdx.x / 32 * 64;    // of the warp's octets

    if ((i64(blockIdx.x) + 1) * 4096 <= count) {
        Octets<T> held[2];
        UNROLL for (int u = 0; u < 2; ++u) held[u].load(x + (first + 32 * u) * 8);
        const Draw draw = next_draw(states, seen);
        UNROLL for (int u = 0; u < 2; ++u) {
            const i64 octet = first + 32 * u + lane;
            const unsigned bits = draw.kept(octet, {upper, lower});
            mask[octet] = u8(bits);
            held[u].store(y + (first + 32 * u) * 8, bits, factor);
        }
        return;
    }
    const Draw draw = next_draw(states, seen);
    NO_UNROLL for (i64 octet = first + lane; octet < first + 64; octet += 32) {
        if (octet * 8 >= count) break;
        const int here = int(min(count - octet * 8, i64(8)));
        const unsigned bits = draw.kept(octet, {upper, lower}) & (1u << here) - 1;
        mask[octet] = u8(bits);
        NO_UNROLL for (int i = 0; i < here; ++i)
            y[octet * 8 + i] = chosen(x[octet * 8 + i], bits >> i & 1, factor);
    }
}
