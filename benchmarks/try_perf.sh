#!/bin/bash
# TEMPORARY, not to be merged. Run from the repository root on the GPU: bash benchmarks/try_perf.sh   (about 40 s)
P=${PYTHON:-python3}
export PYTHONPATH=$PWD
$P setup.py -q build_ext --inplace >/dev/null 2>&1 || exit 1
$P benchmarks/try_perf.py
$P -m pytest -q -m gpu tests/gpu/test_bits.py -k "batch_norm or pooling_bwd_max_nhwc_strip or softmax_bwd_cluster" 2>&1 | tail -15
