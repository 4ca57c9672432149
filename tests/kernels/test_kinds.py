"""The table of parameter kinds: every type once, the layout of the compiler, patches that agree
with the packing."""
import ctypes
import re
import struct

import pytest
from hypothesis import given, strategies
from toolchain import COMPILER, build_ptx, contract, needs_nvcc, variants

from cydnn.kernels import kinds

EVERY = ["const float* a", "int b", "CUtensorMap c", "unsigned d", "int64_t e", "float f", "CUtensorMap g",
         "double h", "FastDiv i", "Array<FastDiv, 3> j", "Array<i64, 2> k", "Array<float, 5> l", "f64* m",
         "Array<unsigned, 1> n", "Number<float> o", "Number<i64> p", "Fuse fuse"]
OFFSETS = [0, 8, 128, 256, 264, 272, 384, 512, 520, 532, 568, 584, 608, 616, 624, 640, 656]


def test_every_spelling_is_one_row():
    spellings = [name for kind in kinds.ROWS for name in kind.name.split()]
    assert len(set(spellings)) == len(spellings) == len(kinds.BY_NAME)
    assert kinds.find("const f16*") is kinds.find("T*") is kinds.POINTER
    assert kinds.find("i32") is kinds.find("int")


def test_patches_are_as_wide_as_their_parameters():
    for kind in kinds.ROWS:
        if kind.patch not in ("", "map"):
            patch = kinds.PATCHES[kind.patch]
            assert patch.bytes == kind.bytes == struct.calcsize(patch.code)
    assert {kind.patch for kind in kinds.ROWS} - {""} == set(kinds.PATCHES)
    assert set(kinds.NUMBERS) | {"pointer", "map"} == set(kinds.PATCHES)


@given(strategies.sampled_from([k for k in kinds.ROWS if k.patch in kinds.NUMBERS]),
       strategies.integers() | strategies.floats())
def test_a_number_is_the_same_bytes_packed_or_patched(kind, value):
    def bytes_of(write):
        try:
            return write()
        except (TypeError, ValueError, OverflowError) as error:
            return type(error)
    assert bytes_of(lambda: kind.pack(value)) == bytes_of(lambda: kinds.number(kind.patch, value))


@given(strategies.floats())
def test_f32_is_rounded_as_c_does(value):
    assert kinds.number("f32", value) == bytes(ctypes.c_float(value)) or value != value


@pytest.mark.parametrize("text", ["size_t", "Array<int>", "Array<int, 0>", "Array<Fuse, 2>", "", "Tensor",
                                  "Array<CUtensorMap, 2>", "Array<void, 1>", "Number<FastDiv>",
                                  "Number<f16>"])
def test_an_unknown_type_is_refused_with_what_there_is(text):
    sentence = "a parameter must be a pointer, .*, Number<T> or one of int, .*CUtensorMap; got "
    with pytest.raises(ValueError, match=sentence + re.escape(repr(text))):
        kinds.find(text)


DECLARED = ", ".join(text.replace("CUtensorMap", "const __grid_constant__ CUtensorMap") for text in EVERY)
ALL_KINDS = f"""/*@kernel
name   = "kinds_{{T}}"
about  = "Every kind of parameter."
T      = ["f32"]
params = {EVERY}
block  = [32, 1, 1]
grid   = [1, 1, 1]
marks  = ["epilogue"]
@*/
#include "lib/number.cuh"
struct alignas(128) CUtensorMap {{ unsigned long long opaque[16]; }};

extern "C" __global__ void KERNEL({DECLARED}) {{
    float v = f + float(b) + l[threadIdx.x & 3] + o.load() + float(p.load());
    asm volatile("// @fuse.epilogue v=%0 off=%1;" : "+f"(v) : "l"(e));
    m[threadIdx.x] = v + k[1] + j[2].by;
}}
""".replace("'", '"')


@needs_nvcc
def test_layout_is_that_of_the_compiler(tmp_path):
    """The PTX has the bytes and the alignment of each row; so the offsets, which follow from them, are
    the compiler's."""
    variant = variants(tmp_path, ALL_KINDS)[0]
    build_ptx.build_image(COMPILER, variant, "sm_75", tmp_path / "src")
    assert [p["offset"] for p in variant.contract["params"]] == OFFSETS


@needs_nvcc
def test_another_alignment_is_refused(tmp_path):
    variant = variants(tmp_path, ALL_KINDS.replace("alignas(128)", "alignas(64)"))[0]
    sentence = "params must be those of KERNEL; the contract has .*128, 128.*PTX .*128, 64"
    with pytest.raises(contract.ContractError, match=sentence):
        build_ptx.build_image(COMPILER, variant, "sm_75", tmp_path / "src")
