"""What the engines with a launch a step share."""
from __future__ import annotations

from ...dtypes import BY_NAME
from ...kernels.expressions import ceil_div
from ..engine import Config, Knob
from .layers import Net

SHAPES = {"wide": (32, 64), "narrow": (8, 16)}   # units and batch rows of a block
SHAPE = Knob("tile", tuple(SHAPES))
MOST_BLOCKS = 65535                              # of a launch along its second dim: batch rows
GATES_US = 1.5                                   # of a step's gates and states: they are loaded, then stored


def too_many_rows(net, each: int):
    """Why blocks of so many batch rows are too many for a launch."""
    if net.batch > MOST_BLOCKS * each:
        yield (f"batch must be at most {MOST_BLOCKS * each} ({MOST_BLOCKS} blocks of {each} rows); "
               f"got {net.batch}")


def most_rows(net):
    """The same of the largest shape."""
    return too_many_rows(net, max(rows for _, rows in SHAPES.values()))


def configs_of(p, dev, rows: int) -> list[Config]:
    """The cheapest first."""
    net = Net.of(p)
    fitting = [s for s, (_, each) in SHAPES.items() if not any(too_many_rows(net, each))]
    return [Config(tile=s) for s in sorted(fitting, key=lambda s: step_us(net, dev, s, rows))]


def step_us(net, dev, shape: str, rows: int) -> float:
    """Estimated microseconds of a launch: arithmetic of the busiest SM, or the latency of its loop."""
    units, columns = SHAPES[shape]
    blocks = ceil_div(net.hidden, units) * ceil_div(net.batch, columns) * net.directions
    rate = 0.35 * (dev.fma_f64 if net.op.math == "f64" else dev.fma_f32)
    busy = ceil_div(blocks, dev.sms) * units * columns * net.gates * net.hidden / rate
    chunks = ceil_div(net.hidden * net.gates // rows, 128 // BY_NAME[net.op.math].bytes)
    looping = max(busy, ceil_div(blocks, 4 * dev.sms) * chunks * 900) / dev.clock_mhz
    return dev.launch_us + GATES_US + looping


def carry(net):
    """A number for every unit of every row and direction, in the type of sums."""
    return net.p.scratch(net.directions * net.batch * net.hidden * BY_NAME[net.op.math].bytes)
