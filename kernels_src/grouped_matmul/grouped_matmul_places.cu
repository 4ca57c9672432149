/*@kernel
name   = "grouped_matmul_places"
about  = "For each place 1 + the last row of a group that is scattered to it; others keep their 0."
params = ["const int* offsets", "int64_t offsets_step", "int count", "int groups", "const int* index",
          "int64_t index_step", "const int* slot", "int64_t slot_step", "int top_k", "int m", "int* rows_of"]
block  = [256, 1, 1]
grid   = ["ceil_div(m, 256)", 1, 1]
needs  = ["m >= 1", "count >= 1"]
problems = [
    """grouped_matmul x=1x300x8:f32 w=2x8x20:f32 offsets=5x1x1:i64 index=1x300x1:i32@600,2,1 \
       slot=1x300x1:i32 mode=scatter top_k=3"""]
@*/
#include "grouped_matmul/groups.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(const int* offsets, i64 offsets_step, int count,
                                                         int groups, const int* index, i64 index_step,
                                                         const int* slot, i64 slot_step, int top_k, int m,
                                                         int* rows_of) {
    const int row = blockIdx.x * 256 + threadIdx.x;
    if (row >= m || Groups{offsets, offsets_step, count, groups}.of(row) < 0) return;
    const int place = place_of(index[row * index_step], slot[row * slot_step], top_k, m);
    if (place >= 0) atomicMax(rows_of + place, row + 1);
}
