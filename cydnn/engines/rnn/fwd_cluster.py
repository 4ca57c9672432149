"""Forward pass of a recurrent network with one launch for all steps of a layer, in thread block clusters."""
from __future__ import annotations

from typing import NamedTuple

from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..engine import Config, Knob
from .forward import Forward
from .layers import KERNEL_CELLS, Net, uneven, weights_of

BLOCKS, ROWS = Knob("blocks", (8, 4, 2, 1)), Knob("rows", (8, 16, 32))
WARPS = 8                                        # of a block, at most
STEP_US = 1.0                                    # of a step with little to do: exchange and gates
GATE_CLOCKS = 200                                # of a further n tile


class Form(NamedTuple):
    """How one configuration runs. ``warps`` of each of ``blocks``, which are a cluster; ``n_tiles`` of 8
    batch rows; ``clusters``: of all rows and directions; ``pairs`` of k steps, ``far``: of those whose weights
    are in shared memory, 1024 bytes a warp for each of ``m_tiles``."""
    blocks: int
    warps: int
    n_tiles: int
    clusters: int
    pairs: int
    far: int
    m_tiles: int
    smem_bytes: int


def units_of(net) -> int:
    """Units of a warp."""
    return 16 if net.gates == 1 else 8


def form_of(net, dev, config) -> Form | None:
    """None where the weights do not fit, or half the blocks would do."""
    units, n_tiles = units_of(net), config.rows // 8
    warps, pairs = ceil_div(ceil_div(net.hidden, units), config.blocks), 4 * ceil_div(net.hidden, 128)
    far, m_tiles = max(pairs - (4 if n_tiles == 4 else 8), 0), 1 if net.gates == 1 else 2
    smem = 1024 * (n_tiles * pairs + warps * far * m_tiles)
    is_idle = config.blocks > 1 and config.blocks // 2 * warps * units >= net.hidden
    if warps > WARPS or smem > dev.smem_bytes - 128 or is_idle:
        return None
    clusters = ceil_div(net.batch, config.rows) * net.directions
    return Form(config.blocks, warps, n_tiles, clusters, pairs, far, m_tiles, smem)


class RnnFwdCluster(Forward):
    """A product for the inputs of all steps; then a launch a layer: a cluster of blocks sweeps the steps of
    one direction and some batch rows, with recurrent weights in registers and shared memory; states go from
    block to block."""
    index = 313
    kernel, least_sm = "rnn/rnn_cluster.cu", 90
    knobs = (BLOCKS, ROWS)
    notes = ("deterministic", "tensor_core")

    def configs(self, p, dev):
        return p.once(("cluster", dev), lambda: self._configs(Net.of(p), dev))

    def _configs(self, net, dev):
        found = [Config(blocks=blocks, rows=rows) for blocks in BLOCKS.values for rows in ROWS.values
                 if rows == ROWS.values[0] or rows < 2 * net.batch]
        return sorted((c for c in found if form_of(net, dev, c)),
                      key=lambda c: self.recurrence_us(net, dev, c))

    def refuse_net(self, p, dev):
        net = Net.of(p)
        yield from uneven(net)
        most = BLOCKS.values[0] * WARPS * units_of(net)
        if net.hidden > most:
            yield (f"hidden must be at most {most} of cell {net.op.cell} ({BLOCKS.values[0]} blocks of {WARPS} "
                   f"warps); got {net.hidden}")
        elif not self.configs(p, dev):
            yield f"the weights of hidden {net.hidden} must fit in {dev.smem_bytes} bytes a block; got more"

    def recurrence_us(self, net, dev, config):
        form = form_of(net, dev, config)
        products = form.warps * form.pairs * form.m_tiles * form.n_tiles * 2 * 2048 / dev.mma_16
        reads = form.warps * (form.pairs * form.n_tiles + 2 * form.far * form.m_tiles) * 4
        clocks = max(products, reads) + GATE_CLOCKS * (form.n_tiles - 1)
        held = form.warps * form.pairs * form.m_tiles << 10
        together = max(dev.sms // form.blocks * 7 // 8, 1)           # clusters lie within a part of the device
        sweep = net.steps * (STEP_US + clocks / dev.clock_mhz) + held * 1e-3 / dev.sm_gbs
        return dev.launch_us + ceil_div(form.clusters, together) * sweep

    def recurrence(self, net, layer, dev, config, args):
        form = form_of(net, dev, config)
        name = f"rnn_cluster_{net.dtype}_{KERNEL_CELLS[net.op.cell]}_{form.n_tiles}"
        return [Launch(name, dict(args, **weights_of(net, layer)),
                       dict(blocks=form.blocks, warps=form.warps, directions=net.directions))]
