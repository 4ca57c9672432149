"""The previous step's h of every row, the other factor of the gradient of recurrent weights; and the
gradients of biases, which are made in the launch that gathers it."""
from __future__ import annotations

from math import gcd, hypot
from typing import NamedTuple

from ...dtypes import BY_NAME
from ...kernels.expressions import ceil_div
from ...steps import Launch, Pointer
from ...tensor import TensorDesc
from ..nested import NestedOperand
from .layers import Net

TYPES = ("f64", "f32", "f16", "bf16")            # dw_type of kernels_src/rnn/rnn_bias.cu
THREADS, BLOCKS_PER_SM = 256, 4
COPIED = 4 * THREADS                             # vectors of a block that copies
ROUND_US, TREE_US = 0.7, 1.5                     # of loads that a thread has on their way; behind the last
SHARE = {8: 0.7, 32: 0.85}                       # lanes: share of the bandwidth; estimates


class Before(NamedTuple):
    """The place of h of the previous step: ``rows`` of ``row`` elements to the next, ``apart`` to those of
    the other direction. Rows that have none are not there: the first of the forward direction. ``is_copy``:
    in scratch, brought there first."""
    pointer: Pointer
    alignment: int
    rows: int
    row: int
    apart: int
    is_copy: bool = False

    def operand(self, net: Net) -> NestedOperand:
        desc = TensorDesc(net.dtype, (net.directions, self.rows, net.hidden), (self.apart, self.row, 1))
        return NestedOperand(desc, self.pointer, self.alignment)


def before_of(net: Net, layer: int, room) -> Before | None:
    """That of a layer; ``room`` is scratch for a copy. None where there is one step and no initial state."""
    p, hx = net.p, net.p.hx
    if net.steps == 1:
        if hx is None:
            return None
        per_layer, per_direction, per_row, _ = hx.strides
        return Before(*net.at("hx", layer * per_layer), net.batch, per_row, per_direction)
    if hx is None and net.rows == net.steps * net.batch:
        return Before(*out_of(net, layer), net.rows - net.batch, net.width,
                      net.hidden + net.batch * net.width)
    return Before(room, 256, net.rows, net.hidden, net.rows * net.hidden, is_copy=True)


def copies(net: Net) -> bool:
    """Some layer needs room for a copy."""
    found = before_of(net, 0, None)
    return found is not None and found.is_copy


def out_of(net: Net, layer: int) -> tuple:
    """(address, alignment) of h of a layer."""
    if layer == net.op.layers - 1:
        return net.at("y", 0)
    return net.at("reserve", net.areas.outs[layer])


# ---- Biases ----

def vector(net: Net) -> int:
    """Neighbours that a lane has."""
    least = gcd(*(net.p.operands[n].alignment for n in ("y", "reserve", "hx", "dw")
                  if net.p.operands[n] is not None))
    return 8 if net.hidden % 8 == 0 and least >= 16 else 1


def columns_of(net: Net) -> int:
    return net.kept * net.hidden


def stage(net: Net, dev, rows: int, splits: int, size: int) -> tuple:
    """(estimated microseconds, lanes) of a launch that sums ``rows`` of elements of ``size`` bytes."""
    vec, found = vector(net), []
    for lanes in SHARE if vec > 1 else (32,):
        ahead = 8 if vec == 1 else 16 // size
        blocks = ceil_div(columns_of(net), lanes * vec) * net.directions * splits
        rounds = ceil_div(ceil_div(rows, splits), THREADS // lanes * ahead)
        waves = ceil_div(blocks, BLOCKS_PER_SM * dev.sms)
        speed = min(SHARE[lanes] * dev.bandwidth_gbs, min(blocks, dev.sms) * dev.sm_gbs)
        moved = rows * columns_of(net) * net.directions * size / speed * 1e-3
        found.append((dev.launch_us + TREE_US + hypot(moved, waves * rounds * ROUND_US), lanes))
    return min(found)


def sum_us(net: Net, dev, splits: int) -> float:
    """Estimated microseconds of the gradients of a layer's biases in so many parts."""
    last = stage(net, dev, splits, 1, BY_NAME[net.op.math].bytes)[0] if splits > 1 else 0.0
    return stage(net, dev, net.rows, splits, net.dtype.bytes)[0] + last


def bias_launches(net: Net, dev, layer: int, splits: int, before: Before | None, starts) -> list:
    """Add the gradients of a layer's biases to dw, of parts of the rows where there are several splits; in
    the first launch copy h of the step before, where it must be."""
    vec, first, copied = vector(net), net.first(layer), before is not None and before.is_copy
    common = dict(dw=net.at("dw", net.blob.biases[first])[0], dw_type=TYPES.index(net.dtype.name),
                  dw_dir=net.apart("biases", layer), gates=net.gates, kept=net.kept, hidden=net.hidden)
    state = net.state("hx", layer) if copied else dict(hx=None, hx_dir=0, hx_row=0)
    copy = dict(state, out=out_of(net, layer)[0], to=before.pointer if copied else None,
                to_dir=before.apart if copied else 0, out_row=net.width, starts=starts, steps=net.steps,
                batch=net.batch, shares=ceil_div(net.batch * net.hidden, COPIED * vec) if copied else 0)

    def launch(kind, rows, splits, size, **more):
        args = dict(copy, **common, rows=rows, splits=splits, lanes=stage(net, dev, rows, splits, size)[1])
        return Launch(f"rnn_bias_{kind}_{vec}", args | more, dict(directions=net.directions))

    gates = dict(x=net.area("gates", first), x_dir=net.apart("gates", layer))
    whole = launch(net.dtype, net.rows, splits, net.dtype.bytes, **gates, part=None)
    if splits == 1:
        return [whole]
    each, size = splits * columns_of(net), BY_NAME[net.op.math].bytes
    parts = net.p.scratch(net.directions * each * size)
    whole.args["part"] = parts
    return [whole, launch(net.op.math, splits, 1, size, x=parts, x_dir=each, part=None, to=None, shares=0)]
