"""Pass-by-value tensors as operands of pointwise operations: one number,
given at execute, on every device."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn
from cydnn import data_type, heur_mode
from cydnn.ops import Pointwise


def graph(handle, kind, number_type):
    """y = sqrt(x * number + number), and the graph's tensors."""
    g = cydnn.pygraph(io_data_type=kind, intermediate_data_type=data_type.FLOAT,
                      compute_data_type=data_type.FLOAT, handle=handle)
    x = g.tensor([2, 8, 4, 4], [128, 16, 4, 1])
    number = g.tensor([1, 1, 1, 1], [1, 1, 1, 1], data_type=number_type, is_pass_by_value=True)
    y = g.sqrt(g.add(g.mul(x, number), number)).set_output(True)
    g.build([heur_mode.A])
    return g, x, number, y


@pytest.mark.parametrize("given", [0.1, np.float32(0.1), np.full((1, 1, 1, 1), 0.1, np.float32)],
                         ids=["float", "scalar", "array"])
@pytest.mark.parametrize("number_type", [data_type.FLOAT, data_type.HALF], ids=lambda t: t.name)
def test_numpy_device(given, number_type):
    handle = cydnn.create_handle("numpy")
    g, x, number, y = graph(handle, data_type.FLOAT, number_type)
    image, out = (np.random.default_rng(0).uniform(0, 9, (2, 8, 4, 4)).astype(np.float32),
                  np.empty((2, 8, 4, 4), np.float32))
    for factor in (1, 3):                         # the number is no part of the plan
        value = given * factor
        g.execute({x: image, number: value, y: out}, np.empty(g.get_workspace_size() + 1, np.uint8))
        n = (float(np.float16(value.item() if hasattr(value, "item") else value))
             if number_type is data_type.HALF else factor * np.float32(0.1))
        np.testing.assert_allclose(out, np.sqrt(image * n + n), rtol=1e-6)
    with pytest.raises(cydnn.BadParam, match="the variant pack must hold pass-by-value tensor"):
        g.execute({x: image, y: out}, np.empty(g.get_workspace_size() + 1, np.uint8))


def test_a_number_may_be_the_first_operand():
    handle = cydnn.create_handle("numpy")
    g = cydnn.pygraph(io_data_type=data_type.FLOAT, compute_data_type=data_type.FLOAT, handle=handle)
    one, x = g.tensor([1, 1], [1, 1], is_pass_by_value=True), g.tensor([3, 4], [4, 1])
    y = g.sub(one, x).set_output(True)
    g.build([heur_mode.A])
    image, out = np.arange(12, dtype=np.float32).reshape(3, 4), np.empty((3, 4), np.float32)
    g.execute({x: image, one: 1, y: out}, np.empty(1, np.uint8))
    np.testing.assert_array_equal(out, 1 - image)


@pytest.mark.parametrize("chained", [True, False], ids=["chain", "alone"])
def test_kernels_read_the_number_as_a_scalar(chained):
    """On the interpreter, the plan's own kernels give what the NumPy device gives."""
    outs = []
    image = np.random.default_rng(1).uniform(0, 4, (2, 8, 4, 4)).astype(np.float32)
    for name in ("numpy", "ptx:sm_80"):
        device = cydnn.device.get(name)
        nodes, tensors = _nodes(chained)
        from cydnn import plan as plans
        plan = plans.build(cydnn.Graph(nodes, tensors), device)
        a, b, scratch = (device.alloc(image.nbytes), device.alloc(image.nbytes),
                         device.alloc(plan.workspace_bytes + 1))
        device.copy_in(a.ptr, image)
        plan.run({1: a.ptr, 2: 0.75, 3: b.ptr}, scratch.ptr)
        outs.append(device.copy_out(b.ptr, np.empty_like(image)))
    np.testing.assert_array_equal(*outs)
    np.testing.assert_array_equal(
        outs[0], np.maximum(image * np.float32(0.75), 0) if chained else image * np.float32(0.75))


def _nodes(chained):
    f32 = lambda uid, dims=(2, 8, 4, 4), **kw: cydnn.TensorDesc.packed("f32", dims, uid=uid, **kw)
    tensors = {1: f32(1), 2: f32(2, (1, 1, 1, 1), is_by_value=True), 3: f32(3)}
    if not chained:
        return [cydnn.Node(Pointwise(mode="mul"), dict(x=1, b=2, y=3))], tensors
    tensors[4] = f32(4, is_virtual=True)
    return [cydnn.Node(Pointwise(mode="mul"), dict(x=1, b=2, y=4)),
            cydnn.Node(Pointwise(mode="relu_fwd"), dict(x=4, y=3))], tensors
