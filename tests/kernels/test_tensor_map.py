"""Tensor maps: what the hardware refuses is refused in words when arguments are packed; the driver's
numbers."""
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies
from toolchain import COMPILER

from cydnn import kernels
from cydnn.kernels import tensor_map
from cydnn.kernels.pack import Packer
from cydnn.status import BadParam
from cydnn.steps import Pointer, TensorMap

GOOD = TensorMap(Pointer(3, 32), "f16", (100, 30, 7), (208, 6400), (64, 16, 2), (1, 2, 1), 128, True)
PIXELS = replace(GOOD, dims=(64, 9, 7, 2), strides=(128, 1152, 8064), box=(64, 128), steps=(1, 2, 1, 1),
                 corners=((-1, -1), (-1, -1)))
REFUSED = [
    (dict(dtype="bool"), "dtype must be one of i8 u8 f8_e4m3 f8_e5m2 i32 i64 f16 f32 f64 bf16; got bool"),
    (dict(dims=(1,) * 6), "dims must have 1 to 5 entries; got 6"),
    (dict(strides=(208,)), r"strides must have 2 entries for dims (100, 30, 7); got (208,)"),
    (dict(box=(64, 16)), "box must have 3 entries for dims (100, 30, 7); got (64, 16)"),
    (dict(steps=(1,)), "steps must have 3 entries for dims (100, 30, 7); got (1,)"),
    (dict(dims=(100, 0, 7)), "dims must be in 1 … 2^32; got (100, 0, 7)"),
    (dict(dims=(2**32 + 1, 30, 7)), "dims must be in 1 … 2^32; got (4294967297, 30, 7)"),
    (dict(strides=(200, 6400)), "strides must be multiples of 16 bytes; got (200, 6400)"),
    (dict(strides=(208, 2**40)), "strides must be in 0 … 2^40 - 16 bytes; got (208, 1099511627776)"),
    (dict(strides=(-208, 6400)), "strides must be in 0 … 2^40 - 16 bytes; got (-208, 6400)"),
    (dict(box=(64, 257, 2)), "box must be in 1 … 256; got (64, 257, 2)"),
    (dict(box=(64, 0, 2)), "box must be in 1 … 256; got (64, 0, 2)"),
    (dict(steps=(1, 9, 1)), "steps must be in 1 … 8; got (1, 9, 1)"),
    (dict(swizzle=16), "swizzle must be one of 0 32 64 128 bytes; got 16"),
    (dict(box=(36, 16, 2)), "box must have rows of a multiple of 16 bytes, and these have 72; got (36, 16, "),
    (dict(swizzle=64), "box must have rows of at most the swizzle's 64 bytes, and these have 128; got (64, "),
    (dict(dtype="i32", box=(32, 16, 2)), "fill_nan must be False for i32; got True"),
    (dict(pointer=Pointer(3, 8)), "pointer must lie a multiple of 16 bytes behind its tensor; got 8"),
]


@pytest.mark.parametrize("changes, sentence", REFUSED, ids=[s.split(";")[0][:40] for _, s in REFUSED])
def test_refused(changes, sentence):
    packer = Packer("copy_f16", dict(name="x", type="CUtensorMap", offset=128))
    later = {"maps": []}
    assert list(kernels.map_reasons(GOOD)) == [] and packer.put(None, GOOD, later) is None
    with pytest.raises(BadParam, match=re.escape(f"copy_f16: x: {sentence}")):
        packer.put(None, replace(GOOD, **changes), later)
    assert later["maps"] == [(128, GOOD)]


OF_PIXELS = [
    (dict(corners=((0,), (0,))), "corners must be two, each of the spatial dims of (64, 9, 7, 2); got ((0,)"),
    (dict(dims=(64, 9), strides=(128,)), "corners must be two, each of the spatial dims of (64, 9); got "),
    (dict(box=(64, 8, 1)), "box must have 2 entries for dims (64, 9, 7, 2); got (64, 8, 1)"),
    (dict(box=(64, 1025)), "box must be 1 … 256 channels of 1 … 1024 pixels; got (64, 1025)"),
    (dict(corners=((-129, 0), (0, 0))), "corners must be in -128 … 127 for 2 spatial dims; got ((-129, "),
    (dict(corners=((0, 0), (0, 128))), "corners must be in -128 … 127 for 2 spatial dims; got ((0, 0), "),
    (dict(corners=((0, 4), (0, -3))), "corners must leave a pixel of (64, 9, 7, 2); got ((0, 4), (0, -3))"),
    (dict(box=(128, 8)), "box must have rows of at most the swizzle's 128 bytes, and these have 256; got (1"),
]


@pytest.mark.parametrize("changes, sentence", OF_PIXELS, ids=[s.split(";")[0][:40] for _, s in OF_PIXELS])
def test_maps_of_pixels(changes, sentence):
    packer = Packer("conv", dict(name="x", type="CUtensorMap", offset=0))
    assert list(kernels.map_reasons(PIXELS)) == []
    assert kernels.encoding(PIXELS)[3:] == ((64, 128), (1, 2, 1, 1), 3, True, ((-1, -1), (-1, -1)))
    with pytest.raises(BadParam, match=re.escape(f"conv: x: {sentence}")):
        packer.put(None, replace(PIXELS, **changes), {"maps": []})


@pytest.mark.parametrize("value", [None, 4096, Pointer(1), (1, 2)])
def test_a_map_is_a_map(value):
    with pytest.raises(BadParam, match="k: x must be a TensorMap; got "):
        Packer("k", dict(name="x", type="CUtensorMap", offset=0)).put(None, value, {"maps": []})


dims = strategies.lists(strategies.integers(1, 2**32), min_size=1, max_size=5)


@given(dims, strategies.data())
def test_what_the_rules_allow_is_silent(dims, data):
    rank = len(dims)
    def draw(low, high, n):
        return data.draw(strategies.lists(strategies.integers(low, high), min_size=n, max_size=n))
    strides, box = tuple(16 * s for s in draw(0, 2**36 - 1, rank - 1)), draw(1, 256, rank)
    map_ = TensorMap(Pointer(0), "f32", tuple(dims), strides, (4 * -(-box[0] // 4), *box[1:]))
    assert list(kernels.map_reasons(map_)) == []
    type_, *rest, swizzle, fill, corners = kernels.encoding(map_)
    assert rest == [map_.dims, strides, map_.box, (1,) * rank] and (
        type_, swizzle, fill, corners) == (7, 0, False, ())


@pytest.mark.skipif(COMPILER is None, reason="needs the header of a CUDA toolkit")
def test_numbers_are_those_of_the_header():
    headers = [p for p in Path("/usr/local").glob("cuda*/include/cuda.h")]
    if not headers:
        pytest.skip("needs cuda.h")
    text = headers[0].read_text()

    def enum(name):
        body = re.search(rf"typedef enum {name}_enum \{{(.*?)\}}", text, re.S)[1]
        words = re.findall(r"CU_TENSOR_MAP_(\w+)\s*(?:=\s*\d+)?", body)
        return {word.split("_", 2)[-1] if name.endswith("Type") else word: i for i, word in enumerate(words)}
    types = enum("CUtensorMapDataType")
    names = dict(i8="UINT8", u8="UINT8", f8_e4m3="UINT8", f8_e5m2="UINT8", i32="INT32", i64="INT64",
                 f16="FLOAT16", f32="FLOAT32", f64="FLOAT64", bf16="BFLOAT16")
    assert {name: types[word] for name, word in names.items()} == tensor_map.TYPES
    swizzles = list(enum("CUtensorMapSwizzle"))
    assert swizzles[:4] == ["SWIZZLE_NONE", "SWIZZLE_32B", "SWIZZLE_64B", "SWIZZLE_128B"]
    assert list(tensor_map.SWIZZLES.values()) == [0, 1, 2, 3]
