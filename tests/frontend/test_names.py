"""The names of the module, the members of its enumerations and their numbers."""
from __future__ import annotations

import enum
import pickle

import numpy as np
import pytest

import cydnn
import cydnn.frontend as cudnn
from cydnn.backend import number
from cydnn.status import BadParam

from .fakes import Dtype

NAMES = """backend_version backend_version_string get_last_error_string create_handle destroy_handle
set_stream get_stream create_kernel_cache create_device_properties pygraph tensor knob
kernel_cache device_properties Graph graph jit graph_cache cudnnGraphNotSupportedError datatypes
_compiled_module _pybind_module __version__ __file__ convolution_mode data_type heur_mode
build_plan_policy norm_forward_phase reduction_mode behavior_note numerical_note knob_type
tensor_reordering diagonal_alignment attention_implementation reshape_mode scalar_type
moe_grouped_matmul_mode""".split()

MEMBERS = dict(
    data_type="FLOAT DOUBLE HALF INT8 INT32 INT8x4 UINT8 UINT8x4 INT8x32 BFLOAT16 INT64 BOOLEAN FP8_E4M3 "
               "FP8_E5M2 "
              "FAST_FLOAT_FOR_FP8 BYTE_BOOLEAN NOT_SET FP8_E8M0 FP4_E2M1 INT4",
    heur_mode="A B FALLBACK OPENSOURCE", build_plan_policy="HEURISTICS_CHOICE ALL",
    norm_forward_phase="INFERENCE TRAINING NOT_SET", convolution_mode="CONVOLUTION CROSS_CORRELATION",
    reduction_mode="ADD MUL MIN MAX AMAX AVG NORM1 NORM2 MUL_NO_ZEROS NOT_SET",
    behavior_note="RUNTIME_COMPILATION REQUIRES_FILTER_INT8x32_REORDER REQUIRES_BIAS_INT8x32_REORDER "
                  "SUPPORTS_CUDA_GRAPH_NATIVE_API CUBLASLT_DEPENDENCY",
    numerical_note="TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION FFT NONDETERMINISTIC "
               "WINOGRAD "
                   "WINOGRAD_TILE_4x4 WINOGRAD_TILE_6x6 WINOGRAD_TILE_13x13 STRICT_NAN_PROP",
    knob_type="NOT_SET SWIZZLE TILE_SIZE EDGE MULTIPLY SPLIT_K_BUF TILEK STAGES REDUCTION_MODE SPLIT_K_SLC "
               "IDX_MODE SPECFILT "
              "KERNEL_CFG WORKSPACE TILE_CGA_M TILE_CGA_N BLOCK_SIZE OCCUPANCY ARRAY_SIZE_PER_THREAD "
               "SPLIT_COLS TILE_ROWS "
              "TILE_COLS LOAD_SIZE CTA_COUNT STREAM_K SPLIT_P_SLC TILE_M TILE_N WARP_SPEC_CFG SWAP_AB "
              "INPUT_TMA_ENABLE OUTPUT_TMA_ENABLE TILE_CGA",
    tensor_reordering="NONE INT8x32 F16x16 F8_128x4", diagonal_alignment="TOP_LEFT BOTTOM_RIGHT",
    attention_implementation="AUTO COMPOSITE UNIFIED", reshape_mode="VIEW_ONLY LOGICAL",
    resample_mode="NOT_SET AVGPOOL_EXCLUDE_PADDING AVGPOOL_INCLUDE_PADDING BILINEAR NEAREST MAXPOOL",
    padding_mode="NOT_SET EDGE_VAL_PAD NEG_INF_PAD ZERO_PAD",
    signal_mode="NOT_SET SET WAIT",
    rng_distribution="NOT_SET BERNOULLI UNIFORM NORMAL",
    scalar_type="RUNTIME_PARAM COMPILE_TIME_CONST", moe_grouped_matmul_mode="NONE GATHER SCATTER")

PREFIXES = dict(data_type="DATA_", heur_mode="HEUR_MODE_", reduction_mode="REDUCE_TENSOR_",
                convolution_mode="",
                behavior_note="BEHAVIOR_NOTE_", numerical_note="NUMERICAL_NOTE_", knob_type="KNOB_TYPE_",
                tensor_reordering="TENSOR_REORDERING_", norm_forward_phase="NORM_FWD_")


def test_every_name_is_there():
    assert [n for n in NAMES if not hasattr(cudnn, n)] == []


@pytest.mark.parametrize("name", MEMBERS)
def test_members(name):
    kind = getattr(cudnn, name)
    assert set(kind.__members__) == set(MEMBERS[name].split())
    assert issubclass(kind, enum.Enum) and not issubclass(kind, int)
    assert len({m.value for m in kind}) == len(kind)


@pytest.mark.parametrize("name", PREFIXES)
def test_numbers_are_those_of_the_backend(name):
    """What is below 0 is known to the front end alone."""
    for member in getattr(cudnn, name):
        api = f"CUDNN_{PREFIXES[name]}{member.name}"
        if member.value >= 0:
            assert int(member) == number(api), api
        else:
            with pytest.raises(BadParam):
                number(api)


def test_members_are_like_those_of_the_package():
    half = cudnn.data_type.HALF
    assert str(half) == "data_type.HALF" and half.FLOAT is cudnn.data_type.FLOAT and half == half.HALF
    assert {half: 1}[cudnn.data_type.HALF] == 1 and pickle.loads(pickle.dumps(half)) is half
    assert cudnn.diagonal_alignment.BOTTOM_RIGHT != cudnn.diagonal_alignment.BOTTOM_RIGHT.TOP_LEFT
    with pytest.raises(AttributeError, match="heur_mode has no member C; members are B FALLBACK A"):
        cudnn.heur_mode.C
    with pytest.raises(AttributeError, match="data_type has no member FLOAT128; members are FLOAT DOUBLE"):
        half.FLOAT128


def test_version():
    assert cudnn.backend_version() >= 92200
    major, minor, patch = map(int, cudnn.backend_version_string().split("."))
    assert cudnn.backend_version() == 10000 * major + 100 * minor + patch


def test_the_last_error_is_kept():
    with pytest.raises(ValueError):
        cudnn.destroy_handle(-5)
    assert "handle must be one of create_handle; got -5" in cudnn.get_last_error_string()


def test_the_compiled_module_has_the_same_enums():
    assert cudnn._compiled_module.data_type is cudnn._pybind_module.data_type is cudnn.data_type


def test_types_of_torch():
    of = cudnn.datatypes._library_type
    assert of(cudnn.data_type.INT8x4) is cudnn.data_type.INT8x4
    assert of(Dtype("bfloat16")) is cudnn.data_type.BFLOAT16 and of(Dtype("bool")) is cudnn.data_type.BOOLEAN
    assert cudnn.datatypes._torch_to_cudnn_data_type(Dtype("complex64")) is None
    assert of("float16") is of(np.float16) is cudnn.data_type.HALF
    for wrong in ("float", float, 2, None, Dtype("complex64")):
        with pytest.raises(ValueError, match="one of data_type.FLOAT .*, a dtype of torch or NumPy, "):
            of(wrong)


def test_torch_is_asked_for_its_types(monkeypatch):
    class torch:
        float16, int8 = Dtype("float16"), Dtype("int8")
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    assert cudnn.datatypes.is_torch_available()
    back = cudnn.datatypes._cudnn_to_torch_data_type
    assert back(cudnn.data_type.HALF) is torch.float16 and back(cudnn.data_type.INT8) is torch.int8
    assert back(cudnn.data_type.INT8x32) is None and back(cudnn.data_type.FLOAT) is None


def test_every_enumeration_is_known_to_the_package_too():
    for name in MEMBERS:
        assert getattr(cydnn, name) is getattr(cudnn, name)


def test_handles():
    first, second = cudnn.create_handle("numpy"), cudnn.create_handle("numpy")
    assert isinstance(first, int) and first != second
    cudnn.set_stream(handle=first, stream=64)
    assert cudnn.get_stream(first) == 64 and cudnn.get_stream(second) == 0
    cudnn.destroy_handle(first)
    with pytest.raises(ValueError, match=f"handle: must be one of create_handle; got {first}"):
        cudnn.set_stream(first, 0)
    cudnn.destroy_handle(second)
