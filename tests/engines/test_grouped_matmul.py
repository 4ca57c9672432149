"""Grouped products on Hopper: groups of any length and in any order, rows that move."""
import numpy as np
import pytest

from cydnn import device as devices
from cydnn.bench import Case, graph_of
from cydnn.device.facts import KNOWN
from cydnn.heuristics import Wish, best
from cydnn.ops import Problem

H200 = KNOWN["h200"]
ROWS = "x=1x300x72:f16 w=3x72x40:f16@2880,1,72 offsets={}x1x1:i32"


@pytest.mark.parametrize("offsets", [[0, 130, 130], [7, 64, 299], [290, 20, 128], [-5, 400, 3],
                                     [9, 9, 9, 200], [0, 64, 0, 128, 140, 300]])
@pytest.mark.parametrize("line", [
    f"grouped_matmul {ROWS}",
    f"grouped_matmul {ROWS} index=1x300x1:i32 slot=1x300x1:i32 mode=scatter top_k=2",
    "grouped_matmul x=1x50x72:f16 w=3x72x40:f16 offsets={}x1x1:i32 index=1x300x1:i32 mode=gather",
    "grouped_matmul_wgrad x=1x300x136:f16 dy=1x300x40:f16 offsets={}x1x1:i32 dw=3x136x40:f16"])
def test_groups(line, offsets):
    """Whole numbers, whose sums are exact: all that the reference gives, in offsets that fall or lie outside
    of the rows, too. Half of the places come twice."""
    problem = Problem.parse(line.format(len(offsets)))
    device, rng = devices.get("ptx:sm_90"), np.random.default_rng(3)
    case = Case(problem, device, Wish(engines=(503 if "dw" not in problem.operands else 504,)))
    arrays = {}
    for name in problem.op.reads:
        d = problem.operands[name]
        if d is not None:
            values = (np.array(offsets).reshape(-1, 1, 1) if name == "offsets" else
                      rng.integers(-2, 152 if d.dtype.name == "i32" else 3, d.dims))
            arrays[name] = values.astype(float)
            flat = np.zeros(d.extent)
            np.lib.stride_tricks.as_strided(flat, d.dims, [8 * s for s in d.strides])[...] = values
            device.copy_in(case.buffers[name].ptr, d.dtype.encode(flat))
    out = problem.op.writes[0]
    device.copy_in(case.buffers[out].ptr, np.full(problem.operands[out].bytes, 0xFF, np.uint8))
    case()
    arrays[out] = np.zeros(problem.operands[out].dims)
    np.testing.assert_array_equal(case.output(out), problem.op.evaluate(arrays, {})[out])


def test_who_serves():
    name = lambda text: best(graph_of(Problem.parse(text)), H200).parts[0].engine.index
    assert name("grouped_matmul x=1x4096x512:f16 w=3x512x512:f16 offsets=3x1x1:i32") == 503
    assert name("grouped_matmul_wgrad x=1x64x64:bf16 dy=1x64x64:bf16 offsets=3x1x1:i32") == 504
    assert name("grouped_matmul x=1x64x64:f32 w=3x64x40:f32 offsets=3x1x1:i32") == 500
