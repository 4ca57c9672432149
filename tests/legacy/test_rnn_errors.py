"""Recurrent networks of the v5 API: every documented error, its status and its sentence; nothing is
written."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from .arrays import BFLOAT16, DOUBLE, FLOAT, HALF, NHWC, filter_desc, tensor_desc
from .recurrent import CALLS, GRU, LSTM, STATES, Network, dropout_desc


@pytest.fixture(scope="module")
def handle():
    found = c.create("numpy")
    yield found
    c.destroy(found)


@pytest.fixture(scope="module")
def net(handle):
    """A network whose calls all work: each test makes one argument wrong."""
    return Network(handle, LSTM, layers=2, bidirectional=True, batches=(3, 3, 2), p=0.5).train()


def destroyed(create, destroy):
    desc = create()
    destroy(desc)
    return desc


NOT_ALIVE = "rnnDesc must be a recurrent network descriptor that was created and not destroyed"
GONE_RNN = lambda: destroyed(c.createRNNDescriptor, c.destroyRNNDescriptor)
GONE_TENSOR = lambda: destroyed(c.createTensorDescriptor, c.destroyTensorDescriptor)
GONE_FILTER = lambda: destroyed(c.createFilterDescriptor, c.destroyFilterDescriptor)


# -- Descriptors ---------------------------------------------------------------------------------------------

def test_destroying(handle, refused):
    c.destroyRNNDescriptor(None)
    c.destroyRNNDescriptor(0)
    refused(c.destroyRNNDescriptor, BadParam, NOT_ALIVE, GONE_RNN())
    refused(c.destroyRNNDescriptor, BadParam, "rnnDesc must be a recurrent", c.createTensorDescriptor())


@pytest.mark.parametrize("wrong, words", [
    (dict(rnnDesc=None), "rnnDesc must not be NULL"),
    (dict(rnnDesc=GONE_RNN), NOT_ALIVE),
    (dict(hiddenSize=0), "hiddenSize must be >= 1; got 0"),
    (dict(numLayers=-1), "numLayers must be >= 1; got -1"),
    (dict(dropoutDesc=None), "dropoutDesc must not be NULL"),
    (dict(dropoutDesc=c.createRNNDescriptor), "dropoutDesc must be a dropout descriptor"),
    (dict(inputMode=2), "inputMode must be one of CUDNN_LINEAR_INPUT .*; got 2"),
    (dict(direction=-1), "direction must be one of CUDNN_UNIDIRECTIONAL .*; got -1"),
    (dict(mode=4), "mode must be one of CUDNN_RNN_RELU .*; got 4"),
    (dict(dataType=3), "dataType must be one of CUDNN_DATA_FLOAT .*; got 3"),
], ids=lambda v: next(iter(v)) if isinstance(v, dict) else "")
def test_setting(handle, refused, wrong, words):
    good = dict(rnnDesc=c.createRNNDescriptor(), hiddenSize=3, numLayers=1,
                dropoutDesc=dropout_desc(handle)[0], inputMode=0, direction=0, mode=LSTM, dataType=FLOAT)
    c.setRNNDescriptor(**good)
    refused(c.setRNNDescriptor, BadParam, words, **{**good, **{k: v() if callable(v) else v
                                                              for k, v in wrong.items()}})


# -- Sequences, in queries and in calls ----------------------------------------------------------------------

SIZES = (c.getRNNWorkspaceSize, c.getRNNTrainingReserveSize)
WRONG_NETWORKS = [
    (lambda: None, "rnnDesc must not be NULL"), (lambda: 0, "rnnDesc must not be NULL"),
    (GONE_RNN, NOT_ALIVE),
    (c.createRNNDescriptor, "rnnDesc must be set; got a recurrent network descriptor that was only created"),
    (c.createDropoutDescriptor, "rnnDesc must be a recurrent network descriptor")]
WRONG_STEPS = [                                  # (seqLength, what the descriptors become, words)
    (0, lambda d: d, "seqLength must be >= 1; got 0"),
    (-3, lambda d: d, "seqLength must be >= 1; got -3"),
    (4, lambda d: d, "must have at least seqLength = 4 descriptors; got 3"),
    (3, lambda d: d[:2], "must have at least seqLength = 3 descriptors; got 2"),
    (3, lambda d: [d[0], None, d[2]], r"\[1\] must not be NULL"),
    (3, lambda d: [d[0], d[1], GONE_TENSOR()], r"\[2\] must be a tensor descriptor that was created and not"),
    (3, lambda d: [c.createTensorDescriptor(), *d[1:]], r"\[0\] must be set"),
    (3, lambda d: [d[0], d[2], d[1]], r"\[2\] must have a batch <= 2, that of the step before; got \(3, "),
    (3, lambda d: [d[0], tensor_desc(3, 9, 1), d[2]], r"\[1\] must have second dim .* like .*\[0\]; got"),
    (3, lambda d: [d[0], retyped(d[1]), d[2]], r"\[1\] must have data type f32 like .*\[0\]; got f64"),
    (3, lambda d: [d[0], d[1], spread(d[2])], r"\[2\] must be fully packed; got dims"),
    (3, lambda d: [flat(d[0]), *d[1:]], r"\[0\] must have dims \(batch, width, 1\); got \(3, 1, "),
]
STEP_IDS = ["zero", "negative", "too-many-steps", "too-few-descs", "null", "destroyed", "unset", "growing",
            "width", "type", "gaps", "rank"]


def dims_of(desc):
    return c.getTensorNdDescriptor(desc, 8)[2]


def retyped(desc):
    return tensor_desc(*dims_of(desc), dtype=DOUBLE)


def spread(desc):
    n, width, _ = dims_of(desc)
    return tensor_desc(n, width, 1, strides=(width + 1, 1, 1))


def flat(desc):
    n, width, _ = dims_of(desc)
    return tensor_desc(n, 1, width)


@pytest.mark.parametrize("size", SIZES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("make, words", WRONG_NETWORKS, ids=["null", "zero", "destroyed", "unset", "kind"])
def test_sizes_of_no_network(net, refused, size, make, words):
    refused(size, BadParam, words, net.handle, make(), 3, net.x_descs)


@pytest.mark.parametrize("size", SIZES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("steps, change, words", WRONG_STEPS, ids=STEP_IDS)
def test_sizes_of_wrong_sequences(net, refused, size, steps, change, words):
    refused(size, BadParam, words, net.handle, net.rnn, steps, change(list(net.x_descs)))


@pytest.mark.parametrize("size", SIZES, ids=lambda f: f.__name__)
def test_sizes_of_types_that_do_not_go(net, refused, size):
    descs = [tensor_desc(2, 4, 1, dtype=DOUBLE)]
    refused(size, NotSupported, "xDesc must have a data type that dataType f32 of rnnDesc computes; got f64",
            net.handle, net.rnn, 1, descs)
    refused(size, TypeError, "xDesc must be a sequence of tensor descriptors, not an address; got 4096",
            net.handle, net.rnn, 1, 4096)
    refused(size, BadParam, "handle must not be NULL", None, net.rnn, 1, net.x_descs)


SEQUENCES = [(call, name) for call in CALLS for name in CALLS[call].split() if name in (
    "xDesc", "yDesc", "dxDesc", "dyDesc")]


@pytest.mark.parametrize("call, name", SEQUENCES)
@pytest.mark.parametrize("steps, change, words", WRONG_STEPS[2:], ids=STEP_IDS[2:])
def test_wrong_sequences_of_calls(net, refused, call, name, steps, change, words):
    if steps == 4:                               # the others are long enough
        other = {n: [*net.argument(n), net.argument(n)[-1]] for n in CALLS[call].split()
                 if n in ("xDesc", "yDesc", "dxDesc", "dyDesc") and n != name}
    else:
        other = {}
    check(net, refused, call, BadParam, words, seqLength=steps, **{name: change(list(net.argument(name)))},
          **other)


def check(net, refused, call, error, words, **wrong):
    """Refused with these words, and every byte stays."""
    before = {name: t.raw.copy() for name, t in net.t.items()}
    kept = net.reserve.copy(), net.workspace.copy(), net.generator.copy()
    found = refused(getattr(c, call), error, words, **net.arguments(call, **wrong))
    for name, raw in before.items():
        np.testing.assert_array_equal(net.t[name].raw, raw, err_msg=name)
    for now, then in zip((net.reserve, net.workspace, net.generator), kept):
        np.testing.assert_array_equal(now, then)
    return found


# -- Calls ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("make, words", WRONG_NETWORKS, ids=["null", "zero", "destroyed", "unset", "kind"])
def test_calls_without_a_network(net, refused, call, make, words):
    check(net, refused, call, BadParam, words, rnnDesc=make())


@pytest.mark.parametrize("call", CALLS)
def test_calls_without_a_handle_or_steps(net, refused, call):
    check(net, refused, call, BadParam, "handle must not be NULL", handle=None)
    check(net, refused, call, BadParam, "seqLength must be >= 1; got 0", seqLength=0)
    name = "dxDesc" if call == "RNNBackwardData" else "xDesc"
    check(net, refused, call, TypeError, f"{name} must be a sequence of tensor descriptors", **{name: 4096})


@pytest.mark.parametrize("call, pointer", [(call, n) for call in CALLS for n in CALLS[call].split()
                                           if n in ("x", "y", "w", "dx", "dy", "dw", "reserveSpace")])
def test_data_must_not_be_null(net, refused, call, pointer):
    for null in (0, None):
        check(net, refused, call, BadParam, f"{pointer} must not be NULL", **{pointer: null})


@pytest.mark.parametrize("call", [call for call in CALLS if "reserve" in CALLS[call]])
def test_a_reserve_that_is_too_small(net, refused, call):
    size = net.reserve.nbytes
    for less in (size - 1, size // 2, 0):
        check(net, refused, call, BadParam, f"reserveSpaceSizeInBytes must be at least {size}, as "
              f"getRNNTrainingReserveSize says; got {less}", reserveSpaceSizeInBytes=less)


STATE_ARGUMENTS = [(call, n) for call in CALLS for n in CALLS[call].split() if n in STATES]


@pytest.mark.parametrize("call, name", STATE_ARGUMENTS)
def test_wrong_states(net, refused, call, name):
    wrong = lambda desc, words: check(net, refused, call, BadParam, words, **{f"{name}Desc": desc})
    wrong(None, f"{name}Desc must not be NULL")
    wrong(GONE_TENSOR(), f"{name}Desc must be a tensor descriptor that was created and not destroyed")
    wrong(c.createTensorDescriptor(), f"{name}Desc must be set")
    for dims in ((4, 2, 3), (2, 3, 3), (4, 3, 4), (1, 4, 3, 3)):
        wrong(tensor_desc(*dims), rf"{name}Desc must have dims \(4, 3, 3\) or \(2, 3, 6\); got ")
    wrong(tensor_desc(4, 3, 3, dtype=DOUBLE), f"{name}Desc must have data type f32; got f64")
    wrong(tensor_desc(4, 3, 3, strides=(12, 4, 1)), f"{name}Desc must be fully packed; got strides")
    if CALLS[call].count("hx"):                  # of several that are given all have one layout
        first = next(n for n in CALLS[call].split() if n in STATES)
        if name != first:
            wrong(tensor_desc(2, 3, 6), rf"{name}Desc must have dims \(4, 3, 3\) like the other states; got")


@pytest.mark.parametrize("call, name", [(call, n) for call in CALLS for n in ("wDesc", "dwDesc")
                                        if n in CALLS[call].split()])
def test_wrong_weights(net, refused, call, name):
    wrong = lambda desc, words: check(net, refused, call, BadParam, words, **{name: desc})
    wrong(None, f"{name} must not be NULL")
    wrong(GONE_FILTER(), f"{name} must be a filter descriptor that was created and not destroyed")
    wrong(c.createFilterDescriptor(), f"{name} must be set")
    for dims in ((net.params - 1, 1, 1), (1, net.params, 1), (net.params, 1, 1, 1)):
        wrong(filter_desc(*dims), rf"{name} must have dims \({net.params}, 1, 1\) in format NCHW; got")
    wrong(filter_desc(net.params, 1, 1, dtype=DOUBLE), f"{name} must have data type f32; got f64")
    wrong(filter_desc(net.params, 1, 1, format=NHWC), f"{name} must have .* in format NCHW; got .* in NHWC")


@pytest.mark.parametrize("call, name", [(call, n) for call, n in SEQUENCES if n not in ("xDesc", "dxDesc")])
def test_sequences_that_do_not_go_together(net, refused, call, name):
    wrong = lambda descs, words: check(net, refused, call, BadParam, words, **{name: descs})
    descs = lambda width, *batches, dtype=FLOAT: [tensor_desc(n, width, 1, dtype=dtype) for n in batches]
    wrong(descs(6, 3, 2, 2), rf"{name} must have batches \(3, 3, 2\) as the network has; got \(3, 2, 2\)")
    wrong(descs(3, 3, 3, 2), f"{name} must have second dim 6 as the network has; got 3")
    wrong(descs(6, 3, 3, 2, dtype=HALF), f"{name} must have data type f32 as the network has; got f16")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("stored, math", [(DOUBLE, FLOAT), (FLOAT, DOUBLE), (FLOAT, HALF), (HALF, DOUBLE),
                                          (BFLOAT16, HALF), (HALF, BFLOAT16), (DOUBLE, HALF)])
def test_types_that_do_not_go_together(handle, refused, call, stored, math):
    net = Network(handle, GRU, dtype=stored)
    c.setRNNDescriptor(net.rnn, 3, 1, net.dropout, 0, 0, GRU, math)
    check(net, refused, call, NotSupported, "must have a data type that dataType .* of rnnDesc computes; got")


@pytest.mark.parametrize("call", CALLS)
def test_skipping_needs_the_width(handle, refused, call):
    net = Network(handle, GRU)
    c.setRNNDescriptor(net.rnn, 3, 1, net.dropout, 1, 0, GRU, FLOAT)
    words = "must have second dim 3 like hiddenSize, as inputMode is SKIP_INPUT; got 4"
    check(net, refused, call, NotSupported, words)
    refused(c.getRNNParamsSize, NotSupported, words, handle, net.rnn, net.x_descs[0], FLOAT)


# -- Dropout of a network ------------------------------------------------------------------------------------

def test_states_of_dropout_that_were_never_set(handle, refused):
    desc = c.createDropoutDescriptor()
    for p, layers, works in ((0.5, 2, False), (0.0, 2, True), (0.5, 1, True)):
        net = Network(handle, GRU, layers=layers)
        c.setDropoutDescriptor(desc, handle, p, None, 0, 0)
        c.setRNNDescriptor(net.rnn, 3, layers, desc, 0, 0, GRU, FLOAT)
        net.resize()
        net.run("RNNForwardInference")
        if works:
            net.train()
        else:
            words = "dropoutDesc of rnnDesc must have states; got a dropout descriptor that was never given"
            check(net, refused, "RNNForwardTraining", BadParam, words)


@pytest.mark.parametrize("call", CALLS)
def test_a_dropout_descriptor_that_is_gone(handle, refused, call):
    net = Network(handle, GRU).train()
    c.destroyDropoutDescriptor(net.dropout)
    check(net, refused, call, BadParam, "dropoutDesc.* must be a dropout descriptor that was created and not "
                                        "destroyed")


def test_a_reserve_of_no_dropout_is_too_small_for_some(handle, refused):
    net = Network(handle, GRU, layers=2).train()
    c.setDropoutDescriptor(net.dropout, handle, 0.5, None, 0, 0)
    check(net, refused, "RNNForwardTraining", BadParam, "reserveSpaceSizeInBytes must be at least")


# -- Parameters ----------------------------------------------------------------------------------------------

def test_size_of_parameters(net, refused):
    ask = lambda error, words, rnn=net.rnn, x=net.x_descs[0], dtype=FLOAT, handle=net.handle: refused(
        c.getRNNParamsSize, error, words, handle, rnn, x, dtype)
    ask(BadParam, "handle must not be NULL", handle=0)
    for make, words in WRONG_NETWORKS:
        ask(BadParam, words, rnn=make())
    ask(BadParam, "xDesc must not be NULL", x=None)
    ask(BadParam, "xDesc must be a tensor descriptor that was created", x=GONE_TENSOR())
    ask(BadParam, "xDesc must be fully packed", x=spread(net.x_descs[0]))
    ask(BadParam, r"xDesc must have dims \(batch, width, 1\)", x=flat(net.x_descs[0]))
    ask(BadParam, "dataType must be f32 like xDesc; got f16", dtype=HALF)
    ask(BadParam, "dataType must be one of", dtype=77)
    ask(NotSupported, "xDesc must have a data type that dataType f32", x=tensor_desc(3, 4, 1, dtype=DOUBLE),
        dtype=DOUBLE)


@pytest.mark.parametrize("get, name", [(c.getRNNLinLayerMatrixParams, "linLayerMatDesc"),
                                       (c.getRNNLinLayerBiasParams, "linLayerBiasDesc")])
def test_places_of_parameters(net, refused, get, name):
    found = filter_desc(1, 2, 3)
    good = dict(handle=net.handle, rnnDesc=net.rnn, layer=0, xDesc=net.x_descs[0], wDesc=net.t["w"].desc,
                w=net.t["w"].ptr, linLayerID=0, **{name: found})
    wrong = lambda words, **other: refused(get, BadParam, words, **{**good, **other})
    for make, words in WRONG_NETWORKS:
        wrong(words, rnnDesc=make())
    wrong("handle must not be NULL", handle=None)
    wrong("xDesc must not be NULL", xDesc=None)
    wrong("xDesc must be set", xDesc=c.createTensorDescriptor())
    wrong("wDesc must be a filter descriptor that was created", wDesc=GONE_FILTER())
    wrong(r"wDesc must have dims \(\d+, 1, 1\) in format NCHW", wDesc=filter_desc(7, 1, 1))
    wrong(f"{name} must not be NULL", **{name: None})
    wrong(f"{name} must be a filter descriptor that was created", **{name: GONE_FILTER()})
    for layer in (-1, 4):
        wrong(f"layer must be in 0 to 3; got {layer}", layer=layer)
    for number in (-1, 8):
        wrong(f"linLayerID must be in 0 to 7; got {number}", linLayerID=number)
    assert c.getFilterNdDescriptor(found, 8)[3] == (1, 2, 3)              # nothing was set
