"""What is taken as a pointer and as a stream."""
import ctypes

import numpy as np
import pytest

from cydnn import _core, bench, plan
from cydnn.core import _operands
from cydnn.ops import Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc


class Cuda:
    __cuda_array_interface__ = {"data": (0x1230, False), "shape": (1,), "typestr": "<f4", "version": 3}


class Dlpack:
    """Only ``__dlpack__``, no buffer and no array interface."""
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **_):
        return self.array.__dlpack__()


class Index:
    """Only ``__index__``: an address, though no number."""
    def __index__(self):
        return 0x1240


def test_pointers():
    array = np.arange(20, dtype=np.float32)
    at = array.ctypes.data
    assert ([_core.pointer_of(x) for x in (0, None, 0x1230, 2**64 - 16, True, np.int64(77), np.uint64(2**63))]
            == [0, 0, 0x1230, 2**64 - 16, 1, 77, 2**63])
    assert (_core.pointer_of(array) == at and _core.pointer_of(array[3:]) == at + 12
            and _core.pointer_of(array[::-2]) == at + 76)
    assert _core.pointer_of(Cuda()) == 0x1230 and _core.pointer_of(Dlpack(array[2:])) == at + 8
    assert _core.pointer_of(Index()) == 0x1240 and repr(_core.memory_of(Index())) == "<memory at 0x1240>"
    frozen = array[1:]
    frozen.flags.writeable = False
    assert _core.pointer_of(frozen) == at + 4


def test_arrays_of_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.zeros(8, ml_dtypes.bfloat16)
    assert _core.pointer_of(array[1:]) == array.ctypes.data + 2


@pytest.mark.parametrize("device", ["numpy", "ptx:sm_90"])
def test_a_buffer_that_says_no_strides_is_row_major(device):
    """Arrays of ctypes export none, as an operand and as a workspace."""
    array = ((ctypes.c_float * 3) * 2)(*[(1, 1, 1)] * 2)
    found = _core.memory_of(array)
    assert (found.dims, found.strides, found.type, found.bytes) == ((2, 3), (3, 1), "float32", 24)
    assert _core.scratch_of(array, 24).address == ctypes.addressof(array)
    plan.build(bench.graph_of(Problem.parse("set_tensor 2x3")), device).execute([array])
    assert [list(row) for row in array] == [[0] * 3] * 2


class Table(ctypes.Structure):
    """DLPackExchangeAPI."""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                *[(name, ctypes.c_void_p) for name in ("previous", "allocate", "from_object", "to_object",
                                                       "dltensor", "stream")]]


def offered(table):
    """The capsule of a table, for ``__dlpack_c_exchange_api__``."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return capsule(ctypes.addressof(table), LABEL, None)


LABEL = ctypes.c_char_p(b"dlpack_exchange_api")


def test_the_c_exchange_api_is_used_when_a_type_has_it():
    """A type whose capsule's table gives its tensors without a DLPack capsule."""
    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                    ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                    ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                    ("byte_offset", ctypes.c_uint64)]
    calls, shape = [], (ctypes.c_int64 * 2)(3, 5)

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
    def fill(x, out):
        calls.append(x)
        out[0].data, out[0].byte_offset, out[0].device_type, out[0].strides = x.at, 16, 2, None
        out[0].code, out[0].bits, out[0].lanes = 2, 32, 1
        out[0].ndim, out[0].shape = 2, ctypes.addressof(shape)
        return 0

    table = Table(major=1, minor=2, dltensor=ctypes.cast(fill, ctypes.c_void_p).value)
    newer = Table(major=2, previous=ctypes.addressof(table))

    for top in (table, newer):
        class Mine:
            at = 0x4000
            __dlpack_c_exchange_api__ = offered(top)
        calls.clear()
        assert _core.pointer_of(Mine()) == _core.pointer_of(Mine()) == 0x4010 and len(calls) == 2
        found = _core.memory_of(Mine())
        assert (found.address, found.place, found.type, found.dims, found.strides, found.bytes) == (
            0x4010, "a GPU", "float32", (3, 5), (5, 1), 60)


def test_a_tensor_without_memory():
    """What the table's function raises, as torch's does for sparse, meta and quantized tensors, is our error.
    The function is one of Python's that calls ``__bool__``."""
    table = Table(major=1, dltensor=ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p).value)

    class Sparse:
        __dlpack_c_exchange_api__ = offered(table)

        def __bool__(self):
            raise RuntimeError("no storage\nframe #0: Tensor.cpp")
    says = "Sparse does not give its memory: RuntimeError: no storage frame #0: Tensor.cpp"
    for call in (_core.pointer_of, _core.memory_of):
        with pytest.raises(BadParam, match=f"^pointer: {says} .CUDNN"):
            call(Sparse())
    built = plan.build(bench.graph_of(Problem.parse("softmax_fwd 4x8 f32")), "numpy")
    with pytest.raises(BadParam, match=f"^y: {says}"):
        built.execute([np.ones(32, np.float32), Sparse()])


@pytest.mark.parametrize("x", ["text", 1.5, [], object()])
def test_other_things_are_no_pointers(x):
    with pytest.raises(BadParam, match="pointer: must be an int address, None, or an object with .*; "
                                       f"got {type(x).__name__}"):
        _core.pointer_of(x)


def test_streams():
    class New:
        def __cuda_stream__(self):
            return 0, 0x55

    class Property:
        __cuda_stream__ = (0, 0x66)

    class Torch:
        cuda_stream = 0x77

    class Cupy:
        ptr = 0x88
    assert ([_core.stream_of(s) for s in (None, 0, 1, New(), Property(), Torch(), Cupy())]
            == [0, 0, 1, 0x55, 0x66, 0x77, 0x88])
    with pytest.raises(BadParam, match="stream: must be an int address, None, "
                                       "or an object with __cuda_stream__; got float"):
        _core.stream_of(1.0)


@pytest.mark.parametrize("shape", [(6, 4), (1, 2, 12), (2, 3, 4), (24,)])
def test_neighbouring_dims_may_be_one(shape):
    """Of memory without gaps, also where the tensor begins with dims of 1."""
    wants = _operands.Operands([("x", 96, 4, False, False, TensorDesc.packed("f32", (1, 2, 3, 4)))])
    assert wants.memories((np.zeros(shape, np.float32),))[0].bytes == 96
    with pytest.raises(BadParam, match=r"x: array must have shape \(1, 2, 3, 4\)"):
        wants.memories((np.zeros((3, 8), np.float32),))


def test_memory_of_no_type_must_be_long_enough():
    wants = _operands.Operands([("reserve", 96)])
    assert wants.memories((np.zeros((2, 3, 4), np.int32),))[0].bytes == 96
    with pytest.raises(BadParam, match=r"reserve: array must have at least 96 bytes; got 92 bytes in shape"):
        wants.memories((np.zeros(23, np.int32),))
