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
    with pytest.raises(BadParam, match="data_type of Y must be one of f8_e4m3 f8_e5m2 i8; got 'f32'"):
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
