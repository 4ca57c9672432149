"""g41 to g56: convolution in all directions, against plain loops; errors; algorithms chosen and timed."""
import itertools

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported

from .arrays import (BFLOAT16, DOUBLE, FLOAT, FLOATS, HALF, NHWC, Filter, Tensor, conv_desc, draw,
                     filter_desc, tensor_desc, tolerance)


def loop(x, w, y_dims, pad, stride, flip):
    """Every (y index, x index, w index) that belong together, one multiply-add each: the definition."""
    for n, k, *out in itertools.product(*map(range, y_dims)):
        for ch, *tap in itertools.product(*map(range, w.shape[1:])):
            at = tuple(o * s - p + t for o, s, p, t in zip(out, stride, pad, tap))
            if all(0 <= a < i for a, i in zip(at, x.shape[2:])):
                tap = [f - 1 - t for f, t in zip(w.shape[2:], tap)] if flip else tap
                yield (n, k, *out), (n, ch, *at), (k, ch, *tap)


CASES = [                                        # x, w, pad, stride
    ((2, 3, 5, 4), (4, 3, 3, 2), (1, 0), (2, 1)),
    ((1, 2, 4, 4), (3, 2, 1, 1), (0, 0), (1, 1)),
    ((2, 1, 3, 3), (2, 1, 3, 3), (2, 2), (3, 2)),
    ((1, 2, 3, 4, 3), (2, 2, 2, 3, 1), (1, 1, 0), (1, 2, 1)),
]


@pytest.mark.parametrize("mode", (c.CUDNN_CONVOLUTION, c.CUDNN_CROSS_CORRELATION))
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("x_dims, w_dims, pad, stride", CASES)
def test_all_directions(handle, x_dims, w_dims, pad, stride, dtype, mode):
    conv = conv_desc(pad, stride, mode, DOUBLE if dtype == DOUBLE else FLOAT)
    x, w = Tensor(x_dims, draw(*x_dims), dtype), Filter(w_dims, draw(*w_dims, seed=1), dtype)
    y_dims = c.getConvolutionNdForwardOutputDim(conv, x.desc, w.desc, len(x_dims))
    dy, old = (Tensor(y_dims, draw(*y_dims, seed=2), dtype),
               {"y": draw(*y_dims, seed=3), "dx": draw(*x_dims, seed=4), "dw": draw(*w_dims, seed=5)})
    want = {"y": np.zeros(y_dims), "dx": np.zeros(x_dims), "dw": np.zeros(w_dims)}
    for out, image, tap in loop(x.values, w.values, y_dims, pad, stride, mode == c.CUDNN_CONVOLUTION):
        want["y"][out] += x.values[image] * w.values[tap]
        want["dx"][image] += dy.values[out] * w.values[tap]
        want["dw"][tap] += dy.values[out] * x.values[image]
    y, dx, dw = (Tensor(y_dims, old["y"], dtype), Tensor(x_dims, old["dx"], dtype),
                 Filter(w_dims, old["dw"], dtype))
    c.convolutionForward(handle, 2.0, x.desc, x.ptr, w.desc, w.ptr, conv, 0, 0, 0, 0.5, y.desc, y.ptr)
    c.convolutionBackwardData(handle, 2.0, w.desc, w.ptr, dy.desc, dy.ptr,
                              conv, 0, 0, 0, 0.5, dx.desc, dx.ptr)
    c.convolutionBackwardFilter(handle, 2.0, x.desc, x.ptr, dy.desc, dy.ptr,
                                conv, 0, 0, 0, 0.5, dw.desc, dw.ptr)
    for name, got in dict(y=y, dx=dx, dw=dw).items():
        np.testing.assert_allclose(got.values, 2 * want[name] + 0.5 * old[name], rtol=tolerance(dtype),
                                   atol=tolerance(dtype), err_msg=name)
        assert got.stray_bytes() == 0


def test_beta_0_does_not_read_and_every_element_is_written(handle):
    x, w, conv = Tensor((1, 1, 4, 4)), Filter((1, 1, 1, 1), 2.0), conv_desc(stride=(3, 3))
    dy = Tensor((1, 1, 2, 2), 1.0)               # rows 1 and 2 of dx are covered by no window; dx holds NaN
    c.convolutionBackwardData(handle, 1, w.desc, w.ptr, dy.desc, dy.ptr,
                              conv, 1, None, 0, -0.0, x.desc, x.ptr)
    np.testing.assert_array_equal(
        x.values[0, 0], (np.kron([[1, 0], [0, 1]], np.zeros((2, 2)))
                         + 2.0 * np.isin(np.arange(4), (0, 3))[:, None] * np.isin(np.arange(4), (0, 3))))


@pytest.mark.parametrize("dtype", (FLOAT, HALF, BFLOAT16))
@pytest.mark.parametrize("algo", (0, 1))
def test_nhwc_everywhere(handle, dtype, algo):
    nchw, nhwc = {}, {}
    for kept, layout, format in ((nchw, "nchw", 0), (nhwc, "nhwc", NHWC)):
        x, w = (Tensor((2, 3, 5, 4), draw(2, 3, 5, 4), dtype, layout),
                Filter((4, 3, 3, 2), draw(4, 3, 3, 2, seed=1), dtype, format))
        y, dw, dx = (Tensor((2, 4, 5, 3), 0, dtype, layout), Filter((4, 3, 3, 2), 0, dtype, format),
                     Tensor((2, 3, 5, 4), 0, dtype, layout))
        conv = conv_desc((1, 0))
        room = np.zeros(c.getConvolutionForwardWorkspaceSize(handle, x.desc, w.desc, conv, y.desc, algo) + 16,
                        np.uint8)
        c.convolutionForward(handle, 1, x.desc, x.ptr, w.desc, w.ptr, conv, algo, room, room.nbytes, 0,
                             y.desc, y.ptr)
        c.convolutionBackwardFilter(handle, 1, x.desc, x.ptr, y.desc, y.ptr,
                                    conv, algo, 0, 0, 0, dw.desc, dw.ptr)
        c.convolutionBackwardData(handle, 1, w.desc, w.ptr, y.desc, y.ptr, conv, 1, 0, 0, 0, dx.desc, dx.ptr)
        kept.update(y=y.values, dw=dw.values, dx=dx.values)
    for name in nchw:
        np.testing.assert_array_equal(nchw[name], nhwc[name])


def test_strides_of_x_and_y_are_free(handle):
    w, conv = Filter((2, 2, 2, 2), draw(2, 2, 2, 2, seed=1)), conv_desc()
    results = []
    for strides in ((24, 12, 4, 1), (100, 1, 17, 3), (7, 400, 130, 20)):
        x = Tensor((2, 2, 3, 4), draw(2, 2, 3, 4), strides=strides)
        y = Tensor((2, 2, 2, 3), 0, strides=(strides[0], strides[1], strides[2], strides[3]))
        c.convolutionForward(handle, 1, x.desc, x.ptr, w.desc, w.ptr, conv, 0, 0, 0, 0, y.desc, y.ptr)
        results.append(y.values)
        assert y.stray_bytes() == 0
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_one_image_repeated_by_a_stride_of_0(handle):
    x = Tensor((3, 1, 2, 2), draw(1, 1, 2, 2), strides=(0, 4, 2, 1))
    w, y = Filter((1, 1, 1, 1), 1.0), Tensor((3, 1, 2, 2), 0)
    c.convolutionForward(handle, 1, x.desc, x.ptr, w.desc, w.ptr, conv_desc(), 0, 0, 0, 0, y.desc, y.ptr)
    np.testing.assert_array_equal(y.values, np.broadcast_to(draw(1, 1, 2, 2), y.dims))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_2d_descriptor_takes_its_math_type_from_the_data(handle, dtype):
    conv = c.createConvolutionDescriptor()
    c.setConvolution2dDescriptor(conv, 0, 0, 1, 1, 1, 1, 1)
    x, w, y = (Tensor((1, 1, 2, 2), 1.0, dtype), Filter((1, 1, 2, 2), 2.0, dtype),
               Tensor((1, 1, 1, 1), 0, dtype))
    c.convolutionForward(handle, 1, x.desc, x.ptr, w.desc, w.ptr, conv, 0, 0, 0, 0, y.desc, y.ptr)
    assert y.values.item() == 8


def test_arrays_and_odd_addresses_and_changed_descriptors(handle):
    x, w, y = np.arange(4, dtype=np.float32), np.full(2, 2, np.float32), np.zeros(5, np.float32)
    xd, wd, yd, conv = tensor_desc(1, 1, 1, 4), filter_desc(1, 1, 1, 1), tensor_desc(1, 1, 1, 4), conv_desc()
    for at in (y[:4], y[1:]):                    # the second is 4-byte aligned only
        c.convolutionForward(handle, 1, xd, x, wd, w, conv, 0, 0, 0, 0, yd, at)
        np.testing.assert_array_equal(at, 2 * x)
    c.setTensor4dDescriptor(xd, 0, 0, 1, 1, 1, 2), c.setTensor4dDescriptor(yd, 0, 0, 1, 1, 1, 2)
    c.convolutionForward(handle, 1, xd, x, wd, w, conv, 0, 0, 0, 1, yd, y)      # new content: a new plan
    np.testing.assert_array_equal(y, [0, 2, 2, 4, 6])


def test_alpha_is_rounded_to_the_type_of_the_data(handle):
    x, w = Tensor((1, 1, 1, 1), 1.0, DOUBLE), Filter((1, 1, 1, 1), 1.0, DOUBLE)
    y = Tensor((1, 1, 1, 1), 0, DOUBLE)
    c.convolutionForward(handle, 0.1, x.desc, x.ptr, w.desc, w.ptr, conv_desc(compute=DOUBLE), 0,
                         0, 0, 0, y.desc, y.ptr)
    assert y.values.item() == 0.1
    x, w, y = (Tensor((1, 1, 1, 1), 2.0 ** 20, FLOAT), Filter((1, 1, 1, 1), 1.0, FLOAT),
               Tensor((1, 1, 1, 1), 0, FLOAT))
    c.convolutionForward(handle, 1 + 1e-9, x.desc, x.ptr, w.desc, w.ptr,
                         conv_desc(), 0, 0, 0, 0, y.desc, y.ptr)
    assert y.values.item() == 2.0 ** 20


# -- Bias ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dims", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 3, 2)])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ("nchw", "nhwc"))
def test_bias(handle, dims, dtype, layout):
    dy, db = Tensor(dims, draw(*dims), dtype, layout), Tensor((1, 3, *(1,) * (len(dims) - 2)), 2.0, dtype)
    c.convolutionBackwardBias(handle, 0.5, dy.desc, dy.ptr, 3.0, db.desc, db.ptr)
    want = 0.5 * draw(*dims).sum(axis=(0, *range(2, len(dims))), keepdims=True) + 6
    np.testing.assert_allclose(db.values, want, rtol=tolerance(dtype))


@pytest.mark.parametrize("dy, db, words", [
    (dict(dims=(2, 3, 4, 5)), dict(dims=(2, 3, 1, 1)),
     r"dbDesc must have dims \(1, 3, 1, 1\); got \(2, 3, 1, 1\)"),
    (dict(dims=(2, 3, 4, 5)), dict(dims=(1, 3, 1, 5)), "dbDesc must have dims"),
    (dict(dims=(2, 3, 4, 5)), dict(dims=(1, 4, 1, 1)), "dbDesc must have dims"),
    (dict(dims=(2, 3, 4, 5)), dict(dims=(1, 3, 1, 1, 1)), "dbDesc must have dims"),
    (dict(dims=(2, 3, 4, 5)), dict(dims=(1, 3, 1, 1), dtype=HALF),
     "dbDesc must have data type f32 like dyDesc; got f16"),
])
def test_bias_refusals(handle, refused, dy, db, words):
    dy, db = Tensor(**dy), Tensor(**db)
    refused(c.convolutionBackwardBias, BadParam, "cudnnConvolutionBackwardBias: " + words, handle, 1,
            dy.desc, dy.ptr, 0, db.desc, db.ptr)


# -- Errors --------------------------------------------------------------------------------------------------

X, W, Y = Tensor((2, 3, 6, 5), 1.0), Filter((4, 3, 3, 3), 1.0), Tensor((2, 4, 4, 3), 1.0)
GOOD = dict(
    forward=(c.convolutionForward,
             dict(alpha=1, xDesc=X.desc, x=X.ptr, wDesc=W.desc, w=W.ptr, convDesc=conv_desc(), algo=0,
                  workSpace=0, workSpaceSizeInBytes=0, beta=0, yDesc=Y.desc, y=Y.ptr)),
    filter=(c.convolutionBackwardFilter,
            dict(alpha=1, xDesc=X.desc, x=X.ptr, dyDesc=Y.desc, dy=Y.ptr, convDesc=conv_desc(), algo=0,
                 workSpace=0, workSpaceSizeInBytes=0, beta=0, dwDesc=W.desc, dw=W.ptr)),
    data=(c.convolutionBackwardData,
          dict(alpha=1, wDesc=W.desc, w=W.ptr, dyDesc=Y.desc, dy=Y.ptr, convDesc=conv_desc(), algo=0,
               workSpace=0, workSpaceSizeInBytes=0, beta=0, dxDesc=X.desc, dx=X.ptr)),
)
ROLES = dict(forward=dict(image="x", filter="w", output="y"),
             filter=dict(image="x", filter="dw", output="dy"), data=dict(image="dx", filter="w", output="dy"))
T, F = tensor_desc, filter_desc
BROKEN = [  # role (a descriptor that is replaced), replacement, error, words with the role's names
    ("output", T(2, 4, 4), BadParam, "{output}Desc must have rank 4 like {image}Desc; got 3"),
    ("output", T(2, 4, 4, 3, 1), BadParam, "{output}Desc must have rank 4 like {image}Desc; got 5"),
    ("filter", F(4, 3, 3), BadParam, "{filter}Desc must have rank 4 like {image}Desc; got 3"),
    ("filter", F(4, 2, 3, 3), BadParam, "{filter}Desc must have c = 3 like {image}Desc; got 2"),
    ("filter", F(5, 3, 3, 3), BadParam,
     r"{output}Desc must have dims \(2, 5, 4, 3\), the output of the forward convolution"),
    ("filter", F(4, 3, 7, 3), BadParam, "{filter}Desc must fit into the padded {image}Desc"),
    ("filter", F(4, 3, 3, 3, dtype=HALF), BadParam,
     "{filter}Desc must have data type f32 like {image}Desc; got f16"),
    ("output", T(1, 4, 4, 3), BadParam, "{output}Desc must have dims"),
    ("output", T(2, 5, 4, 3), BadParam, "{output}Desc must have dims"),
    ("output", T(2, 4, 4, 4), BadParam, "{output}Desc must have dims"),
    ("output", T(2, 4, 4, 3, dtype=DOUBLE), BadParam,
     "{output}Desc must have data type f32 like {image}Desc; got f64"),
    ("conv", conv_desc((0,) * 3, (1,) * 3), BadParam,
     "convDesc must have 2 spatial dims like {image}Desc; got 3"),
    ("conv", conv_desc(compute=DOUBLE), NotSupported, "data and math type must be one of .*got f32/f64"),
    *((role, c.createTensorDescriptor(), BadParam, f"{{{role}}}Desc must be set")
      for role in ("image", "output")),
    ("filter", c.createFilterDescriptor(), BadParam, "{filter}Desc must be set"),
    ("conv", c.createConvolutionDescriptor(), BadParam, "convDesc must be set"),
    ("filter", T(4, 3, 3, 3), BadParam, "{filter}Desc must be a filter descriptor"),
    ("image", F(2, 3, 6, 5), BadParam, "{image}Desc must be a tensor descriptor"),
    *((role, 0, BadParam, f"{{{role}}}Desc must not be NULL")
      for role in ("image", "filter", "output", "conv")),
]


@pytest.mark.parametrize("direction", GOOD)
@pytest.mark.parametrize("role, broken, error, words", BROKEN)
def test_broken_descriptors(handle, refused, direction, role, broken, error, words):
    function, arguments = GOOD[direction]
    names = dict(ROLES[direction], conv="conv")
    refused(function, error, words.format(**names), handle, **{**arguments, names[role] + "Desc": broken})


@pytest.mark.parametrize("direction", GOOD)
def test_broken_arguments(handle, refused, direction):
    function, arguments = GOOD[direction]
    function(handle, **arguments)
    before = [t.raw.copy() for t in (X, W, Y)]
    for name in ROLES[direction].values():
        for null in (0, None):
            refused(function, BadParam, f": {name} must not be NULL", handle, **{**arguments, name: null})
    for name in ("alpha", "beta"):
        refused(function, BadParam, f"{name} must not be NULL", handle, **{**arguments, name: None})
        refused(function, TypeError, f"{name} must be a number, not the address of one", handle,
                **{**arguments, name: 0x7F0012345678})
        refused(function, TypeError, "", handle, **{**arguments, name: "x" and object()})
    refused(function, BadParam, "algo must be one of .* got 9", handle, **{**arguments, "algo": 9})
    refused(function, BadParam, "algo must be one of .* got -1", handle, **{**arguments, "algo": -1})
    refused(function, BadParam, "handle must not be NULL", 0, **arguments)
    output = {"forward": "y", "filter": "dw", "data": "dx"}[direction]
    other = next(n for n in ROLES[direction].values() if n != output)
    refused(function, BadParam, "must not overlap", handle, **{**arguments, output: arguments[other]})
    for tensor, raw in zip((X, W, Y), before):
        np.testing.assert_array_equal(tensor.raw, raw)


@pytest.mark.parametrize("rank", (3, 6))
def test_rank_must_be_4_or_5(handle, refused, rank):
    ones = (1,) * rank
    x, w, conv = tensor_desc(*ones), filter_desc(*ones), conv_desc((0,) * (rank - 2), (1,) * (rank - 2))
    refused(c.convolutionForward, NotSupported, f"xDesc must have rank 4 or 5; got {rank}", handle, 1, x,
            X.ptr, w, W.ptr, conv, 0, 0, 0, 0, x, Y.ptr)


def test_an_output_must_not_overlap_itself(handle, refused):
    y = tensor_desc(2, 4, 4, 3, strides=(0, 12, 3, 1))
    refused(c.convolutionForward, NotSupported, "yDesc must not overlap itself", handle,
            **{**GOOD["forward"][1], "yDesc": y})


# -- Algorithms ----------------------------------------------------------------------------------------------

KEYS = dict(forward=("Forward", (X.desc, W.desc, conv_desc(), Y.desc),
                     (X.desc, X.ptr, W.desc, W.ptr, conv_desc(), Y.desc, Y.ptr), 7),
            filter=("BackwardFilter", (X.desc, Y.desc, conv_desc(), W.desc),
                    (X.desc, X.ptr, Y.desc, Y.ptr, conv_desc(), W.desc, W.ptr), 4),
            data=("BackwardData", (W.desc, Y.desc, conv_desc(), X.desc),
                  (W.desc, W.ptr, Y.desc, Y.ptr, conv_desc(), X.desc, X.ptr), 5))


def named(prefix, title, suffix):
    return getattr(c, f"{prefix}Convolution{title}{suffix}")


@pytest.mark.parametrize("direction", KEYS)
@pytest.mark.parametrize("ex", (False, True))
def test_find(handle, refused, direction, ex):
    title, descs, mixed, count = KEYS[direction]
    function = named("find", title, "AlgorithmEx" if ex else "Algorithm")
    arguments = (mixed, (0, 0)) if ex else (descs, ())
    found = function(handle, *arguments[0], 99, *arguments[1])
    good = [p for p in found if p.status == 0]
    assert (len(found) == count and sorted(p.algo for p in found) == list(range(count))
            and good == found[:len(good)])
    assert [p.time for p in good] == sorted(p.time for p in good) and all(p.time > 0 for p in good)
    size = named("get", title, "WorkspaceSize")
    for p in found[len(good):]:                  # GEMM needs a workspace, and Ex is given none
        need = size(handle, *descs, p.algo) if ex and p.status != 9 else 0
        assert (p.time, p.memory) == (-1.0, need) and bool(need) == (p.status != 9)
    for p in good:
        assert p.memory == p["memory"] == size(handle, *descs, p.algo) and p["algo"] == p.algo
        atomic = (direction, p.algo) in (("filter", 0), ("filter", 3), ("data", 0))
        assert p.determinism == int(handle.device.name == "numpy" or not atomic) and p.mathType == -1
    assert len(function(handle, *arguments[0], 2, *arguments[1])) == 2
    refused(function, BadParam, "requestedAlgoCount must be >= 1; got 0",
            handle, *arguments[0], 0, *arguments[1])
    refused(function, BadParam, "handle must not be NULL", 0, *arguments[0], 1, *arguments[1])
    refused(function, BadParam, "must not be NULL", handle, 0, *arguments[0][1:], 1, *arguments[1])


def test_find_ex_refuses_null_pointers_and_keeps_the_inputs(handle, refused):
    x, w, y = (Tensor((2, 3, 6, 5), draw(2, 3, 6, 5)),
               Filter((4, 3, 3, 3), draw(4, 3, 3, 3)), Tensor((2, 4, 4, 3)))
    conv = conv_desc()
    c.findConvolutionForwardAlgorithmEx(handle, x.desc, x.ptr, w.desc, w.ptr,
                                        conv, y.desc, y.ptr, 3, None, 10 ** 6)
    np.testing.assert_array_equal(x.values, draw(2, 3, 6, 5))
    np.testing.assert_array_equal(w.values, draw(4, 3, 3, 3))
    refused(c.findConvolutionForwardAlgorithmEx, BadParam,
            "cudnnFindConvolutionForwardAlgorithmEx: y must not be NULL", handle, x.desc, x.ptr,
            w.desc, w.ptr, conv, y.desc, 0, 3, 0, 0)


def test_find_succeeds_when_every_algorithm_fails(handle):
    found = c.findConvolutionForwardAlgorithm(handle, X.desc, filter_desc(4, 2, 3, 3), conv_desc(), Y.desc, 9)
    assert [(p.status, p.time) for p in found] == [(3, -1.0)] * 7


@pytest.mark.parametrize("direction", KEYS)
@pytest.mark.parametrize("suffix", ("", "_v6"))
def test_get_algorithm(handle, refused, direction, suffix):
    title, descs, _, _ = KEYS[direction]
    choose, size = named("get", title, "Algorithm" + suffix), named("get", title, "WorkspaceSize")
    for preference in range(3):
        algo = choose(handle, *descs, preference, 0)
        assert algo == choose(handle, *descs, preference, 0)
        assert size(handle, *descs, algo) >= 0 and (preference == 1 or size(handle, *descs, algo) == 0)
    refused(choose, BadParam,
            "preference must be one of CUDNN_CONVOLUTION_.*NO_WORKSPACE", handle, *descs, 3, 0)
    refused(choose, BadParam, "handle must not be NULL", None, *descs, 0, 0)
    refused(choose, BadParam, "must not be NULL", handle, *descs[:3], 0, 0, 0)
    refused(size, BadParam, "WorkspaceSize: algo must be one of", handle, *descs, 99)
    refused(size, BadParam, "handle must not be NULL", 0, *descs, 0)


def test_get_algorithm_refusals(handle, refused):
    choose = c.getConvolutionForwardAlgorithm
    refused(choose, BadParam, "cudnnGetConvolutionForwardAlgorithm: wDesc must have c = 3", handle, X.desc,
            F(4, 2, 3, 3), conv_desc(), Y.desc, 1, 0)
    refused(choose, BadParam, "yDesc must have data type", handle, X.desc, W.desc,
            conv_desc(), T(2, 4, 4, 3, dtype=HALF), 1, 0)
    refused(choose, NotSupported, "data and math type", handle, X.desc, W.desc,
            conv_desc(compute=HALF), Y.desc, 1, 0)
    x = T(2, 3, 6, 5, layout="nhwc")
    refused(choose, NotSupported,
            r"no algorithm can do this:\n(?s:.*)\n  algo GEMM cannot: takes no NHWC filter", handle, x,
            F(4, 3, 3, 3, format=NHWC), conv_desc(), Y.desc, 1, 0)


def test_only_what_really_runs_is_chosen(handle):
    x, y = T(2, 3, 6, 5, layout="nhwc"), T(2, 4, 4, 3, layout="nhwc")
    w, conv = F(4, 3, 3, 3, format=NHWC), conv_desc()
    for preference in range(3):
        assert c.getConvolutionForwardAlgorithm(handle, x, w, conv, y, preference, 0) in (0, 1)
        assert c.getConvolutionBackwardDataAlgorithm(handle, w, y, conv, x, preference, 0) == 1
        assert c.getConvolutionBackwardFilterAlgorithm(handle, x, y, conv, w, preference, 0) in (0, 1)
