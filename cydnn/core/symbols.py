"""The driver functions that cydnn calls: one row each, in the order of the struct Driver in cuda.pxd."""
from __future__ import annotations

from typing import NamedTuple


class Symbol(NamedTuple):
    """``since``: the CUDA version (12000 for 12.0) whose ABI cuda.pxd declares. ``serves``: what needs it,
    where a driver without it is of use all the same; "" where nothing works without it."""
    name: str
    since: int
    serves: str = ""


SYMBOLS = tuple(Symbol(*row) for row in (
    ("cuInit", 2000),
    ("cuDriverGetVersion", 2020),
    ("cuDeviceGetCount", 2000),
    ("cuDeviceGet", 2000),
    ("cuDeviceGetName", 2000),
    ("cuDeviceTotalMem", 3020, "the memory of a device"),
    ("cuDeviceGetAttribute", 2000),
    ("cuGetErrorName", 6000),
    ("cuGetErrorString", 6000),
    ("cuDevicePrimaryCtxRetain", 7000),
    ("cuDevicePrimaryCtxRelease", 11000, "giving a context back"),
    ("cuCtxGetCurrent", 4000),
    ("cuCtxSetCurrent", 4000),
    ("cuCtxPushCurrent", 4000),
    ("cuCtxPopCurrent", 4000),
    ("cuCtxSynchronize", 2000, "waiting for a device"),
    ("cuModuleLoadDataEx", 2010),
    ("cuModuleUnload", 2000, "giving a kernel back"),
    ("cuModuleGetFunction", 2000),
    ("cuFuncGetAttribute", 2020),
    ("cuFuncSetAttribute", 9000, "more than 48 KB of shared memory"),
    ("cuLaunchKernel", 7000),
    ("cuLaunchKernelEx", 11060, "launches with attributes"),
    ("cuMemAlloc", 3020),
    ("cuMemFree", 3020),
    ("cuMemGetInfo", 3020, "the free memory of a device"),
    ("cuMemcpyHtoDAsync", 7000),
    ("cuMemcpyDtoHAsync", 7000),
    ("cuMemcpyDtoDAsync", 7000, "copies on a device"),
    ("cuMemsetD8Async", 7000, "memsets"),
    ("cuPointerGetAttributes", 7000),
    ("cuDeviceCanAccessPeer", 4000, "memory of several devices"),
    ("cuCtxEnablePeerAccess", 4000, "memory of several devices"),
    ("cuStreamCreateWithPriority", 5050, "streams"),
    ("cuStreamDestroy", 4000, "giving a stream back"),
    ("cuStreamSynchronize", 7000),
    ("cuStreamWaitEvent", 7000, "waiting for an event"),
    ("cuEventCreate", 2000, "events"),
    ("cuEventDestroy", 4000, "giving an event back"),
    ("cuEventSynchronize", 2000, "waiting for an event"),
    ("cuEventRecord", 7000, "events"),
    ("cuEventElapsedTime", 2000, "timing"),
    ("cuTensorMapEncodeTiled", 12000, "tensor maps"),
    ("cuTensorMapEncodeIm2col", 12000, "tensor maps of pixels"),
    ("cuTensorMapReplaceAddress", 12000, "tensor maps"),
    ("cuLinkCreate", 6050, "assembling kernels"),
    ("cuLinkAddData", 6050, "assembling kernels"),
    ("cuLinkComplete", 5050, "assembling kernels"),
    ("cuLinkDestroy", 5050, "assembling kernels"),
    ("cuGraphGetNodes", 10000, "native CUDA graphs"),
    ("cuGraphGetRootNodes", 10000, "native CUDA graphs"),
    ("cuGraphNodeGetDependentNodes", 10000, "native CUDA graphs"),
    ("cuGraphNodeGetType", 10000, "native CUDA graphs"),
    ("cuGraphAddKernelNode", 12000, "native CUDA graphs"),
    ("cuGraphKernelNodeGetParams", 12000, "native CUDA graphs"),
    ("cuGraphKernelNodeSetParams", 12000, "native CUDA graphs"),
    ("cuGraphKernelNodeSetAttribute", 11000, "native CUDA graphs"),
    ("cuGraphAddMemsetNode", 10000, "native CUDA graphs"),
    ("cuGraphMemsetNodeSetParams", 10000, "native CUDA graphs"),
))
DRIVERS = {11000: "450", 11060: "510", 12000: "525"}         # CUDA version -> the first driver that serves it


def version(number: int) -> str:
    """``CUDA 12.0 (driver 525)`` for 12000; the driver where it is known."""
    name = f"CUDA {number // 1000}.{number % 1000 // 10}"
    return f"{name} (driver {DRIVERS[number]})" if number in DRIVERS else name


def missing(name: str, served: int) -> str:
    """The sentence of a function that a driver for CUDA version ``served`` does not have."""
    row = next(row for row in SYMBOLS if row.name == name)
    what = f" is for {row.serves} and" if row.serves else ""
    got = f"got one for {version(served)}" if served else "got one that does not say its version"
    return f"{name}:{what} needs an NVIDIA driver for {version(row.since)} or newer; {got}"
