"""The workspace of recurrent networks: the most that any pass needs, asked of every pass. Engines of the
NumPy device that pretend to need something."""
import numpy as np
import pytest

from cydnn import cudnn as c
from cydnn.graph import core
from cydnn.ops import RnnBwdData, RnnBwdWeights, RnnFwd
from cydnn.status import BadParam

from .recurrent import CALLS, GRU, Network
from .test_rnn_errors import check
from .test_workspace import NEED, Hungry, install                         # noqa: F401  (a fixture)


class HungryForward(Hungry):
    takes, index = core(RnnFwd), 9101


class HungryData(Hungry):
    takes, index, hunger = core(RnnBwdData), 9102, 3 * NEED


class Weights(Hungry):
    takes, index, hunger = core(RnnBwdWeights), 9103, 0


@pytest.fixture
def net(install):                                                         # noqa: F811
    install(HungryForward(), HungryData(), Weights())
    handle = c.create("numpy")
    yield Network(handle, GRU, layers=2)
    c.destroy(handle)


def test_the_size_is_that_of_the_hungriest_pass(net):
    assert 3 * NEED <= net.workspace.nbytes <= 3 * NEED + 64
    net.train()
    assert np.isfinite(net["dw"]).all()


@pytest.mark.parametrize("call", CALLS)
def test_a_workspace_that_is_too_small(net, refused, call):
    net.train()
    size = net.workspace.nbytes
    for _ in range(2):                           # before and after the plan is known
        for less in (size - 1, NEED, 0):
            check(net, refused, call, BadParam, f"workspace must have at least {size} bytes, as "
                  f"getRNNWorkspaceSize says; got {less}", workSpaceSizeInBytes=less)
        for null in (None, 0):
            check(net, refused, call, BadParam, f"workspace must have at least {size} bytes", workspace=null)
        net.run(call)


@pytest.mark.parametrize("shift", (0, 4, 8, 12, 20))
def test_a_workspace_may_start_at_any_element(net, shift):
    net.train()
    want = {name: net[name] for name in ("y", "dx", "dw")}
    room = np.full(net.workspace.nbytes + 32, 0xFF, np.uint8)
    start = room.ctypes.data + -room.ctypes.data % 16 + shift
    net["dw"] = 0.0
    net.run(*CALLS, workspace=start)
    for name in want:
        np.testing.assert_array_equal(net[name], want[name])


def test_more_steps_ask_anew(net):
    """Sizes are remembered, each question by itself."""
    handle, sizes = net.handle, set()
    for steps in (1, 2):
        sizes.add(c.getRNNWorkspaceSize(handle, net.rnn, steps, net.x_descs))
        assert c.getRNNWorkspaceSize(handle, net.rnn, steps, net.x_descs) in sizes
    assert len(handle.answers) >= 2
