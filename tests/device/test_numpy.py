"""The device of the references."""
import numpy as np
import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.ops import OPS
from support.draw import gpu_draws


@pytest.mark.parametrize("op", [op for op in OPS if not op.shared - op.optional], ids=lambda op: op.name)
@pytest.mark.filterwarnings("error")
def test_inf_and_nan_are_results(op):
    """Of any bits, whatever the program asks NumPy to raise."""
    rng = np.random.default_rng(1)
    for problem in gpu_draws(op, "any bits", 4):
        built = plan.build(graph_of(problem), "numpy")
        arrays = [np.frombuffer(rng.bytes(t.bytes), np.uint8).copy() for t in built.layout.slots]
        with np.errstate(all="raise"):
            built.execute(arrays)
