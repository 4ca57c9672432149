#!/bin/bash
# TEMPORARY, not to be merged. Run from the repository root on the GPU: bash benchmarks/try_perf.sh   (about 60 s)
P=${PYTHON:-python3}
export PYTHONPATH=$PWD
M=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__inst_issued.avg.pct_of_peak_sustained_active,sm__warps_active.avg.pct_of_peak_sustained_active,sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio,smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio,smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio,lts__t_sector_hit_rate.pct,l1tex__t_sector_hit_rate.pct
$P benchmarks/try_perf.py pool
$P benchmarks/try_perf.py rest
for w in 1 2 4; do
  echo "== ncu words=$w"
  ncu --metrics $M -k regex:strip $P benchmarks/try_perf.py ncu $w "pooling_bwd n256c64h112w112 window=3 stride=2 pre_pad=1 mode=max bf16 nhwc" 2>&1 | grep -E "pooling|__" 
done
echo "== ncu launches"
ncu --metrics gpu__time_duration.sum,launch__grid_size,dram__bytes_read.sum,dram__bytes_write.sum -k regex:"norm|softmax|reduction|team" $P benchmarks/try_perf.py ncu 2 \
 "batch_norm_training n32c64h112w112 bf16 nhwc" "batch_norm_training n32c512h28w28 bf16 nhwc" "batch_norm_training n32c2048h7w7 bf16 nhwc" "batch_norm_training n1c64h112w112 bf16 nhwc" \
 "softmax_fwd 128x128256 bf16" "softmax_bwd 128x128256 bf16" "softmax_fwd 8x1000000 bf16" "softmax_bwd 8x1000000 bf16" \
 "reduction x=8192x8192:bf16 y=1x8192:bf16 mode=add" "reduction x=8192x8192:bf16 y=8192x1:bf16 mode=add" "reduction x=8192x8192:bf16 y=1x1:f32 mode=amax" \
 "pooling_fwd n256c2048h7w7 window=7 mode=avg_include_padding bf16 nhwc" 2>&1 | grep -E "^ +[a-z_0-9]+ \(|__"
