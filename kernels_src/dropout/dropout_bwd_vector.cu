/*@kernel
name   = "dropout_bwd_vector_{T}"
about  = "dx = kept ? dy / (1 - p) : 0, dy and dx packed: 16-byte vectors, a byte of the mask a lane."
T      = ["f64", "f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
when   = ["sm == 75 or T == bf16"]
params = ["const T* dy", "const u8* mask", "T* dx", "int64_t count", "Acc_T factor"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 4096)", 1, 1]
needs  = ["1 <= count < 2**35"]
problems = ["dropout_bwd dy=3x5x11:{T} mask=21:u8 dx=3x55:{T} p=0.3",
            "dropout_bwd dy=4096:{T} mask=512:u8 dx=64x64:{T}",
            "dropout_bwd dy=3x4099:{T} mask=1538:u8 dx=3x4099:{T} p=0.75"]
@*/
// Blocks and warps as in dropout_fwd_vector.
#include "select.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* dy, const u8* mask, T* dx, int64_t count, Acc_T factor) {
    const int lane = threadIdx.x % 32;
    const i64 first = i64(blockIdx.x) * 512 + threadIdx.x / 32 * 64;

    if ((i64(blockIdx.x) + 1) * 4096 <= count) {
        Octets<T> held[2];
        unsigned bits[2];
        UNROLL for (int u = 0; u < 2; ++u) {
            held[u].load(dy + (first + 32 * u) * 8);
            bits[u] = mask[first + 32 * u + lane];
        }
        UNROLL for (int u = 0; u < 2; ++u) held[u].store(dx + (first + 32 * u) * 8, bits[u], factor);
        return;
    }
    NO_UNROLL for (i64 octet = first + lane; octet < first + 64; octet += 32) {
        if (octet * 8 >= count) break;
        const unsigned bits = mask[octet];
        const int here = int(min(count - octet * 8, i64(8)));
        NO_UNROLL for (int i = 0; i < here; ++i)
            dx[octet * 8 + i] = chosen(dy[octet * 8 + i], bits >> i & 1, factor);
    }
}
