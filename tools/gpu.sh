#!/usr/bin/env bash
# On a GPU machine without network: build the extension, bring the GPU record up to date, the digits, the benchmarks.
# Usage: tools/gpu.sh OUT [test|digits|host|bench …]   (default: all). Results and logs go to OUT.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$1; shift
mkdir -p "$out"
steps=${*:-test digits host bench}
export PYTHONUNBUFFERED=1 PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
python3 setup.py -q build_ext --inplace >"$out/build.log" 2>&1 || { cat "$out/build.log"; exit 1; }
python3 -m cydnn info || exit 1
for step in $steps; do
    echo "== $step"
    case $step in
        test)   python3 tools/gpu_record.py --out "$out" --seconds 1500; python3 tools/gpu_record.py --merge "$out/part.jsonl"; python3 -m pytest -q -m timing 2>&1 | tee "$out/timing.log" | tail -30 ;;
        digits) python3 examples/digits.py --device cuda:0 --picture "$out/digits.png" --record "$out/digits.json" 2>&1 | tail -6 ;;
        host)   python3 benchmarks/host.py --json "$out/host.json" 2>&1 | tee "$out/host.log" | tail -30 ;;
        bench)  python3 benchmarks/run.py ${FAMILIES:-} --out "$out" --repeat "${REPEAT:-20}" 2>&1 | tee "$out/bench.log" | tail -150 ;;
    esac
done
