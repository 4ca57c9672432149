"""What the persistent engines share: how blocks divide units and batch rows, and what that costs."""
from __future__ import annotations

from typing import NamedTuple

from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..engine import Config, Knob, no_variant, wrong_device

FRAGMENT = 512                                   # bytes of an m tile at a k step
PARTS, STATES = 2560, 1024                       # of the sums of an m tile by an n tile; of its units' states
TILES, GROUPS, HELD = Knob("tiles", (1, 2)), Knob("groups", lo=1, hi=64), Knob("held", ("all", "none"))
KNOBS = (TILES, GROUPS, HELD)
WARPS = 8                                        # of a block
L2_GBS = 5000.0                                  # what all SMs read of one another, on an H200
RING = 5                                         # areas of the exchange (kernels_src/rnn/persist.cuh)
LITTLE = 32 << 10                               # bytes of an exchange that is as fast as a smaller one
STEP_US = 2.2                                    # exchange and gates of a step with little to do


class Form(NamedTuple):
    """How one configuration runs. ``tiles``: of 16 units in a block; ``groups``: of ``group_rows`` batch
    rows, which do not wait for each other; ``resident``: k steps whose weights stay in shared memory;
    ``stages``: k steps of each warp on their way, of those that do not."""
    tiles: int
    groups: int
    group_rows: int
    blocks: int
    k_steps: int
    m_tiles: int
    n_tiles: int
    resident: int
    stages: int
    smem_bytes: int

    @property
    def passes(self) -> int:
        return ceil_div(self.group_rows, 8 * self.n_tiles)

    @property
    def exchanged(self) -> int:
        """Bytes that a block reads of the others a step."""
        return 32 * self.k_steps * self.group_rows


def depth_of(net) -> int:
    """Units of a k step."""
    return 16 if net.dtype.bits == 16 else 8


def form_of(net, dev, config, *, is_backward: bool) -> Form | None:
    """None where the blocks do not all fit on the device at once."""
    tiles, rows = config.tiles, ceil_div(ceil_div(net.batch, config.groups), 16) * 16
    each, blocks = ceil_div(net.hidden, depth_of(net)), ceil_div(net.hidden, 16 * tiles)
    k_steps, m_tiles = (net.gates * each, tiles) if is_backward else (each, net.gates * tiles)
    if is_backward:
        n_tiles = 2 if rows == 16 and tiles == 1 else 4
    else:
        n_tiles = (2 if rows == 16 or m_tiles > 6 else
                  8 if rows > 64 and tiles == 1 and net.dtype.bits == 16 else 4)
    passes, groups = ceil_div(rows, 8 * n_tiles), ceil_div(net.batch, rows)
    rest = PARTS * m_tiles * n_tiles + STATES * tiles * n_tiles * passes
    fitting, stages = (dev.smem_bytes - rest) // (FRAGMENT * m_tiles) if config.held == "all" else 0, 0
    if fitting < k_steps:
        stages = 3 if m_tiles > 4 else 4
        fitting = max((fitting - WARPS * stages) // WARPS * WARPS, 0)
    resident = min(fitting, k_steps)
    smem = rest + (resident + WARPS * stages) * FRAGMENT * m_tiles
    if smem > dev.smem_bytes or blocks * groups * net.directions > dev.sms:
        return None
    return Form(tiles, groups, rows, blocks, k_steps, m_tiles, n_tiles, resident, stages, smem)


def step_us(net, dev, form: Form) -> float:
    """Estimated microseconds of a step: its latency, what blocks read of one another, the weights that are
    not resident, and the products of a block."""
    blocks = form.blocks * form.groups * net.directions
    exchange = blocks * form.exchanged
    streamed = (form.k_steps - form.resident) * form.m_tiles * FRAGMENT * form.passes * blocks
    distinct = streamed // (form.passes * form.groups)
    speed = L2_GBS if distinct < dev.l2_bytes // 2 else dev.bandwidth_gbs * 0.8
    each = 2048 if net.dtype.bits == 16 else 3 * 2048       # f32: three products at half the rate
    clocks = form.k_steps * form.m_tiles * ceil_div(form.group_rows, 8) * each / dev.mma_16
    reads = form.resident * form.m_tiles * FRAGMENT * form.passes / 128
    return (STEP_US + (exchange / L2_GBS + streamed / speed) * 1e-3
            + (max(clocks, reads) + 500 * form.passes) / dev.clock_mhz)


def configs_of(net, dev, *, is_backward: bool) -> list[Config]:
    """Every configuration that fits, the cheapest first; those that hold no weights last."""
    found, seen = [], set()
    for tiles in TILES.values:
        whole = form_of(net, dev, Config(tiles=tiles, groups=1, held="none"), is_backward=is_backward)
        is_little = whole is not None and whole.passes == 1 and whole.exchanged <= LITTLE
        most = 1 if is_little else ceil_div(net.batch, 16)
        for groups in range(1, min(most, GROUPS.hi) + 1):
            for held in HELD.values:
                config = Config(tiles=tiles, groups=groups, held=held)
                form = form_of(net, dev, config, is_backward=is_backward)
                if form is not None and form not in seen:
                    seen.add(form)
                    found.append((held, step_us(net, dev, form), tiles, form.groups))
    return [Config(tiles=tiles, groups=groups, held=held) for held, _, tiles, groups in sorted(found)]


def refusals(p, net, dev, source: str, configs) -> list:
    """Why the persistent kernels do not take a network."""
    found = [*wrong_device(dev, 80), *no_variant(p, source, "w")]
    if net.hidden % 2:
        found.append(f"hidden must be even (two neighbours at once); got {net.hidden}")
    for name, tensor in p.operands.items():
        if tensor is not None and name != "states" and tensor.alignment < 2 * net.dtype.bytes:
            found.append(f"{name} must be aligned to {2 * net.dtype.bytes} bytes; got {tensor.alignment}")
    if not found and not configs():
        found.append(f"the blocks of hidden {net.hidden}, batch {net.batch} and {net.directions} directions "
                     f"must run at once; the device has {dev.sms} SMs with {dev.smem_bytes} bytes of shared "
                     "memory")
    return found


def beginning(net, layer, form: Form, hx: dict, *, is_backward: bool, steps: list) -> dict:
    """Append the launch that orders the weights of a layer; the arguments that the recurrence has of it."""
    dtype, n = net.dtype, net.directions
    words = form.blocks * form.k_steps * form.m_tiles * 32
    area = form.k_steps * form.group_rows // 16 * 32
    made = dict(packed=net.p.scratch(16 * n * words),
                exchange=net.p.scratch(RING * 16 * n * form.groups * area))
    weights = net.at("w", net.blob.recurrent[net.first(layer)])[0]
    args = dict(made, **hx, weights=weights, weights_dir=net.apart("recurrent", layer), batch=net.batch,
                hidden=net.hidden, gates=net.gates, tiles=form.tiles, blocks=form.blocks, groups=form.groups,
                group_rows=form.group_rows)
    shares = min(ceil_div(max(words, RING * form.groups * area), 1024), 2048)
    name = f"rnn_pack_{dtype}_{'backward' if is_backward else 'forward'}"
    steps.append(Launch(name, args, dict(directions=n, shares=shares)))
    return dict(weights=made["packed"], exchange=made["exchange"],
                group_rows=form.group_rows, resident=form.resident, stages=form.stages)
