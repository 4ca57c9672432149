"""A row of attention through prefill, chunked prefill and decode: the same within a last place of its largest
number. And what a value does that is no number."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import device as devices, plan
from cydnn.bench import graph_of
from cydnn.engines import BY_INDEX
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from support.check import matrix

HEADS, KEYS, SIZE, CHUNK = 1, 40, 16, 9          # of which the last rows are a chunk, the last one is decoded


def attended(device, engine: int, q, k, v, causal: str):
    """o of queries against keys (h, rows, d) of f16."""
    rows, keys = q.shape[1], k.shape[1]
    text = (f"sdpa q=1x{HEADS}x{rows}x{SIZE}:f16 k=1x{HEADS}x{SIZE}x{keys}:f16"
            f"@{HEADS * keys * SIZE},{keys * SIZE},1,{SIZE} v=1x{HEADS}x{keys}x{SIZE}:f16 "
            f"o=1x{HEADS}x{rows}x{SIZE}:f16 {causal}")
    built = plan.build(graph_of(Problem.parse(text)), device, Wish(engines=(engine,)))
    o = np.full(q.shape, np.nan, np.float16)
    k = np.ascontiguousarray(k)[None].transpose(0, 1, 3, 2)
    built.execute([np.ascontiguousarray(q)[None], k, np.ascontiguousarray(v)[None], o[None]],
                  np.empty(built.workspace_bytes, np.uint8))
    return o


@pytest.mark.parametrize("prefill", [421, 422])
def test_a_row_through_prefill_chunk_and_decode(prefill):
    gen = np.random.default_rng(3)
    q, k, v = (gen.uniform(-1, 1, (HEADS, KEYS, SIZE)).astype(np.float16) for _ in range(3))
    device = devices.get("ptx:sm_90")
    whole = attended(device, prefill, q, k, v, "right=0")
    chunk = attended(device, prefill, q[:, -CHUNK:], k, v, "right=0 diagonal=bottom_right")
    last = attended(device, 422, q[:, -1:], k, v, "")
    for found, rows in ((chunk, CHUNK), (last, 1)):
        want = whole[:, -rows:]
        place = np.spacing(abs(want).max(2, keepdims=True)).astype(float)
        assert (abs(found.astype(float) - want.astype(float)) <= place).all()


@pytest.mark.parametrize("engine, kind", [(420, "f16"), (421, "f16"), (422, "f16"), (423, "f8_e4m3")])
@pytest.mark.parametrize("more", ["left=2 right=0", "right=0 len_kv=1x1x1x1:i32"])
def test_a_value_that_is_no_number(engine, kind, more):
    """Tensor cores spread it over its column where bounds hide it, not from behind a length."""
    problem = Problem.parse(f"sdpa q=1x2x9x16:{kind} k=1x1x16x40:{kind}@640,640,1,16 v=1x1x40x16:{kind} "
                            f"o=1x2x9x16:f16 {more}")
    numbers = dict(scalars=matrix.plain(problem.op), nans=("v",))
    for seed in range(3):
        found = matrix.run(problem, devices.get("ptx:sm_90"), seed, [BY_INDEX[engine]], **numbers)
        assert found.ran and not found.findings
    made = matrix.Prepared(problem, 0, **numbers)
    assert made.reached("o", BY_INDEX[engine]).any() == (engine != 420)
