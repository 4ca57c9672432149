"""The default device of a block: whose it is, what it is a default of, how blocks nest."""
import asyncio
import sys
import threading

import numpy as np
import pytest

import cydnn
from cydnn import device, functional as F, plan
from cydnn.status import BadParam

X = np.array([-1, 2], "f4")


def place(**options):
    return F.relu.prepare(X, **options).plan.device.name


def test_functions_on_arrays_of_the_host_take_it():
    """A call that is known too: nothing of one device is taken for another."""
    with cydnn.device("ptx:sm_80") as outer:
        assert outer is device.get("ptx:sm_80") is device.default() and place() == "ptx:sm_80"
        assert "ptx" not in F.relu(X, explain=True, device="numpy") and place(device="numpy") == "numpy"
        with cydnn.device(device.get("numpy")), cydnn.device("ptx:sm_90"):
            assert place() == "ptx:sm_90"
            with cydnn.device(None):
                assert place() == "numpy"
        assert place() == "ptx:sm_80" and "pointwise_" in F.relu(X, explain=True)
    assert place() == "numpy" and device.CHOSEN.get() is None
    for _ in range(2):
        found = [F.relu(X, explain=True)]
        with cydnn.device("ptx:sm_80"):
            found += [F.relu(X, explain=True), str(F.relu(X).tolist())]
        assert found[0] != found[1] and found[2] == "[0.0, 2.0]"


def test_plans_and_handles_that_name_none_take_it():
    with cydnn.device("ptx:sm_75"), cydnn.create_handle() as handle:
        g = cydnn.pygraph(io_data_type=cydnn.data_type.FLOAT, handle=handle)
        g.relu(g.tensor_like(X)).set_output(True)
        assert g.own_handle.device is device.get("ptx:sm_75") is cydnn.cudnn.create().device
        assert plan.build(F.relu.prepare(X).plan.graph).device is g.own_handle.device


def test_it_is_given_a_device():
    with cydnn.device(device="numpy") as device, pytest.raises(TypeError, match="the default is cydnn"):
        assert device is cydnn.device.default()
        cydnn.device()


def test_it_ends_with_an_error_and_is_of_one_thread_and_task():
    seen: list = []
    with pytest.raises(ZeroDivisionError), cydnn.device("ptx:sm_80"):
        if not getattr(sys.flags, "thread_inherit_context", 0):              # of Python 3.14
            other = threading.Thread(target=lambda: seen.append(place()))
            other.start()
            other.join()
        1 / 0
    assert place() == "numpy" and set(seen) <= {"numpy"}

    async def task(name):
        with cydnn.device(name):
            await asyncio.sleep(0)
            return place()

    async def both():
        return await asyncio.gather(task("ptx:sm_80"), task("numpy"))
    assert asyncio.run(both()) == ["ptx:sm_80", "numpy"]


class Device:
    """As of cuda.core; CuPy's has an ``id``."""
    device_id = 3


def test_a_device_has_the_names_that_others_give_it():
    assert device.get("CPU") is device.get("numpy") and device.get("PTX:sm_80") is device.get("ptx:sm_80")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_cuda", lambda ordinal: f"card {ordinal}")
        patch.setattr(device, "_devices", {})
        assert [device.get(name) for name in ("gpu", 3, Device())] == ["card 0", "card 3", "card 3"]


def test_a_block_decorates_and_a_name_that_is_none_is_refused():
    chosen = cydnn.device("ptx:sm_80")
    assert chosen(place)() == "ptx:sm_80" and place() == "numpy"
    assert repr(chosen) == "cydnn.device('ptx:sm_80')"
    with pytest.raises(BadParam, match='device: must be "cuda:N", "ptx:sm_N", "numpy" or a device; got 7.5'):
        cydnn.device(7.5)


def test_tensors_of_torch_take_it_with_their_gradients():
    torch = pytest.importorskip("torch")
    import cydnn.torch as C
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    ours = device.get("ptx:sm_80")
    ran: list = []
    plan.forget()
    with pytest.MonkeyPatch.context() as patch:
        compiled = type(ours).compile
        patch.setattr(type(ours), "compile", lambda d, layout: ran.append(layout.text) or compiled(d, layout))
        with cydnn.device(ours):
            y = C.gelu(x, "tanh")
        grad, = torch.autograd.grad(y.sum(), x)  # where the result was made
    assert len(ran) == 2
    assert torch.allclose(grad, torch.autograd.grad(
        torch.nn.functional.gelu(x, approximate="tanh").sum(), x)[0], atol=1e-6)
