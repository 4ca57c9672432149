/*@kernel
name   = "peer_reduction_{MODE}"
about  = "Two statistics of each channel of all GPUs, by mailboxes that each of them has in its memory."
MODE   = ["moments", "sums"]
params = ["const float* a", "const float* b", "float* a_all", "float* b_all", "float* count", "int channels",
          "int peers", "int rank", "int share", "int64_t patience", "Array<u64*, 32> boxes"]
block  = [128, 1, 1]
grid   = ["ceil_div(channels, 128)", 1, 1]
needs  = ["1 <= channels < 2**31 - 128", "1 <= peers <= 32", "0 <= rank < peers", "1 <= share"]
problems = [
    """peer_reduction a=1x150:f32 b=1x150:f32 peers=1800:f32+1800:f32+1800:f32 mode={MODE} rank=1 \
       share=12"""]
@*/
// A thread a channel.
#include "mail.cuh"

constexpr int MODE_moments = 0, MODE_sums = 1;
#define JOIN_(A, B) A##B
#define JOIN(A, B) JOIN_(A, B)

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const float* a, const float* b, float* a_all, float* b_all, float* count, int channels, int peers,
    int rank, int share, i64 patience, Array<u64*, 32> boxes) {
    const int c = blockIdx.x * 128 + threadIdx.x;
    if (c >= channels) return;
    const Peers all_peers = {channels, peers, rank, share, patience};
    const Joined all =
        exchanged<JOIN(MODE_, MODE) == MODE_moments>(all_peers, boxes, c, a[c], b[c]);
    a_all[c] = float(all.first), b_all[c] = float(all.second), count[c] = float(all.total);
}
