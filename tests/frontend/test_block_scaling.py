"""Scales of blocks: where they lie, what a number for the size of blocks means, what is refused."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam

T = cudnn.data_type
TILED = cudnn.tensor_reordering.F8_128x4


def scales(g, dim, reordering=TILED, kind=T.FP8_E8M0):
    return g.tensor(dim, None, kind, reordering_type=reordering)


@pytest.fixture
def g(handle):
    return cudnn.pygraph(io_data_type=T.FLOAT, intermediate_data_type=T.FLOAT, handle=handle)


@pytest.mark.parametrize("dim, size, block", [((2, 64, 8), 32, [1, 32, 1]), ((2, 8, 64), 16, [1, 1, 16])])
def test_a_number_is_along_the_dim_with_fewer_scales(g, dim, size, block):
    fewer = [n // one for n, one in zip(dim, block)]
    g.block_scale_dequantize(g.tensor(dim, None, T.FP8_E4M3), scales(g, fewer, None), size).set_output(True)
    g.validate()
    assert g.graph.nodes[0].op.block == tuple(block)


def test_scales_in_tiles_take_whole_tiles(g):
    """Memory of the size that they say is enough where that is whole; results say what they need."""
    x, s = g.tensor((1, 130, 96), None, T.FP8_E4M3), scales(g, (1, 130, 3))
    g.block_scale_dequantize(x, s, [1, 32]).set_output(True)
    q, z = g.block_scale_quantize(g.tensor((1, 130, 96), None), 32)
    q.set_output(True).set_data_type(T.FP8_E4M3)
    z.set_output(True).set_data_type(T.FP8_E8M0).set_reordering_type(TILED)
    g.validate()
    assert s.get_dim() == [1, 130, 3] and s.found.dims == (1, 256, 4) == tuple(z.get_dim())


def test_a_type_for_each_result_is_needed(g):
    y, scale = g.block_scale_quantize(g.tensor((4, 32), None), 32, axis=-1)
    y.set_output(True), scale.set_output(True).set_data_type(T.FP8_E8M0)
    with pytest.raises(BadParam, match="data_type of Y must be one of f8_e4m3 f8_e5m2 i8 f4_e2m1; got 'f32'"):
        g.validate()
    with pytest.raises(BadParam, match="axis must be a dim, or -1 for the last; got -2"):
        g.block_scale_quantize(y, 32, -2)


def test_tiles_are_of_scales_alone(g):
    s = scales(g, (1, 128, 4))
    g.block_scale_dequantize(g.tensor((1, 128, 128), None, T.FP8_E4M3), s, [1, 32]).set_output(True)
    g.identity(s, name="copy").set_output(True)
    with pytest.raises(BadParam, match="F8_128x4 must be that of scales alone; got x of copy, and of block"):
        g.validate()


def test_there_and_back(handle):
    """Through a stored graph. No element is further off than half of the last place, nor too large."""
    g = cudnn.pygraph(io_data_type=T.FLOAT, intermediate_data_type=T.FLOAT, handle=handle)
    X = g.tensor((3, 100), None, uid=1)
    y, scale = g.block_scale_quantize(X, 32, transpose=True)
    y.set_data_type(T.FP8_E4M3), scale.set_data_type(T.FP8_E8M0)
    back = g.block_scale_dequantize(y, scale, [32]).set_output(True).set_uid(2)
    again = cudnn.pygraph(handle=handle)
    again.deserialize(repr(g))
    again.build([cudnn.heur_mode.A])
    x = np.random.default_rng(0).normal(size=(3, 100)).astype(np.float32) * np.float32(100)
    out = np.empty_like(x)
    again.execute({1: x, 2: out}, np.empty(again.get_workspace_size(), np.uint8))
    blocks = np.pad(np.abs(x), ((0, 0), (0, 28))).reshape(3, 4, 32).max(-1)
    steps = np.exp2(np.ceil(np.log2(blocks / 448))).astype(ml_dtypes.float8_e8m0fnu).astype(float)
    off = np.abs(out - x) <= np.maximum(np.abs(x) / 16, np.repeat(steps, 32, 1)[:, :100] * 2.0 ** -10)
    assert off.all() and back.get_uid() == 2


FOURS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def numbers(data, axis):
    """Of bytes that hold two along an axis."""
    return np.stack([FOURS[data & 15], FOURS[data >> 4]], -1).reshape(
        [2 * n if i == axis else n for i, n in enumerate(data.shape)])


def test_numbers_of_4_bits(handle):
    """Made and read, in one graph and in two; another shape of the same plan, after it was stored."""
    g = cudnn.pygraph(io_data_type=T.FLOAT, intermediate_data_type=T.FLOAT, handle=handle)
    y, scale = g.block_scale_quantize(g.tensor((3, 64), None, uid=1), 16)
    y.set_data_type(T.FP4_E2M1).set_output(True).set_uid(2)
    scale.set_data_type(T.FP8_E4M3).set_output(True).set_uid(3)
    assert y.get_dim() == [3, 64] and y.get_stride() == [64, 1]
    g.build([cudnn.heur_mode.A])
    again = cudnn.pygraph(handle=handle)
    again.deserialize(g.serialize())
    whole = again.query_tensor_attributes_of_uid(2)
    assert (whole.get_data_type(), whole.get_dim(), whole.get_stride()) == (T.FP4_E2M1, [3, 64], [64, 1])
    for rows in (3, 2):
        x = np.random.default_rng(0).normal(size=(rows, 64)).astype(np.float32)
        out, scales = np.zeros((rows, 32), np.uint8), np.zeros((rows, 4), ml_dtypes.float8_e4m3fn)
        again.execute({1: x, 2: out, 3: scales}, np.empty(again.get_workspace_size(), np.uint8),
                      override_uids=[1, 2, 3], override_shapes=[[rows, 64], [rows, 64], [rows, 4]],
                      override_strides=[[64, 1], [64, 1], [4, 1]])
        wide = np.repeat(scales.astype(float), 16, 1)
        assert (np.abs(numbers(out, 1) * wide - x) <= np.maximum(np.abs(x) / 4, wide / 4) * (1 + 1e-6)).all()
        back = np.zeros_like(x)
        other = cudnn.pygraph(io_data_type=T.FLOAT, intermediate_data_type=T.FLOAT, handle=handle)
        q = other.tensor((rows, 64), None, T.FP4_E2M1, uid=1)
        scale = other.tensor((rows, 4), None, T.FP8_E4M3, uid=2)
        other.block_scale_dequantize(q, scale, 16).set_output(True).set_uid(3)
        other.build([cudnn.heur_mode.A])
        other.execute({1: out, 2: scales, 3: back}, np.empty(other.get_workspace_size(), np.uint8))
        assert np.array_equal(back, (numbers(out, 1) * wide).astype(np.float32))


def test_numbers_of_4_bits_are_scaled_alone(g):
    x = g.tensor((4, 64), None, T.FP4_E2M1, name="x")
    g.block_scale_dequantize(x, scales(g, (4, 2), None), 32).set_output(True)
    g.relu(x).set_output(True)
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="data_type must be one of .*; got FP4_E2M1"):
        g.validate()


def test_two_numbers_of_4_bits_are_a_byte(g):
    g.block_scale_dequantize(g.tensor((4, 63), None, T.FP4_E2M1, name="x"), scales(g, (4, 2), None), 32)
    g.steps[-1].outputs["y"].set_output(True)
    with pytest.raises(BadParam, match="tensor x: FP4_E2M1 must have an even dim of stride 1"):
        g.validate()


def test_two_numbers_of_4_bits_are_of_one_block(g):
    y, scale = g.block_scale_quantize(g.tensor((4, 64), None), 32)
    y.set_data_type(T.FP4_E2M1).set_output(True).set_stride((1, 4))
    scale.set_data_type(T.FP8_E8M0).set_output(True)
    with pytest.raises(BadParam, match="Y must have stride 1 along the axis, 1, as a byte holds two"):
        g.validate()
