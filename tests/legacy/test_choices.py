"""A v5 function computes with what a graph of the same operation takes: every line of benchmarks/problems, as
on an H200."""
from functools import lru_cache
from pathlib import Path

import pytest

from cydnn import cudnn as c
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.heuristics import best
from cydnn.legacy import conv_compute
from cydnn.ops import Problem
from cydnn.status import NotSupported
from support.mirror import Mirror

from .arrays import NCHW, NHWC, conv_desc

FACTS = KNOWN["h200"]
PREFER_FASTEST = c.CUDNN_CONVOLUTION_FWD_PREFER_FASTEST
PROBLEMS = Path(__file__).resolve().parents[2] / "benchmarks" / "problems"
BESIDE = """conv_fprop n4c16d32h32w32 k16t3r3s3 pad1 f16
            conv_dgrad n4c16d32h32w32 k16t3r3s3 pad1 f16
            conv_wgrad n4c16d32h32w32 k16t3r3s3 pad1 f16"""      # what no benchmark has


@lru_cache(maxsize=None)
def problems() -> dict:
    """{op: {line: its problem}}."""
    found: dict = {}
    for text in (*(path.read_text() for path in sorted(PROBLEMS.glob("*.txt"))), BESIDE):
        for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
            found.setdefault(line.split()[0], {})[line] = Problem.parse(line)
    return found


# -- Convolution: the algorithm that is picked ---------------------------------------------------------------

# line: what the guide says of the algorithm that the graph's engine serves
FORBIDDEN = {"conv_fprop n32c512h7w7 k512r3s3 pad1 f32 acc=f32 nhwc":
             ["cudnnConvolutionForward: algo GEMM cannot: takes no NHWC filter"],
             "conv_wgrad n4c16d32h32w32 k16t3r3s3 pad1 f16":
             ["cudnnConvolutionBackwardFilter: algo ALGO_1 does not exist for rank 5"]}
DIRECTIONS = {"conv_fprop": (conv_compute.FORWARD, c.getConvolutionForwardAlgorithm, "x w y"),
              "conv_dgrad": (conv_compute.BACKWARD_DATA, c.getConvolutionBackwardDataAlgorithm, "w dy dx"),
              "conv_wgrad": (conv_compute.BACKWARD_FILTER, c.getConvolutionBackwardFilterAlgorithm,
                             "x dy dw")}


def descriptor(name, d):
    """A descriptor of an operand; a filter in the format of its strides."""
    if "w" in name:
        found = c.createFilterDescriptor()
        c.setFilterNdDescriptor(found, d.dtype.enum, NHWC if d.is_packed("nhwc") else NCHW, d.rank, d.dims)
    else:
        found = c.createTensorDescriptor()
        c.setTensorNdDescriptor(found, d.dtype.enum, d.rank, d.dims, d.strides)
    return found


def algorithms(call, first, second, conv, last) -> dict:
    """{algorithm: what its choice is, or why it cannot}."""
    found = {}
    for number, word in call.keys["algo"]:
        try:
            found[word] = call.choice(call.work((first, second, conv, number, last)), FACTS)
        except NotSupported as refusal:
            found[word] = refusal.args[0]
    return found


@pytest.mark.parametrize("op", DIRECTIONS)
def test_an_algorithm_reaches_what_the_graph_takes(op):
    """And the one that is picked costs no more. Transforms, which a graph takes only by name, may cost
    less."""
    (call, pick, names), handle, unreached = DIRECTIONS[op], c.create(Mirror("sm_90", FACTS)), {}
    for line, problem in problems()[op].items():
        taken = best(graph_of(problem), FACTS)
        pad, _, stride, _ = problem.op.geometry(problem.descs[0].rank)
        first, second, last = (descriptor(name, problem.operands[name]) for name in names.split())
        descs = first, second, conv_desc(pad, stride), last
        found = algorithms(call, *descs)
        if taken.text not in [str(one) for one in found.values()]:
            unreached[line] = [found[word] for word in taken.engine.v5]
        else:
            picked = found[call.keys["algo"].word(pick(handle, *descs, PREFER_FASTEST, 0))]
            assert picked.us <= taken.us, line
    c.destroy(handle)
    assert unreached == {line: rules for line, rules in FORBIDDEN.items() if line in problems()[op]}
