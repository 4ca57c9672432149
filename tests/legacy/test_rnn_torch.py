"""Recurrent networks of the v5 API against torch.nn.RNN, LSTM and GRU in float64. Where torch is not
installed nothing is compared."""
import numpy as np
import pytest

from cydnn import cudnn as c

from .arrays import DOUBLE
from .recurrent import GRU, LSTM, RELU, TANH, Network

torch = pytest.importorskip("torch")
MODULES = {RELU: lambda *a, **k: torch.nn.RNN(*a, nonlinearity="relu", **k), TANH: torch.nn.RNN,
           LSTM: torch.nn.LSTM, GRU: torch.nn.GRU}


@pytest.fixture
def handle():
    found = c.create("numpy")
    yield found
    c.destroy(found)


def module_of(net, mode):
    """The same network there, with our weights."""
    made = MODULES[mode](4, net.hidden, net.layers, bidirectional=net.directions == 2).double()
    gates = {LSTM: 4, GRU: 3}.get(mode, 1)
    with torch.no_grad():
        for p in range(net.layers * net.directions):
            for side in (0, 1):
                numbers = range(side * gates, (side + 1) * gates)
                matrix = np.concatenate([net.matrix(p, i) for i in numbers])
                bias = np.concatenate([net.bias(p, i) for i in numbers])
                made._flat_weights[4 * p + side].copy_(torch.from_numpy(matrix))
                made._flat_weights[4 * p + 2 + side].copy_(torch.from_numpy(bias))
    return made


def gradients_of(net, made, mode):
    """dw as their gradients say: matrices of every p, then biases."""
    flat = [weight.grad.numpy().reshape(-1) for weight in made._flat_weights]
    matrices = [part for p in range(len(flat) // 4) for part in flat[4 * p:4 * p + 2]]
    biases = [part for p in range(len(flat) // 4) for part in flat[4 * p + 2:4 * p + 4]]
    return np.concatenate([*matrices, *biases])


@pytest.mark.parametrize("batches", ((3, 3, 3), (4, 2, 1, 1)))
@pytest.mark.parametrize("layers", (1, 3))
@pytest.mark.parametrize("bidirectional", (False, True))
@pytest.mark.parametrize("mode", (RELU, TANH, LSTM, GRU))
def test_everything_agrees(handle, mode, bidirectional, layers, batches):
    net = Network(handle, mode, hidden=5, layers=layers, bidirectional=bidirectional, batches=batches,
                  dtype=DOUBLE).train()
    made = module_of(net, mode)
    tensor = lambda name: torch.from_numpy(net[name]).requires_grad_()
    x, hx, cx = tensor("x"), tensor("hx"), tensor("cx")
    lengths = [sum(n > b for n in batches) for b in range(batches[0])]
    packed = torch.nn.utils.rnn.PackedSequence(x[:, :, 0], torch.tensor(batches))
    assert packed.batch_sizes.tolist() == list(batches) and sorted(lengths, reverse=True) == lengths
    y, last = made(packed, (hx, cx) if mode == LSTM else hx)
    hy, cy = last if mode == LSTM else (last, None)
    total = (y.data * torch.from_numpy(net["dy"][:, :, 0])).sum() + (hy * torch.from_numpy(net["dhy"])).sum()
    if mode == LSTM:
        total = total + (cy * torch.from_numpy(net["dcy"])).sum()
    total.backward()
    wants = dict(y=y.data.detach()[..., None], hy=hy.detach(), dx=x.grad, dhx=hx.grad,
                 dw=gradients_of(net, made, mode))
    if mode == LSTM:
        wants.update(cy=cy.detach(), dcx=cx.grad)
    for name, want in wants.items():
        np.testing.assert_allclose(net[name].reshape(-1), np.asarray(want).reshape(-1), atol=1e-11,
                                   err_msg=name)
