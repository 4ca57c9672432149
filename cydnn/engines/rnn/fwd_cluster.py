"""Forward pass of a recurrent network with one launch for all steps of a layer, in thread block clusters."""
from __future__ import annotations

from itertools import product
from typing import NamedTuple

from ...graph import once_per_match
from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..engine import Config, Knob
from .rnn import Forward, too_many_rows
from .layers import KERNEL_CELLS, Net, unaligned, weights_of

SIZE, ROWS = Knob("cluster", (8, 4, 2)), Knob("batch_rows", (8, 16))
WARPS, BARRIERS = 8, 16                          # of a block, at most; bytes of them
STEP_US = 1.0                                    # of a step with little to do: exchange and gates
GATE_CLOCKS = 200                                # of a further n tile


class ClusterForm(NamedTuple):
    """Launch shape of a configuration. ``warps`` of each of ``blocks``, which are a cluster; ``n_tiles`` of 8
    batch rows; ``clusters``: of all rows and directions; ``pairs`` of k steps, ``far``: of those whose
    weights are in shared memory, 1024 bytes a warp for each of ``m_tiles``."""
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


def form_of(net, config) -> ClusterForm:
    units, n_tiles = units_of(net), config.batch_rows // 8
    warps, pairs = ceil_div(ceil_div(net.hidden, units), config.cluster), 4 * ceil_div(net.hidden, 128)
    far, m_tiles = max(pairs - 8, 0), 1 if net.gates == 1 else 2
    smem = 1024 * (n_tiles * pairs + warps * far * m_tiles)
    clusters = ceil_div(net.batch, config.batch_rows) * net.directions
    return ClusterForm(config.cluster, warps, n_tiles, clusters, pairs, far, m_tiles, smem)


class RnnFwdCluster(Forward):
    """A product for the inputs of all steps; then a launch a layer: a cluster of blocks sweeps the steps of
    one direction and some batch rows, with recurrent weights in registers and shared memory; states go from
    block to block."""
    index = 313
    kernel, least_sm = "rnn/rnn_cluster.cu", 90
    knobs = (SIZE, ROWS)
    notes = ("deterministic", "tensor_core")

    @once_per_match
    def configs(self, p, dev):
        """Those whose weights fit, and for which half the blocks or batch rows would not do."""
        net, found = Net.of(p), []
        for blocks, rows in product(SIZE.values, ROWS.values):
            form = form_of(net, config := Config(cluster=blocks, batch_rows=rows))
            is_idle = blocks > 2 and blocks // 2 * form.warps * units_of(net) >= net.hidden
            fits = form.warps <= WARPS and form.smem_bytes + BARRIERS <= dev.smem_bytes
            fits = fits and not any(too_many_rows(net, rows))
            if fits and not is_idle and (rows == ROWS.values[0] or rows < 2 * net.batch):
                found.append(config)
        return sorted(found, key=lambda c: self.recurrence_us(net, dev, c))

    def refuse_net(self, p, dev):
        net = Net.of(p)
        if net.hidden % 8:
            yield f"hidden must be a multiple of 8 (units of a warp); got {net.hidden}"
        yield from unaligned(net, w=16)
        too_many = [*too_many_rows(net, max(ROWS.values))]
        yield from too_many
        blocks, units = max(SIZE.values), units_of(net)
        if net.hidden > blocks * WARPS * units:
            yield (f"hidden must be at most {blocks * WARPS * units} of cell {net.op.cell} "
                   f"({blocks} blocks of {WARPS} warps); got {net.hidden}")
        elif not too_many and not self.configs(p, dev):
            smem = form_of(net, Config(cluster=blocks, batch_rows=8)).smem_bytes
            yield (f"hidden {net.hidden} needs {smem} bytes of shared memory a block; the device has "
                   f"{dev.smem_bytes}")

    def recurrence_us(self, net, dev, config):
        form = form_of(net, config)
        products = form.warps * form.pairs * form.m_tiles * form.n_tiles * 2 * 2048 / dev.mma_16
        reads = form.warps * (form.pairs * form.n_tiles + 2 * form.far * form.m_tiles) * 4
        clocks = max(products, reads) + GATE_CLOCKS * (form.n_tiles - 1)
        held = form.warps * form.pairs * form.m_tiles << 10
        together = max(dev.sms // form.blocks * 7 // 8, 1)       # clusters lie within a part of the device
        sweep = net.steps * (STEP_US + clocks / dev.clock_mhz) + held * 1e-3 / dev.sm_gbs
        return dev.launch_us + ceil_div(form.clusters, together) * sweep

    def recurrence(self, net, layer, dev, config, args):
        form = form_of(net, config)
        name = f"rnn_cluster_{net.dtype}_{KERNEL_CELLS[net.op.cell]}_{form.n_tiles}"
        return [Launch(name, dict(args, **weights_of(net, layer)),
                       dict(blocks=form.blocks, warps=form.warps, directions=net.directions))]
