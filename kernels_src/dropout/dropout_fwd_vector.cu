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
grid   = ["blocks", 1, 1]
extra  = ["blocks"]
needs  = ["1 <= count < 2**42", "1 <= blocks < 2**24"]
problems = ["dropout_fwd x=3x5x11:{T} y=3x55:{T} p=0.55219268798828125",
            "dropout_fwd x=4096:{T} y=64x64:{T}",
            "dropout_fwd x=3x4099:{T} y=3x4099:{T} p=0.55219268798828125",
            "dropout_fwd x=5x17:{T} y=5x17:{T} p=1"]
@*/
// Blocks walk the tensor in steps of 512 octets, each of their warps two times 32. There are few blocks, as
// each is counted at one address.
#include "philox.cuh"
#include "select.cuh"

extern "C" __global__ __launch_bounds__(256, sizeof(T) == 8 ? 2 : 4) void KERNEL(
    const T* x, T* y, u8* mask, int64_t* states, int64_t count, unsigned upper, unsigned lower,
    Acc_T factor) {
    __shared__ unsigned long long seen[2];
    const int lane = threadIdx.x % 32;
    const Draw draw = next_draw(states, seen);
    const i64 step = i64(gridDim.x) * 512, octets = count / 8;
    i64 first = i64(blockIdx.x) * 512 + threadIdx.x / 32 * 64;          // of the warp's octets

    NO_UNROLL for (; first + 64 <= octets; first += step) {
        Octets<T> held[2];
        UNROLL for (int u = 0; u < 2; ++u) held[u].load(x + (first + 32 * u) * 8);
        UNROLL for (int u = 0; u < 2; ++u) {
            const i64 octet = first + 32 * u + lane;
            const Octet kept = draw.kept(octet, {upper, lower});
            mask[octet] = u8(kept.bits());
            held[u].store(y + (first + 32 * u) * 8, kept, factor);
        }
    }
    NO_UNROLL for (i64 octet = first + lane; octet < first + 64; octet += 32) {
        if (octet * 8 >= count) break;
        const int here = int(min(count - octet * 8, i64(8)));
        const unsigned bits = draw.kept(octet, {upper, lower}).bits() & (1u << here) - 1;
        mask[octet] = u8(bits);
        NO_UNROLL for (int i = 0; i < here; ++i)
            y[octet * 8 + i] = chosen(x[octet * 8 + i], bits >> i & 1, factor);
    }
}
