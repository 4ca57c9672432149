/*@kernel
name   = "grouped_matmul_gather"
about  = "Rows of 16-bit elements that an index names, one behind the other; 0 for those that are not there."
params = ["const int* index", "int64_t index_step", "const f16* x", "int64_t x_step", "f16* gathered",
          "int64_t pitch", "int tokens", "int m", "int k", "FastDiv chunks"]
block  = [256, 1, 1]
grid   = ["ceil_div(m * chunks, 256)", 1, 1]
needs  = ["m >= 1", "k >= 1", "chunks == ceil_div(k, 8)", "m * chunks < 2147483648",
          "x_step % 8 == 0 or tokens <= 1", "pitch % 8 == 0", "pitch >= k"]
problems = [
    """grouped_matmul x=1x19x44:f16@1824,96,1 w=2x44x24:f16@1152,1,48 offsets=3x1x1:i32 \
       index=1x37x1:i32@74,2,1 y=1x37x24:f16 mode=gather"""]
@*/
// A thread copies 8 elements; the last ones of a row alone where they are fewer.
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(const int* index, i64 index_step, const f16* x,
                                                         i64 x_step, f16* gathered, i64 pitch, int tokens,
                                                         int m, int k, FastDiv chunks) {
    unsigned chunk;
    const unsigned row = chunks.divmod(blockIdx.x * 256 + threadIdx.x, chunk);
    if (row >= unsigned(m)) return;
    const int token = index[row * index_step], at = chunk * 8;
    f16* to = gathered + row * pitch + at;
    const f16* from = x + i64(token) * x_step + at;
    const bool is_there = unsigned(token) < unsigned(tokens);
    if (at + 8 <= k) {
        using Eight = Vec<f16, 8>;
        Eight v = {};
        if (is_there) v = Eight::load_nc(from);
        v.store(to);
    } else NO_UNROLL for (int e = 0; at + e < k; ++e) to[e] = is_there ? from[e] : f16(0);
}
