"""Arrays of other libraries: what they say of themselves, and new ones beside them. Nothing is imported: a
library is the module that an array's type came from.

A ``Kind`` is a row for one library. ``row`` is all that tells one plan from another, and is read on every
call; ``said`` is read where a plan is made.
"""
from __future__ import annotations

import sys
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from .. import device as devices
from .._core import IN_C, Memory, capsule_of, memory_of, pointer_of
from ..dtypes import ML_DTYPES, DType, boolean, dlpack_types, dtype, u8
from ..given import shown, unmasked
from ..status import BadParam, CydnnError
from ..tensor import TensorDesc, stride_order


HOST, ON_HOST, ON_CUDA = "host", 1, 2            # a place of memory; kDLCPU, kDLCUDA of DLPack
LEGACY = 1                                       # the stream that all others wait for, in DLPack


class Said(NamedTuple):
    """``place``: the name of the device that the memory is of; ``is_bool``: a byte is a truth value."""
    desc: TensorDesc
    place: str
    alignment: int
    is_bool: bool


def foreign_name(row: DType) -> str:
    """What NumPy, torch and others call a type."""
    return ML_DTYPES.get(row.name) or row.numpy.name


def of_layout(name: str, dims, strides, kind, place: str = HOST, address: int = 0) -> Said:
    """What an array of a layout says of itself. Raises BadParam."""
    try:
        row = dtype(kind)
        is_bool = row is boolean
        desc = TensorDesc(u8 if is_bool else row, [int(d) for d in dims], [int(s) for s in strides])
    except CydnnError as error:
        sentence = error.args[0].removeprefix("tensor: ")
        raise BadParam(f"{name}: {sentence}") from None
    alignment = next((a for a in (16, 8, 4, 2) if address % a == 0), 1)
    return Said(desc, place, max(alignment, desc.dtype.bytes), is_bool)


class NumpyArrays:
    """Arrays of NumPy, in the host's memory. What computes is the NumPy device, where no other is named.
    ``grad``: whether gradients are recorded; ``written``: told what was written over; None where there is
    no such thing."""
    name, is_foreign, grad, written = "NumPy", False, None, None

    def row(self, x):
        return x.shape, x.strides, x.dtype, pointer_of(x) & 15

    def said(self, name: str, x) -> Said:
        unmasked(name, x)
        size = max(x.itemsize, 1)
        if min(x.strides, default=0) < 0:
            raise BadParam(f"{name}: strides must be >= 0; got {x.strides} bytes: pass a copy of it")
        if any(s % size for s in x.strides):
            raise BadParam(f"{name}: strides must be whole elements of {size} bytes; got {x.strides} bytes: "
                           "pass a copy of it")
        return of_layout(name, x.shape, [s // size for s in x.strides], x.dtype, HOST, pointer_of(x))

    def maker(self, desc: TensorDesc, is_bool: bool, place: str):
        """What makes arrays of a description on a device."""
        return _maker(np, desc, is_bool)

    def as_bytes(self, x):
        """Truth values as the bytes that they are."""
        return x.view(np.uint8)

    def stream(self, place: str):
        """What gives the caller's current stream on a device; None where there is none."""

    def scratch(self, size_bytes: int, device):
        return device.alloc(size_bytes)


class TorchArrays:
    """Tensors of torch, on the CPU or a CUDA device."""
    name, is_foreign = "torch", False

    def written(self, x):
        """Autograd is told, so that nobody's gradient reads it as what it was."""
        self.changed((x,))

    def __init__(self):
        self.torch = torch = sys.modules["torch"]
        IN_C.update({torch.Tensor: True, torch.nn.Parameter: True})
        self.grad = torch.is_grad_enabled
        self.changed = torch._C._increment_version
        self._stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self._guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)

    def row(self, x):
        if x.requires_grad and self.grad():
            return []                            # no key: refused where the argument has a name
        return x.shape, x.stride(), x.dtype, x.device, x.data_ptr() & 15

    def said(self, name: str, x) -> Said:
        torch, place = self.torch, x.device.type
        if x.requires_grad and self.grad():
            raise BadParam(f"{name}: must not require a gradient, as cydnn.torch alone records them; got a "
                           "tensor that does: call cydnn.torch's function of that name, or use "
                           "torch.no_grad()")
        if x.is_nested or x.layout is not torch.strided or x.is_conj() or x.is_neg():
            which = "nested" if x.is_nested else "conjugated" if x.is_conj() else "negated"
            raise BadParam(f"{name}: must be a strided tensor, neither nested, conjugated nor negated; got "
                           f"{x.layout if x.layout is not torch.strided else f'a {which} one'}")
        if place not in ("cpu", "cuda"):
            raise BadParam(f"{name}: must be on the CPU or a CUDA device; got {place}")
        where = HOST if place == "cpu" else f"cuda:{x.device.index}"
        try:
            address = x.data_ptr()
        except RuntimeError:                     # of a transform
            address = 0
        if not address and x.numel():
            raise BadParam(f"{name}: must have memory; got a {type(x).__name__} without: call cydnn.torch's "
                           "function of that name")
        return of_layout(name, x.shape, x.stride(), x.dtype, where, address)

    def maker(self, desc: TensorDesc, is_bool: bool, place: str):
        """On the only GPU, or the CPU: torch's short way, past its dispatcher, where it has one."""
        torch, at = self.torch, self.at(place)
        kind = torch.bool if is_bool else getattr(torch, foreign_name(desc.dtype))
        short = getattr(self._guards, f"_empty_strided_{at.type}", None)
        if short is not None and (at.type == "cpu" or torch.cuda.device_count() == 1):
            return partial(short, desc.dims, desc.strides, kind)
        return partial(torch.empty_strided, desc.dims, desc.strides, dtype=kind, device=at)

    def at(self, place: str):
        """The device of torch: the CPU's memory is where the NumPy device and interpreters work."""
        return self.torch.device(place if place.startswith("cuda") else "cpu")

    def as_bytes(self, x):
        return x.view(self.torch.uint8)

    def stream(self, place: str):
        if not place.startswith("cuda"):
            return None
        if self._stream is not None:
            return partial(self._stream, self.at(place).index)
        return lambda: self.torch.cuda.current_stream(place).cuda_stream

    def scratch(self, size_bytes: int, device):
        if device.context is None:
            return device.alloc(size_bytes)
        return self.torch.empty(size_bytes, dtype=self.torch.uint8, device=device.name)


class CupyArrays:
    """Arrays of CuPy."""
    name, is_foreign, grad, written = "CuPy", False, None, None

    def __init__(self):
        self.cupy = sys.modules["cupy"]

    def row(self, x):
        return x.shape, x.strides, x.dtype, x.device.id, x.data.ptr & 15

    def said(self, name: str, x) -> Said:
        size = max(x.itemsize, 1)
        return of_layout(name, x.shape, [s // size for s in x.strides], x.dtype, f"cuda:{x.device.id}",
                         x.data.ptr)

    def maker(self, desc: TensorDesc, is_bool: bool, place: str):
        return _maker(self.cupy, desc, is_bool)

    def as_bytes(self, x):
        return x.view(np.uint8)

    def stream(self, place: str):
        return lambda: self.cupy.cuda.get_current_stream().ptr

    def scratch(self, size_bytes: int, device):
        return self.cupy.empty(size_bytes, np.uint8)


class Exporter:
    """An array on a GPU whose library has the legacy stream wait for it."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self):
        return self.x.__dlpack__(stream=LEGACY)


class GpuArray:
    """A result on a GPU, for a library that reads it through DLPack."""

    def __init__(self, device, desc: TensorDesc, is_bool: bool):
        self.device, self.desc = device, desc
        self.kind = dlpack_types(boolean if is_bool else desc.dtype)[0]
        self.buffer = device.alloc(desc.bytes)

    def __dlpack__(self, **how):
        """Nobody has to wait for it: it is handed out when it is there."""
        return capsule_of(self, self.buffer.ptr, self.__dlpack_device__(), self.kind, self.desc.dims,
                          self.desc.strides)

    def __dlpack_device__(self):
        return self.buffer.__dlpack_device__()


class StandardArrays(NumpyArrays):
    """Arrays of any library that follows the array API standard (JAX): read through DLPack, in the host's
    memory or that of a GPU; results are handed to the library's own ``from_dlpack``. On a GPU a call waits
    for its result, as nothing says which stream the library goes on with."""
    name, is_foreign = "the array API", True

    def row(self, x):
        found = self.read(x)
        if not isinstance(found, Memory):
            return type(x), super().row(found)
        return type(x), x.dtype, x.__dlpack_device__(), found.dims, found.strides, found.address & 15

    def said(self, name, x) -> Said:
        found = self.read(x, name)
        if not isinstance(found, Memory):
            return super().said(name, found)
        place = f"cuda:{x.__dlpack_device__()[1]}"
        return of_layout(name, found.dims, found.strides, x.dtype, place, found.address)

    @staticmethod
    def read(x, name="array"):
        """The memory of an array: as one of NumPy, or what is said of it on a GPU."""
        try:
            place = x.__dlpack_device__()
        except AttributeError:                   # a tracer of JAX
            raise BadParam(f"{name}: must be an array with memory; got {shown(x)}: under a trace of jax call "
                           "the function of cydnn.jax") from None
        if place[0] == ON_CUDA:
            return memory_of(Exporter(x))
        if place[0] != ON_HOST:
            raise BadParam(f"{name}: must be in the host's memory or in that of a CUDA device; got one on "
                           f"device {place}")
        try:
            return np.from_dlpack(x)
        except (RuntimeError, BufferError):      # a type of ml_dtypes: DLPack of NumPy has none of them
            return np.asarray(x)

    def maker(self, desc: TensorDesc, is_bool: bool, place: str):
        if place.startswith("cuda"):
            return partial(GpuArray, devices.get(place), desc, is_bool)
        return super().maker(desc, is_bool, place)

    def as_bytes(self, x):
        return x.view(np.uint8) if isinstance(x, np.ndarray) else pointer_of(x)

    @staticmethod
    def given_back(found, like):
        """An array of the caller's library with the memory of a result."""
        library = like.__array_namespace__()
        if isinstance(found, GpuArray):
            found.device.synchronize()
            return library.from_dlpack(found)
        return (library.from_dlpack if found.dtype.isbuiltin == 1 else library.asarray)(found)


@lru_cache(maxsize=None)
def _kind(make):
    return make()


class PlainNumbers:
    """Numbers in the place of arrays: which one it is, is said when a plan runs."""
    row = staticmethod(type)


KINDS: dict = {int: PlainNumbers, float: PlainNumbers}     # type of an argument -> its kind


def kind_of(x, name: str = "array"):
    """The kind of an array. Raises BadParam for what is none."""
    found = KINDS.get(type(x))
    if found is None:
        found = KINDS[type(x)] = _kind(_class_of(x, name))
    return found


def _class_of(x, name: str):
    if isinstance(x, (np.integer, np.bool_)):    # as an index they are addresses
        raise BadParam(f"{name}: must be an array or a number of Python; got {shown(x)}: int() of it is one")
    for base in type(x).__mro__:
        room = (base.__module__ or "").partition(".")[0]
        if room == "numpy" and isinstance(x, (np.ndarray, np.generic)):
            return NumpyArrays
        if room == "torch" and isinstance(x, sys.modules["torch"].Tensor):
            return TorchArrays
        if room == "cupy" and base.__name__ == "ndarray":
            return CupyArrays
    if hasattr(x, "__array_namespace__") and hasattr(x, "__dlpack__"):
        return StandardArrays
    raise BadParam(f"{name}: must be an array of NumPy, torch, CuPy or another library of the array API "
                   f"standard; got {shown(x)}")


def _maker(library, desc: TensorDesc, is_bool: bool):
    """What makes arrays of NumPy or CuPy, without gaps, in the order of a description."""
    order, kind = stride_order(desc), np.dtype(bool if is_bool else _numpy_type(desc.dtype))
    if order == tuple(range(desc.rank)):
        return partial(library.empty, desc.dims, kind)
    dims, back = [desc.dims[a] for a in order], [order.index(a) for a in range(desc.rank)]
    return lambda: library.empty(dims, kind).transpose(back)


def _numpy_type(row: DType) -> np.dtype:
    """The type of NumPy arrays whose elements are values of a type."""
    if row.name in ML_DTYPES:
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, ML_DTYPES[row.name]))
    return row.numpy
