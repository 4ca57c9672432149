"""Descriptors as Python objects: they compare, hash, copy, pickle and print as what they say."""
import copy
import pickle

import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.legacy.arguments import KINDS, Kind
from cydnn.status import BadParam

from .arrays import FLOAT, HALF, NHWC, Tensor, ramp

# name: (how to set it, how to set it otherwise, what it prints)
DESCRIPTORS = {
    "Tensor": (lambda d: c.setTensor4dDescriptor(d, NHWC, HALF, 2, 8, 6, 6),
               lambda d: c.setTensor4dDescriptor(d, NHWC, FLOAT, 2, 8, 6, 6),
               "TensorDescriptor(f16 n2c8h6w6 nhwc)"),
    "Filter": (lambda d: c.setFilter4dDescriptor(d, FLOAT, 0, 16, 8, 3, 5),
               lambda d: c.setFilter4dDescriptor(d, FLOAT, NHWC, 16, 8, 3, 5),
               "FilterDescriptor(f32 k16c8r3s5 nchw)"),
    "Convolution": (lambda d: c.setConvolution2dDescriptor(d, 1, 0, 2, 1, 1, 1, 1),
                    lambda d: c.setConvolution2dDescriptor_v5(d, 1, 0, 2, 1, 1, 1, 1, FLOAT),
                    "ConvolutionDescriptor(pad1,0 stride2,1 mode=cross_correlation)"),
    "Pooling": (lambda d: c.setPoolingNdDescriptor(d, 0, 1, 3, (2, 2, 1), (0, 1, 0), (2, 2, 1)),
                lambda d: c.setPoolingNdDescriptor(d, 0, 0, 3, (2, 2, 1), (0, 1, 0), (2, 2, 1)),
                "PoolingDescriptor(mode=max window=2,2,1 pad0,1,0 stride2,2,1 nan=propagate)"),
    "Activation": (lambda d: c.setActivationDescriptor(d, 3, 0, 6.0),
                   lambda d: c.setActivationDescriptor(d, 3, 0, 5.0),
                   "ActivationDescriptor(mode=clipped_relu nan=ignore ceiling=6.0)"),
    "OpTensor": (lambda d: c.setOpTensorDescriptor(d, 2, FLOAT, 0),
                 lambda d: c.setOpTensorDescriptor(d, 3, FLOAT, 0),
                 "OpTensorDescriptor(mode=min nan=ignore acc=f32)"),
    "LRN": (lambda d: c.setLRNDescriptor(d, 3, 1e-4, 0.5, 1.0),
            lambda d: c.setLRNDescriptor(d, 5, 1e-4, 0.5, 1.0),
            "LRNDescriptor(n=3 alpha=0.0001 beta=0.5 k=1.0)"),
    "SpatialTransformer": (lambda d: c.setSpatialTransformerNdDescriptor(d, 0, HALF, 4, (2, 3, 5, 4)),
                           lambda d: c.setSpatialTransformerNdDescriptor(d, 0, FLOAT, 4, (2, 3, 5, 4)),
                           "SpatialTransformerDescriptor(f16 n2c3h5w4 sampler=BILINEAR)"),
}
CREATE = [name for name in c.__all__ if name.startswith("create") and name.endswith("Descriptor")]


def made(name, *setters):
    desc = getattr(c, f"create{name}Descriptor")()
    for set_ in setters:
        set_(desc)
    return desc


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_equal_content_is_equal(name):
    one, other, text = DESCRIPTORS[name]
    a, b, changed, unset = made(name, one), made(name, one), made(name, one, other), made(name)
    assert a == b and not a != b and hash(a) == hash(b) and str(a) == repr(a) == text
    assert a != changed and a != unset and unset == made(name) and hash(unset) == hash(made(name))
    assert a != int(a) and a != 0 and a is not None and int(a) != int(b)
    one(changed)
    assert a == changed and len({a, b, changed, unset}) == 2


def test_descriptors_that_hold_others_compare_them_too():
    handle = c.create("numpy")
    states = [np.zeros(c.dropoutGetStatesSize(handle), np.uint8) for _ in range(2)]
    one, other = (made("Dropout", lambda d: c.setDropoutDescriptor(d, handle, 0.5, s, s.nbytes, 1))
                  for s in states)
    shared = copy.copy(one)
    assert one == shared and hash(one) == hash(shared) and one != other and shared.states == one.states
    assert repr(one) == "DropoutDescriptor(p=0.5)" and one != made("Dropout")
    net, twin, third = (made("RNN", lambda d: c.setRNNDescriptor(d, 8, 2, dropout, 0, 1, 2, FLOAT))
                        for dropout in (one, shared, other))
    assert net == twin == copy.deepcopy(net) and hash(net) == hash(twin) and net != third
    assert copy.copy(net).dropout is one
    assert repr(net) == "RNNDescriptor(lstm hidden=8 layers=2 bidirectional acc=f32)"
    with pytest.raises(TypeError, match="pickle: the descriptor holds states"):
        pickle.dumps(one)
    c.destroy(handle)


@pytest.mark.parametrize("name", DESCRIPTORS)
@pytest.mark.parametrize("again", (copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))),
                         ids=("copy", "deepcopy", "pickle"))
def test_a_copy_is_another_descriptor_that_says_the_same(name, again):
    one, other, text = DESCRIPTORS[name]
    a = made(name, one)
    b = again(a)
    assert a == b and a.stamp == b.stamp and type(a) is type(b) and int(a) != int(b)
    other(a)
    assert a != b and repr(b) == text and again(made(name)) == made(name)
    getattr(c, f"destroy{name}Descriptor")(a)
    assert repr(again(b)) == text


def test_as_a_key_it_stands_for_what_it_says():
    """Set anew it is another key: what was stored under the old content is not found for the new one."""
    one, other, _ = DESCRIPTORS["Tensor"]
    desc, known = made("Tensor", one), {}
    known[desc] = known[copy.copy(desc)] = "one"
    assert known[made("Tensor", one)] == "one" and len(known) == 1
    other(desc)
    assert desc not in known and made("Tensor", one) not in known
    known = {copy.copy(made("Tensor", one)): "one"}
    assert known[made("Tensor", one)] == "one" and desc not in known


@pytest.mark.parametrize("function", CREATE)
def test_what_every_kind_does(function):
    """Also kinds without a row above."""
    a, b = getattr(c, function)(), getattr(c, function)()
    name = function.removeprefix("create")
    assert a == b and hash(a) == hash(b) and a == copy.copy(a) and int(a) != int(b)
    assert repr(a).startswith(name + "(") and (a.kind or repr(a) == name + "(not set)")
    destroy = getattr(c, "destroy" + name)
    destroy(a)
    assert repr(a) == name + "(destroyed)" and a == a and a != b and isinstance(hash(a), int)
    for broken in (copy.copy, pickle.dumps):
        with pytest.raises((BadParam, TypeError), match="destroyed"):
            broken(a)
    destroy(b), destroy(0), destroy(None)


def test_every_kind_of_descriptor_has_a_create():
    assert {getattr(c, name)().__class__ for name in CREATE} == {
        kind.type for kind in KINDS.values() if kind.type is not c.Handle}


def test_destroy_is_optional():
    address = int(made("Tensor", DESCRIPTORS["Tensor"][0]))
    assert c.getTensor4dDescriptor(address)[:5] == (HALF, 2, 8, 6, 6)
    c.destroyTensorDescriptor(address)


def test_what_was_only_created_is_refused(refused):
    handle, x = c.create("numpy"), Tensor((1, 2, 3, 4), ramp(1, 2, 3, 4))
    refused(c.scaleTensor, BadParam, r"yDesc must be set; got a tensor descriptor that was only created",
            handle, c.createTensorDescriptor(), x.ptr, 1.0)
    gone = copy.copy(x.desc)
    c.destroyTensorDescriptor(gone)
    refused(c.scaleTensor, BadParam, r"not destroyed; got TensorDescriptor\(destroyed\)",
            handle, gone, x.ptr, 1.0)
    c.destroy(handle)


def test_equal_descriptors_share_a_plan_and_a_changed_one_has_its_own():
    handle, x = c.create("numpy"), Tensor((1, 2, 3, 4), ramp(1, 2, 3, 4))
    mine = copy.copy(x.desc)
    for desc in (x.desc, mine, pickle.loads(pickle.dumps(mine))):
        c.scaleTensor(handle, desc, x.ptr, 2.0)
    assert len(handle.table) == 1
    c.setTensor4dDescriptor(mine, 0, FLOAT, 1, 2, 3, 3)
    c.scaleTensor(handle, mine, x.ptr, 0.0)
    want = 8 * ramp(1, 2, 3, 4).ravel()
    want[:18] = 0
    np.testing.assert_array_equal(x.values.ravel(), want)
    assert len(handle.table) == 2
    c.destroy(handle)


def test_a_handle_equals_itself_only():
    a, b = c.create("numpy"), c.create("numpy")
    assert a == a and a != b and len({a, b, a}) == 2 and "numpy" in repr(a)
    for broken in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a handle "):
            broken(a)
    c.destroy(a)
    assert a == a and "destroyed" in repr(a) and {a: 1}[a] == 1
    c.destroy(b)


def test_what_lives_in_this_process_has_no_pickle(monkeypatch):
    monkeypatch.setattr("cydnn.legacy.arguments.KINDS", dict(KINDS))
    kind = Kind("box descriptor", local="an address of device memory")
    desc = kind.create()
    with pytest.raises(TypeError, match="pickle: the box descriptor holds an address of device memory"):
        pickle.dumps(desc)
    assert copy.copy(desc) == desc


@pytest.mark.parametrize("dims, strides, text", [
    ((2, 3, 4), (12, 4, 1), "f32 n2c3w4 nchw"),
    ((2, 3, 4, 5, 6), (360, 120, 30, 6, 1), "f32 n2c3d4h5w6 nchw"),
    ((1, 2, 1, 2, 1, 2), (8, 4, 4, 2, 2, 1), "f32 1x2x1x2x1x2 nchw"),
    ((2, 3, 4, 5), (100, 1, 17, 3), "f32 n2c3h4w5 strides=100,1,17,3")])
def test_tensors_of_any_rank_print(dims, strides, text):
    assert repr(Tensor(dims, strides=strides).desc) == f"TensorDescriptor({text})"
