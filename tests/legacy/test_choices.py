"""A v5 function computes with what a graph of the same operation takes: every line of benchmarks/problems, as
on an H200."""
import re
from functools import lru_cache
from pathlib import Path

import pytest

from cydnn import cudnn as c
from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.heuristics import best
from cydnn.legacy import (activation, batch_norm, conv_compute, divisive_norm, dropout, im2col, lrn, pooling,
                          rnn_compute, softmax, spatial, tensor_ops)
from cydnn.legacy.convolution import Convolution
from cydnn.legacy.enums import (ACTIVATION_MODE, CONVOLUTION_MODE, DATA_TYPE, NAN, OP_TENSOR, POOLING_MODE,
                                RNN_INPUT_MODE, RNN_MODE)
from cydnn.legacy.filter import Filter
from cydnn.legacy.rnn import RnnFields
from cydnn.ops import Problem
from cydnn.ops.rnn_network import STATES
from cydnn.status import NotSupported
from cydnn.tensor import TensorDesc
from support.guard.mirror import Mirror

from .arrays import NCHW, NHWC, conv_desc

FACTS = KNOWN["h200"]
PREFER_FASTEST = c.CUDNN_CONVOLUTION_FWD_PREFER_FASTEST
MOST = 1 << 40                                   # bytes of a reserve
PROBLEMS = Path(__file__).resolve().parents[2] / "benchmarks" / "problems"
BESIDE = """conv_fprop n4c16d32h32w32 k16t3r3s3 pad1 f16
            conv_dgrad n4c16d32h32w32 k16t3r3s3 pad1 f16
            conv_wgrad n4c16d32h32w32 k16t3r3s3 pad1 f16
            batch_norm_inference n256c256h56w56 bf16 nhwc
            add_tensor a=1x256x1x1:f16 c=256x256x56x56:f16
            op_tensor a=256x256x56x56:f16 b=1x256x1x1:f16
            scale_tensor 256x256x56x56 f16
            set_tensor 256x256x56x56 f16"""          # what no benchmark has


@lru_cache(maxsize=None)
def problems() -> dict:
    """{op: {line: its problem}}."""
    found: dict = {}
    for text in (*(path.read_text() for path in sorted(PROBLEMS.glob("*.txt"))), BESIDE):
        for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
            found.setdefault(line.split()[0], {})[line] = Problem.parse(line)
    return found


# -- Convolution: the algorithm that is picked ---------------------------------------------------------------

# What the guide says of the algorithm that the graph's engine serves, of volumes and of f32 alone
FORBIDDEN = re.compile(r"\w+: algo \w+ (cannot: takes no NHWC filter|does not exist for rank 5)")
DIRECTIONS = {"conv_fprop": (conv_compute.FORWARD, c.getConvolutionForwardAlgorithm, "x w y"),
              "conv_dgrad": (conv_compute.BACKWARD_DATA, c.getConvolutionBackwardDataAlgorithm, "w dy dx"),
              "conv_wgrad": (conv_compute.BACKWARD_FILTER, c.getConvolutionBackwardFilterAlgorithm,
                             "x dy dw")}


def descriptor(name, d, form=NCHW):
    """A descriptor of an operand; a filter in a format."""
    if "w" in name:
        found = c.createFilterDescriptor()
        c.setFilterNdDescriptor(found, d.dtype.enum, form, d.rank, d.dims)
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
        if "groups=" in line or "dilation=" in line or max(d.count for d in problem.descs) > 2 ** 31:
            continue                             # v5 has none of these
        taken = best(graph_of(problem), FACTS)
        pad, _, stride, _ = problem.op.geometry(problem.descs[0].rank)
        operands = [problem.operands[name] for name in names.split()]       # a filter of one tap is both
        form = NHWC if all(d.is_packed("nhwc") for d in operands) else NCHW
        first, second, last = (descriptor(*pair, form) for pair in zip(names.split(), operands))
        descs = first, second, conv_desc(pad, stride), last
        found = algorithms(call, *descs)
        rules = [found[word] for word in taken.engine.v5]
        faster = [one for one in rules if not isinstance(one, str) and one.us <= taken.us]      # F(4x4), too
        if taken.text not in [str(one) for one in found.values()] and not faster:
            unreached[line] = rules
        else:
            picked = found[call.keys["algo"].word(pick(handle, *descs, PREFER_FASTEST, 0))]
            assert picked.us <= taken.us, line
    c.destroy(handle)
    first = {line: problems()[op][line].descs[0] for line in unreached}
    wrong = {line: rules for line, rules in unreached.items() if not all(map(FORBIDDEN.fullmatch, rules))
             or first[line].rank < 5 and first[line].dtype.name != "f32"}
    assert not wrong


# -- All else: one choice ------------------------------------------------------------------------------------

def said(call, *contents, given=None):
    """(call, its work) of what descriptors and enums say; ``given``: the optional pointers that are not
    NULL."""
    return call, call.meaning(call, *contents, **(dict(given=given) if call.optional else {}))


def at_rank_4(d):
    """As v5 describes tensors of fewer dims."""
    more = (1,) * (4 - d.rank)
    return TensorDesc(d.dtype, d.dims + more, d.strides + more)


def number(enum, word) -> int:
    return next(n for n, w in enum if w == word)


def activated(o, x, b, t, y):
    word, _, way = o.mode.partition("_")
    how = activation.Activation(number(ACTIVATION_MODE, word), number(NAN, o.nan), 0.0)
    x, y = at_rank_4(x), at_rank_4(y)
    return said(activation.FORWARD, how, x, y) if way == "fwd" else said(activation.BACKWARD, how, x, x, y, y)


def pool(o):
    return pooling.Pooling(number(POOLING_MODE, o.mode), number(NAN, o.nan),
                           *(o.spread(name, 2) for name in ("window", "pre_pad", "stride")))


def columns(o, x, col):
    pads, steps, window = (o.spread(name, 2) for name in ("pre_pad", "stride", "window"))
    conv = Convolution(pads, steps, (1, 1), number(CONVOLUTION_MODE, o.mode), None)
    return said(im2col.IM2COL, x, Filter(TensorDesc.packed(x.dtype, (1, x.c, *window)), "nchw"), conv)


def network(call, keys, o, d):
    """``keys``: what is said behind the length, by the names of operands."""
    kind = RnnFields(o.hidden, o.layers, number(RNN_INPUT_MODE, o.input), int(o.bidirectional),
                     number(RNN_MODE, o.cell), number(DATA_TYPE, o.compute))
    of_kind = {"sequence": lambda v: [descriptor("", TensorDesc.packed(v.dtype, (o.batches[0], v.dims[1], 1)))
                                      ] * len(o.batches),
               "blob": lambda v: Filter(TensorDesc.packed(v.dtype, (v.count, 1, 1)), "nchw"),
               "state": lambda v: lambda _=False: TensorDesc.packed(
                   v.dtype, (v.dims[0] * v.dims[1], *v.dims[2:]))}
    forms = {**dict.fromkeys(("x", "y", "dx", "dy"), "sequence"), "w": "blob", "dw": "blob",
             **dict.fromkeys(STATES, "state")}
    contents = [MOST if k not in forms else d[k] and of_kind[forms[k]](d[k]) for k in keys.split()]
    given = ["reserveSpace" if name == "reserve" else name for name, v in d.items() if v is not None]
    return said(call, kind, dropout.Dropout(o.dropout), len(o.batches), *contents, given=given)


def lrned(o):
    return lrn.LRN(o.window, o.scale, o.power, o.offset), "CROSS_CHANNEL_DIM1"


def sampled(d):
    return spatial.SpatialTransformer(0, d.dtype.enum, d.dims)


def gridded(d):
    return spatial.SpatialTransformer(0, d.dtype.enum, (d.dims[0], 1, *d.dims[1:3]))


WORKS = {                                        # op: what a line of it is as a v5 call
    "conv_bgrad": lambda o, dy, db: said(conv_compute.BIAS, dy, db),
    "softmax_fwd": lambda o, x, y, **_: said(softmax.FORWARD, o.algorithm, o.mode, at_rank_4(x),
                                             at_rank_4(y)),
    "softmax_bwd": lambda o, y, dy, dx: said(softmax.BACKWARD, o.algorithm, o.mode,
                                             *map(at_rank_4, (y, dy, dx))),
    "pooling_fwd": lambda o, x, y: said(pooling.FORWARD, pool(o), x, y),
    "pooling_bwd": lambda o, y, dy, x, dx: said(pooling.BACKWARD, pool(o), y, dy, x, dx),
    "pointwise": activated,
    "lrn_fwd": lambda o, x, y: said(lrn.FORWARD, *lrned(o), x, y),
    "lrn_bwd": lambda o, x, dy, dx: said(lrn.BACKWARD, *lrned(o), x, dy, x, dx),
    "divisive_norm_fwd": lambda o, x, means, y: said(divisive_norm.FORWARD, *lrned(o), x, y,
                                                     given=["means"] if means else []),
    "divisive_norm_bwd": lambda o, x, means, dy, dx, dmeans: said(
        divisive_norm.BACKWARD, *lrned(o), x, dx,
        given=[name for name, d in (("means", means), ("dMeans", dmeans)) if d]),
    "batch_norm_inference": lambda o, x, y, scale, **_: said(batch_norm.INFERENCE, o.mode, x, y, scale),
    "batch_norm_training": lambda o, x, y, scale, **_: said(
        batch_norm.TRAINING, o.mode, x, y, scale, given=["resultSaveMean", "resultSaveInvVariance"]),
    "batch_norm_bwd": lambda o, x, dy, dx, scale, **_: said(
        batch_norm.BACKWARD, o.mode, x, dy, dx, scale, given=["savedMean", "savedInvVariance"]),
    "rnn_fwd": lambda o, **d: network(rnn_compute.TRAINING, "x hx cx w y hy cy workspace reserve", o, d),
    "rnn_bwd_data": lambda o, **d: network(
        rnn_compute.DATA, "y dy dhy dcy w hx cx dx dhx dcx workspace reserve", o, d),
    "rnn_bwd_weights": lambda o, **d: network(rnn_compute.WEIGHTS, "x hx y workspace dw reserve", o, d),
    "dropout_fwd": lambda o, x, y, **_: said(dropout.FORWARD, dropout.Dropout(o.p), at_rank_4(x),
                                             at_rank_4(y), MOST),
    "dropout_bwd": lambda o, dy, dx, **_: said(dropout.BACKWARD, dropout.Dropout(o.p), at_rank_4(dy),
                                               at_rank_4(dx), MOST),
    "spatial_grid_fwd": lambda o, theta, grid: said(spatial.GRID_FORWARD, gridded(grid)),
    "spatial_grid_bwd": lambda o, dgrid, dtheta: said(spatial.GRID_BACKWARD, gridded(dgrid)),
    "spatial_sampler_fwd": lambda o, x, grid, y: said(spatial.SAMPLER_FORWARD, sampled(y), x, y),
    "spatial_sampler_bwd": lambda o, x, dy, grid, dx, dgrid: said(
        spatial.SAMPLER_BACKWARD, sampled(dy), x, dx, dy),
    "transform": lambda o, x, y: said(tensor_ops.TRANSFORM, at_rank_4(x), at_rank_4(y)),
    "add_tensor": lambda o, a, c: said(tensor_ops.ADD, a, c),
    "op_tensor": lambda o, a, b, c: said(
        tensor_ops.OP, tensor_ops.OpTensorFields(number(OP_TENSOR, o.mode), number(DATA_TYPE, o.compute),
                                                 number(NAN, o.nan)), a, b, c),
    "set_tensor": lambda o, y: said(tensor_ops.SET, y),
    "scale_tensor": lambda o, y: said(tensor_ops.SCALE, y),
    "im2col": columns,
}
ONLY_GRAPHS = {"matmul", "reduction", "dropout_factors", "norm_fwd", "norm_bwd", "sdpa", "sdpa_bwd",
               "concatenate", "resample_bwd", "resample_fwd", "rng", "rope", "slice", "transpose",
               "grouped_matmul", "grouped_matmul_wgrad", "block_scale_quantize", "block_scale_dequantize"}


def test_every_operation_of_the_benchmarks_is_looked_at():
    assert problems().keys() == {*DIRECTIONS, *WORKS, *ONLY_GRAPHS}


@pytest.mark.parametrize("op", WORKS)
def test_a_call_takes_what_the_graph_takes(op):
    for line, problem in problems()[op].items():
        if op == "pointwise" and problem.op.mode.partition("_")[0] not in activation.MODES:
            continue
        call, work = WORKS[op](problem.op, **problem.operands)
        assert call.choice(work, FACTS).text == best(graph_of(problem), FACTS).text, line
