"""A grouped convolution through backend descriptors, as the first users of that API asked for it.

    python examples/forum_convolution.py [device]

x is N,G,C,H,W, w is G,K,C,R,S, y is N,G,K,P,Q: groups are a dim of their own. Every call has its name in C.
The result is compared with a sum in float64. ``device``: "cuda:0" (the default where there is one) …
"""
from __future__ import annotations

import sys

import numpy as np

from cydnn import backend as cudnn
from cydnn import device as devices
from cydnn.backend import (cudnnBackendCreateDescriptor, cudnnBackendExecute, cudnnBackendFinalize,
                           cudnnBackendGetAttribute, cudnnBackendSetAttribute)
from cydnn.frontend import create_handle
from cydnn.tensor import packed_strides

N, G, C, H, W, K, R, S, PAD = 4, 2, 8, 14, 14, 16, 3, 3, 1


def tensor(uid, dims):
    """A descriptor of a packed f32 tensor."""
    t = cudnnBackendCreateDescriptor(cudnn.CUDNN_BACKEND_TENSOR_DESCRIPTOR)
    set_ = lambda name, type_, count, values: cudnnBackendSetAttribute(t, name, type_, count, values)
    set_(cudnn.CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn.CUDNN_TYPE_DATA_TYPE, 1, cudnn.CUDNN_DATA_FLOAT)
    set_(cudnn.CUDNN_ATTR_TENSOR_DIMENSIONS, cudnn.CUDNN_TYPE_INT64, len(dims), dims)
    set_(cudnn.CUDNN_ATTR_TENSOR_STRIDES, cudnn.CUDNN_TYPE_INT64, len(dims), packed_strides(dims))
    set_(cudnn.CUDNN_ATTR_TENSOR_UNIQUE_ID, cudnn.CUDNN_TYPE_INT64, 1, uid)
    set_(cudnn.CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, cudnn.CUDNN_TYPE_INT64, 1, 16)
    cudnnBackendFinalize(t)
    return t


def convolution(x, w, y):
    """The operation: the parameters in a descriptor of their own, then the tensors."""
    c = cudnnBackendCreateDescriptor(cudnn.CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
    set_ = lambda name, type_, count, values: cudnnBackendSetAttribute(c, name, type_, count, values)
    set_(cudnn.CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, cudnn.CUDNN_TYPE_INT64, 1, 2)
    set_(cudnn.CUDNN_ATTR_CONVOLUTION_COMP_TYPE, cudnn.CUDNN_TYPE_DATA_TYPE, 1, cudnn.CUDNN_DATA_FLOAT)
    set_(cudnn.CUDNN_ATTR_CONVOLUTION_CONV_MODE, cudnn.CUDNN_TYPE_CONVOLUTION_MODE, 1,
         cudnn.CUDNN_CROSS_CORRELATION)
    set_(cudnn.CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, cudnn.CUDNN_TYPE_INT64, 2, [PAD, PAD])
    set_(cudnn.CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, cudnn.CUDNN_TYPE_INT64, 2, [PAD, PAD])
    set_(cudnn.CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, cudnn.CUDNN_TYPE_INT64, 2, [1, 1])
    set_(cudnn.CUDNN_ATTR_CONVOLUTION_DILATIONS, cudnn.CUDNN_TYPE_INT64, 2, [1, 1])
    cudnnBackendFinalize(c)

    op = cudnnBackendCreateDescriptor(cudnn.CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
    for name, descriptor in ((cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, c),
                             (cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x),
                             (cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w),
                             (cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)):
        cudnnBackendSetAttribute(op, name, cudnn.CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, descriptor)
    cudnnBackendSetAttribute(op, cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             cudnn.CUDNN_TYPE_FLOAT, 1, 1.0)
    cudnnBackendSetAttribute(op, cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                             cudnn.CUDNN_TYPE_FLOAT, 1, 0.0)
    cudnnBackendFinalize(op)
    return op


def plan_of(handle, operations):
    """The first engine configuration of the heuristics, as a plan."""
    graph = cudnnBackendCreateDescriptor(cudnn.CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
    cudnnBackendSetAttribute(graph, cudnn.CUDNN_ATTR_OPERATIONGRAPH_OPS, cudnn.CUDNN_TYPE_BACKEND_DESCRIPTOR,
                             len(operations), operations)
    cudnnBackendSetAttribute(graph, cudnn.CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn.CUDNN_TYPE_HANDLE, 1,
                             handle)
    cudnnBackendFinalize(graph)

    heuristics = cudnnBackendCreateDescriptor(cudnn.CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
    cudnnBackendSetAttribute(heuristics, cudnn.CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                             cudnn.CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, graph)
    cudnnBackendSetAttribute(heuristics, cudnn.CUDNN_ATTR_ENGINEHEUR_MODE, cudnn.CUDNN_TYPE_HEUR_MODE, 1,
                             cudnn.CUDNN_HEUR_MODE_A)
    cudnnBackendFinalize(heuristics)
    configuration, = cudnnBackendGetAttribute(heuristics, cudnn.CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                              cudnn.CUDNN_TYPE_BACKEND_DESCRIPTOR, 1)

    plan = cudnnBackendCreateDescriptor(cudnn.CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    cudnnBackendSetAttribute(plan, cudnn.CUDNN_ATTR_EXECUTION_PLAN_HANDLE, cudnn.CUDNN_TYPE_HANDLE, 1, handle)
    cudnnBackendSetAttribute(plan, cudnn.CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                             cudnn.CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, configuration)
    cudnnBackendFinalize(plan)
    return plan


def pack_of(device, plan, buffers):
    """Pointers by uid, and the workspace that the plan asks for."""
    size, = cudnnBackendGetAttribute(plan, cudnn.CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     cudnn.CUDNN_TYPE_INT64, 1)
    pack = cudnnBackendCreateDescriptor(cudnn.CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    cudnnBackendSetAttribute(pack, cudnn.CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, cudnn.CUDNN_TYPE_INT64,
                             len(buffers), list(buffers))
    cudnnBackendSetAttribute(pack, cudnn.CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, cudnn.CUDNN_TYPE_VOID_PTR,
                             len(buffers), list(buffers.values()))
    if size:
        cudnnBackendSetAttribute(pack, cudnn.CUDNN_ATTR_VARIANT_PACK_WORKSPACE, cudnn.CUDNN_TYPE_VOID_PTR, 1,
                                 device.alloc(size))
    cudnnBackendFinalize(pack)
    return pack


def expected(x, w):
    """The convolution in float64."""
    x = np.pad(x.astype("d"), ((0, 0),) * 3 + ((PAD, PAD),) * 2)
    return sum(np.einsum("ngchw,gkc->ngkhw", x[..., i:i + H, j:j + W], w[..., i, j].astype("d"))
               for i in range(R) for j in range(S))


def main(name=None) -> float:
    """Run it; the largest error."""
    device, random = devices.get(name), np.random.default_rng(0)
    handle = create_handle(device)
    x, w = random.normal(size=(N, G, C, H, W)).astype("f"), random.normal(size=(G, K, C, R, S)).astype("f")
    y = np.empty((N, G, K, H, W), "f")
    operation = convolution(tensor(1, x.shape), tensor(2, w.shape), tensor(3, y.shape))
    plan = plan_of(handle, [operation])
    buffers = {uid: device.alloc(a.nbytes) for uid, a in enumerate((x, w, y), 1)}
    for uid, array in ((1, x), (2, w)):
        device.copy_in(buffers[uid], array)
    cudnnBackendExecute(handle, plan, pack_of(device, plan, buffers))
    device.copy_out(buffers[3], y)
    error = float(np.abs(y - expected(x, w)).max())
    print(f"{plan}: largest error {error:.1e}")
    return error


if __name__ == "__main__":
    main(*sys.argv[1:2])
