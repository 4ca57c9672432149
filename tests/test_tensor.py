"""Tensor descriptors: layouts, extents, what merges, what lies between each other. Sizes in bits."""
from __future__ import annotations

import pytest

from cydnn.status import BadParam, InternalError
from cydnn.tensor import TensorDesc, collapse, common_period, packed_strides

packed = TensorDesc.packed


def test_layouts():
    x = packed("f16", (2, 8, 3, 5), "nhwc")
    assert (x.strides, x.layout, x.is_packed("nhwc"), x.is_packed()) == ((120, 1, 40, 8), "nhwc", True, False)
    assert (x.count, x.extent, x.bytes, x.is_dense, x.is_overlapping) == (240, 240, 480, True, False)
    assert packed("f16", (2, 8, 1, 1), "nhwc").layout == "nchw"              # both
    assert packed("f16", (2, 3, 4), (2, 0, 1)).strides == (3, 1, 6) == packed_strides((2, 3, 4), (2, 0, 1))
    assert str(x) == "2x8x3x5:f16:nhwc" and str(TensorDesc("f32", (2, 2), (5, 1))) == "2x2:f32:strides=5,1"
    assert str(TensorDesc("i8", (2, 1, 3), (3, 3, 1), 32)) == "2x1x3:i8x32:nchw"


def test_gaps_overlaps_and_nothing():
    gaps, stacked = TensorDesc("f32", (2, 3), (10, 2)), TensorDesc("f32", (2, 3), (1, 1))
    empty = packed("f32", (0, 3))
    assert (gaps.extent, gaps.bytes, gaps.is_dense, gaps.is_overlapping) == (15, 60, False, False)
    assert stacked.is_overlapping and not stacked.is_dense
    assert (empty.extent, empty.bytes, empty.count) == (0, 0, 0)
    assert TensorDesc("f32", (2, 3), (0, 1)).is_overlapping
    assert not TensorDesc("f32", (1, 3), (0, 1)).is_overlapping
    assert not TensorDesc("f32", (0, 3), (0, 0)).is_overlapping


def test_like_keeps_the_order_of_strides():
    x = packed("f16", (2, 8, 3, 5), "nhwc")
    assert x.like(4, 2, 2, 2).layout == "nhwc" and x.like((4, 2, 2, 2), dtype="f32").dtype.name == "f32"
    assert x.same_layout(x.replace(dtype="f32")) and not x.same_layout(packed("f16", (2, 8, 3, 5)))
    assert packed("f32", (1, 8)).same_layout(TensorDesc("f32", (1, 8), (77, 1)))


def test_sizes_count_bits():
    assert packed("bool", (3, 7)).bytes == 3 and packed("bool", (8,)).bytes == 1
    assert TensorDesc("bool", (2, 3), (8, 1)).bytes == 2                    # bits 0 to 10
    assert TensorDesc("i8", (2, 1, 3), (3, 3, 1), 32).bytes == 6 * 32
    with pytest.raises(InternalError, match="bool: an element of 1 bits has no bytes of its own"):
        packed("bool", (8,)).dtype.bytes


@pytest.mark.parametrize("make, sentence", [
    (lambda: TensorDesc("f32", (2, 3), (3,)),
     r"tensor: strides must have as many entries as dims; got dims \(2, 3\)"),
    (lambda: packed("f32", (1,) * 9), "tensor: rank must be at most 8; got 9"),
    (lambda: packed("f32", (2, -1)), r"tensor: dims must be >= 0; got \(2, -1\)"),
    (lambda: TensorDesc("f32", (2,), (-1,)), r"tensor: strides must be >= 0; got \(-1,\)"),
    (lambda: TensorDesc("i8", (2,), (1,), 0), "tensor: vector must be >= 1; got 0"),
    (lambda: packed("f12", (2,)), "dtype must be one of f64 f32 .*; got 'f12'"),
])
def test_refusals(make, sentence):
    with pytest.raises(BadParam, match=sentence):
        make()


@pytest.mark.parametrize("a,b,period", [
    (((2, 3, 4, 5), (160, 1, 40, 8)), ((2, 5, 4, 5), (160, 1, 40, 8)), (32, 12, 20)),       # channels of NHWC
    (((2, 3, 4, 5), (160, 20, 5, 1)), ((2, 5, 4, 5), (160, 20, 5, 1)), (640, 240, 400)),    # channels of NCHW
    (((2, 3, 4, 5), (160, 1, 40, 8)), ((2, 6, 4, 5), (160, 1, 40, 8)), None),               # 9 of 8 channels
    (((2, 3, 4, 5), (160, 1, 40, 8)), ((2, 3, 4, 5), (160, 20, 5, 1)), None),                  # two layouts
    (((4, 8), (8, 1)), ((4, 8), (8, 1)), None)])                                            # packed: no gaps
def test_slices_of_one_buffer_have_a_period(a, b, period):
    assert common_period(*(TensorDesc("f32", *d) for d in (a, b))) == period


def test_collapse_merges_what_is_contiguous_everywhere():
    a = packed("f32", (4, 6, 5, 7), "nhwc")
    b = packed("f32", (1, 6, 1, 1))
    assert collapse(a, a) == ((4 * 6 * 5 * 7,), [(1,), (1,)])
    assert collapse(b, a) == ((6, 4 * 5 * 7), [(1, 0), (1, 6)])
    x, y = packed("f32", (2, 3, 4, 5)), packed("f32", (2, 3, 4, 5), "nhwc")
    dims, (sx, sy) = collapse(x, y)
    assert dims == (3, 20, 2) and sx == (20, 1, 60) and sy == (1, 3, 60)
