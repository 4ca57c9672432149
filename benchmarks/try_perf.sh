#!/bin/bash
# TEMPORARY, not to be merged. Run from the repository root on the GPU: bash benchmarks/try_perf.sh   (about 60 s)
P=${PYTHON:-python3}
export PYTHONPATH=$PWD
$P setup.py -q build_ext --inplace >/dev/null 2>&1 || exit 1
$P benchmarks/try_perf.py
# are overlapping launches right? the matrix of the families, and the new kernels
$P - <<'PY'
import random, sys, time
sys.path.insert(0, "tests/.."); sys.path.insert(0, ".")
from cydnn import device, ops
from tests.support import matrix
from tests.support.draw import draw
dev, end, ran, bad = device.get("cuda:0"), time.time() + 45, 0, []
rng = random.Random(5)
classes = [ops.BatchNormTraining, ops.BatchNormBwd, ops.SoftmaxFwd, ops.SoftmaxBwd, ops.Reduction, ops.PoolingBwd]
while time.time() < end:
    problem, seed = draw(rng.choice(classes), rng), rng.randrange(1000)
    out = matrix.run(problem, dev, seed)
    ran += len(out.ran); bad += [f"{problem} seed={seed}: {f}" for f in out.findings]
print(ran, "runs,", len(bad), "findings"); print("\n".join(bad[:20]))
PY
