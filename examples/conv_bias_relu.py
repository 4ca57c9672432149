"""relu(conv(x, w) + bias) by three ways in: functions on arrays, a graph, the functions of cuDNN v5.

    python examples/conv_bias_relu.py [device]

Each result is compared with a plain loop in float64, and each way says what it launches. ``device``: "cuda:0"
(the default where there is one; graph and v5 functions run), "numpy", "ptx:sm_80".
"""
from __future__ import annotations

import sys

import numpy as np

import cydnn
from cydnn import cudnn

PAD = 1


def exact(x, w, b) -> np.ndarray:
    """What is computed, one tap of the filters after the other."""
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    y = np.zeros((x.shape[0], w.shape[0], *x.shape[2:]))
    for r in range(w.shape[2]):
        for s in range(w.shape[3]):
            part = padded[:, :, r:r + x.shape[2], s:s + x.shape[3]]
            y += np.einsum("nchw,kc->nkhw", part, w[:, :, r, s].astype("f8"))
    return np.maximum(y + b[:, None, None], 0)


def by_functions(x, w, b, device: str):
    """Two calls: the bias is in the convolution's launch, what follows a call is one of its own."""
    y = cydnn.conv(x, w, b, padding=PAD, device=device)
    return cydnn.relu(y, device=device), "a launch a call"


def by_graph(x, w, b, device: str):
    """One plan: bias and ReLU are spliced into the convolution's kernel, so y is written once."""
    at = cydnn.device.get(device)
    g = cydnn.pygraph(io_data_type=cydnn.data_type.FLOAT, intermediate_data_type=cydnn.data_type.FLOAT,
                      compute_data_type=cydnn.data_type.FLOAT, handle=cydnn.create_handle(at))
    X, W, B = (g.tensor(a.shape, [step // a.itemsize for step in a.strides])
               for a in (x, w, b.reshape(1, -1, 1, 1)))
    Y = g.relu(g.bias(g.conv_fprop(X, W, padding=PAD), B)).set_output(True)
    y = np.empty((x.shape[0], w.shape[0], *x.shape[2:]), "f4")
    Y.set_stride([step // y.itemsize for step in y.strides])     # channels last where nothing is said
    g.build([cydnn.heur_mode.A])
    memory = {tensor: at.alloc(array.nbytes) for tensor, array in ((X, x), (W, w), (B, b), (Y, y))}
    for tensor, array in ((X, x), (W, w), (B, b)):
        at.copy_in(memory[tensor], array)
    g.execute(memory, at.alloc(max(g.get_workspace_size(), 1)))
    at.synchronize()
    return at.copy_out(memory[Y], y), g.plan.name


def by_v5(x, w, b, device: str):
    """Three calls on descriptors, as C programs of 2016 have them."""
    at = cydnn.device.get(device)
    handle, convDesc, act = (cudnn.create(device), cudnn.createConvolutionDescriptor(),
                             cudnn.createActivationDescriptor())
    xDesc, yDesc, bDesc = (cudnn.createTensorDescriptor() for _ in range(3))
    wDesc, nchw, f32 = cudnn.createFilterDescriptor(), cudnn.CUDNN_TENSOR_NCHW, cudnn.CUDNN_DATA_FLOAT
    cudnn.setConvolution2dDescriptor(convDesc, PAD, PAD, 1, 1, 1, 1, cudnn.CUDNN_CROSS_CORRELATION)
    cudnn.setActivationDescriptor(act, cudnn.CUDNN_ACTIVATION_RELU, cudnn.CUDNN_PROPAGATE_NAN, 0.0)
    cudnn.setTensor4dDescriptor(xDesc, nchw, f32, *x.shape)
    cudnn.setFilter4dDescriptor(wDesc, f32, nchw, *w.shape)
    dims = cudnn.getConvolution2dForwardOutputDim(convDesc, xDesc, wDesc)
    cudnn.setTensor4dDescriptor(yDesc, nchw, f32, *dims)
    cudnn.setTensor4dDescriptor(bDesc, nchw, f32, 1, len(b), 1, 1)
    algo = cudnn.CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM
    room = cudnn.getConvolutionForwardWorkspaceSize(handle, xDesc, wDesc, convDesc, yDesc, algo)
    y = np.empty(dims, "f4")
    X, W, B, Y = memory = [at.alloc(array.nbytes) for array in (x, w, b, y)]
    for buffer, array in zip(memory, (x, w, b)):
        at.copy_in(buffer, array)
    space = at.alloc(max(room, 1))
    cudnn.convolutionForward(handle, 1.0, xDesc, X, wDesc, W, convDesc, algo, space, room, 0.0, yDesc, Y)
    cudnn.addTensor(handle, 1.0, bDesc, B, 1.0, yDesc, Y)
    cudnn.activationForward(handle, act, 1.0, yDesc, Y, 0.0, yDesc, Y)
    at.synchronize()
    return at.copy_out(Y, y), "convolutionForward, addTensor, activationForward"


def main(device=None) -> dict:
    device = cydnn.device.get(device).name
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 8, 6, 6), np.float32), rng.standard_normal((4, 8, 3, 3), np.float32)
    b, errors = rng.standard_normal(4, np.float32), {}
    right = exact(x, w, b)
    for way in (by_functions, by_graph, by_v5):
        if way is by_functions and device.startswith("cuda"):
            continue                             # arrays of NumPy are in the host's memory
        y, what = way(x, w, b, device)
        errors[way.__name__] = float(abs(y - right).max())
        print(f"{way.__name__:<14}largest error {errors[way.__name__]:.1g}; {what}")
    return errors


if __name__ == "__main__":
    main(*sys.argv[1:])
