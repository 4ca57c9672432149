"""Persistent recurrence: units and batch rows of a block, arguments and cost of a launch."""
from __future__ import annotations

from itertools import product
from typing import ClassVar, NamedTuple

from ...graph import once_per_match
from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..engine import Config, Knob
from .layers import KERNEL_CELLS, Net, unaligned, weights_of

FRAGMENT = 512                                   # bytes of an m tile at a k step
PARTS, STATES = 2560, 1024                       # of the sums of an m tile by an n tile; of its units' states
CLUSTER_K = Knob("cluster_k", (1, 2))
KNOBS = (Knob("unit_tiles", (1, 2)), Knob("batch_groups", lo=1, hi=64), Knob("resident", ("all", "none")),
         Knob("prefetch", ("early", "late")))
WARPS = 8                                        # of a block
RING = 5                                         # areas of the exchange (kernels_src/rnn/persist.cuh)
LITTLE = 32 << 10                                # bytes of an exchange that is as fast as a smaller one
MUCH = 60 << 9                                   # that are asked for late
# Microseconds, fitted to 94 configurations on an H200 (7 %): of a step with little to do; of a pass where
# blocks of a team meet; of what a thread finishes at once; of a k step of a warp, whose states are asked for,
# and of one whose weights come too; of a megabyte that a block reads, and that all read
STEP_US, TEAM_US, ITEM_US, ASK_US, STREAM_US, INTAKE_US, ALL_US = 0.83, 0.76, 0.96, 0.061, 0.094, 5.7, 0.06
MATH = 1.6                                       # clocks of a product over the least


class PersistForm(NamedTuple):
    """Launch shape of a configuration. ``tiles``: of 16 units in a block; ``team``: blocks of a cluster that
    share a depth; ``groups``: of ``group_rows`` batch rows, which do not wait for each other; ``planes``:
    directions, or layers that run together, whose blocks have two ``matrices``; ``k_steps`` of a block;
    ``resident``: those whose recurrent weights stay in shared memory, ``resident_below``: of the weights
    for the layer below; ``stages``: k steps of each warp on their way, of those that do not stay;
    ``is_late``: states are asked for once a part is there, not before others had time to store them."""
    tiles: int
    team: int
    groups: int
    group_rows: int
    blocks: int
    planes: int
    matrices: int
    k_steps: int
    m_tiles: int
    n_tiles: int
    resident: int
    resident_below: int
    stages: int
    is_late: bool
    smem_bytes: int

    @property
    def passes(self) -> int:
        return ceil_div(self.group_rows, 8 * self.n_tiles)

    @property
    def exchanged(self) -> int:
        """Bytes that a block reads of the others a step, of one plane."""
        return 32 * self.k_steps * self.group_rows

    @property
    def words(self) -> int:
        """Groups of four numbers in a matrix of weights in the order of fragments."""
        return self.blocks * self.k_steps * self.m_tiles * 32

    @property
    def area(self) -> int:
        """Groups of four numbers in a plane of the exchange at one step."""
        return self.groups * self.team * self.k_steps * self.group_rows // 16 * 32


def depth_of(net) -> int:
    """Units of a k step."""
    return 16 if net.dtype.bits == 16 else 8


def form_of(net, dev, config, *, is_backward=False, is_wave=False) -> PersistForm | None:
    """None where the blocks do not all fit on the device at once."""
    tiles, team = config.unit_tiles, config.get("cluster_k", 1)
    rows = ceil_div(ceil_div(net.batch, config.batch_groups), 16) * 16
    each, blocks = ceil_div(net.hidden, depth_of(net)), team * ceil_div(net.hidden, 16 * tiles * team)
    k_steps, m_tiles = (net.gates * each, tiles * team) if is_backward else (each, net.gates * tiles)
    if team > 1:
        k_steps = ceil_div(k_steps, WARPS * team) * WARPS
        n_tiles = 2 if rows == 16 else 8 if rows > 32 and tiles == 1 else 4
    elif is_backward:
        n_tiles = 2 if rows == 16 and tiles == 1 else 4
    else:
        n_tiles = (2 if rows == 16 or m_tiles > 6 else
                   8 if rows > 64 and tiles == 1 and net.dtype.bits == 16 and not is_wave else 4)
    passes, groups = ceil_div(rows, 8 * n_tiles), ceil_div(net.batch, rows)
    planes, matrices = (net.op.layers, min(net.op.layers, 2)) if is_wave else (net.directions, 1)
    rest = PARTS * m_tiles * n_tiles + STATES * tiles * n_tiles * (team - 1 + passes)
    fitting, stages = (dev.smem_bytes - rest) // (FRAGMENT * m_tiles) if config.resident == "all" else 0, 0
    if fitting < matrices * k_steps:
        stages = 3 if m_tiles > 4 else 4
        fitting = max((fitting - WARPS * stages) // WARPS * WARPS, 0)
    resident = min(fitting, k_steps)
    resident_below = min((fitting - resident) // WARPS * WARPS if stages else k_steps,
                         k_steps) if matrices == 2 else 0
    smem = rest + (resident + resident_below + WARPS * stages) * FRAGMENT * m_tiles
    if smem > dev.smem_bytes or blocks * groups * planes > dev.sms:
        return None
    return PersistForm(tiles, team, groups, rows, blocks, planes, matrices, k_steps, m_tiles, n_tiles,
                       resident, resident_below, stages, config.prefetch == "late", smem)


def step_us(net, dev, form: PersistForm) -> float:
    """Estimated microseconds of a step: latencies one after the other, what blocks read of one another, the
    weights that are not resident, and the products of a block."""
    k_steps, blocks = form.matrices * form.k_steps, form.blocks * form.groups * form.planes
    absent = k_steps - form.resident - form.resident_below
    streamed = absent * form.m_tiles * FRAGMENT * form.passes
    distinct = streamed * blocks // form.groups
    memory = distinct * 1e-3 / dev.bandwidth_gbs if distinct > dev.l2_bytes // 2 * form.passes else 0
    each = 2048 if net.dtype.bits == 16 else 3 * 2048       # f32: three products at half the rate
    clocks = k_steps * form.m_tiles * form.n_tiles * form.passes * each / dev.mma_16
    reads = (k_steps - absent) * form.m_tiles * FRAGMENT * form.passes / 128
    exchanged = form.exchanged * form.matrices
    asks = (ASK_US * ceil_div(k_steps, WARPS)
            + STREAM_US * absent / (WARPS * max(form.stages - 1, 1))) * form.passes
    items = ITEM_US * form.passes * ceil_div(form.tiles * form.n_tiles, 4)
    bytes_us = INTAKE_US * exchanged * 1e-6 + ALL_US * blocks * (exchanged + streamed) * 1e-6
    return (STEP_US + TEAM_US * (form.team - 1) * form.passes + items + asks + memory + bytes_us
            + MATH * max(clocks, reads) / dev.clock_mhz)


def configs_of(net, dev, make, teams=({},)) -> list[Config]:
    """Every configuration of which ``make`` makes a form, the cheapest first; those that hold no weights
    last, and before them those that ask too early or too late. ``teams``: what each says of that knob."""
    found, seen = [], set()
    knobs = {knob.name: knob for knob in KNOBS}
    for tiles, team in product(knobs["unit_tiles"].values, teams):
        whole = make(Config(unit_tiles=tiles, batch_groups=1, resident="none", prefetch="late", **team))
        is_little = whole is not None and whole.passes == 1 and whole.exchanged <= LITTLE
        most = 1 if is_little else ceil_div(net.batch, 16)
        for groups, held, asks in product(
                range(1, min(most, knobs["batch_groups"].hi) + 1), knobs["resident"].values,
                knobs["prefetch"].values):
            config = Config(unit_tiles=tiles, batch_groups=groups, resident=held, prefetch=asks, **team)
            form = make(config)
            if form is not None and form not in seen:
                seen.add(form)
                is_odd = form.is_late != (form.exchanged >= MUCH)
                found.append(((held, is_odd, step_us(net, dev, form), tiles, groups, form.team), config))
    return [config for _, config in sorted(found, key=lambda pair: pair[0])]


def pack(net, form, kind: str, weights: dict, packed, matrices=1, exchange=None, hx=None, turns=0) -> Launch:
    """Brings ``matrices`` of ``weights`` into the order of fragments, and an exchange into its first state:
    ``hx``, then ``turns`` areas that are empty."""
    hx = hx or dict(hx=None, hx_dir=0, hx_row=0)
    planes, begun = exchange[1] if exchange else (0, 0)
    args = dict(hx, **weights, packed=packed, exchange=exchange and exchange[0], batch=net.batch,
                hidden=net.hidden, gates=net.gates, tiles=form.tiles * form.team,
                blocks=form.blocks // form.team, groups=form.groups,
                group_rows=form.group_rows, planes=planes, begun=begun, turns=turns)
    work = max(form.words, (turns + 1) * form.area if exchange else 0)
    return Launch(f"rnn_pack_{net.dtype}_{kind}", args,
                  dict(matrices=matrices, shares=min(ceil_div(work, 256), 4096)))


class Persist:
    """The recurrence of an engine with one launch for all steps. ``sweep``: the first word of its kernel,
    ``extra_steps``: those behind the last, ``fixed_us``: of a layer, both its launches."""
    least_sm = 80
    sweep: ClassVar[str]
    is_backward: ClassVar[bool] = False
    extra_steps: ClassVar[int] = 0
    fixed_us: ClassVar[float] = 15.0
    knobs = KNOBS
    notes = ("deterministic", "tensor_core")

    def teams(self, net, dev) -> tuple:
        """Knob values of teams that configurations have."""
        return ({},)

    def form(self, net, dev, config) -> PersistForm | None:
        return form_of(net, dev, config, is_backward=self.is_backward)

    @once_per_match
    def configs(self, p, dev):
        net = Net.of(p)
        return configs_of(net, dev, lambda config: self.form(net, dev, config), self.teams(net, dev))

    def refuse_net(self, p, dev):
        net = Net.of(p)
        if net.hidden % 2:
            yield f"hidden must be even (two neighbours at once); got {net.hidden}"
        yield from unaligned(net)
        if not self.configs(p, dev):
            yield (f"the blocks of hidden {net.hidden}, batch {net.batch}, {net.op.layers} layers and "
                   f"{net.directions} directions must run at once; the device has {dev.sms} SMs with "
                   f"{dev.smem_bytes} bytes of shared memory")

    def recurrence_us(self, net, dev, config):
        form = self.form(net, dev, config)
        return self.fixed_us + (net.steps + self.extra_steps) * step_us(net, dev, form)

    def kernel_name(self, net, form) -> str:
        return f"{self.sweep}_{net.dtype}_{KERNEL_CELLS[net.op.cell]}_{form.m_tiles}x{form.n_tiles}"

    def sweep_launch(self, net, form, args: dict) -> Launch:
        name = self.kernel_name(net, form)
        args = dict(args, group_rows=form.group_rows, resident=form.resident, stages=form.stages,
                    is_late=int(form.is_late))
        return Launch(name, args, dict(planes=form.planes, tiles=form.tiles))

    def recurrence(self, net, layer, dev, config, args):
        form, n = self.form(net, dev, config), net.directions
        packed = net.p.scratch(16 * n * form.words)
        exchange = net.p.scratch(RING * 16 * n * form.area)
        if self.is_backward:                     # gradients begin with 0
            kind, hx, more = "backward", None, {}
        else:
            kind, hx = "forward", {k: args[k] for k in ("hx", "hx_dir", "hx_row")}
            more = dict(below=None, resident_below=0, inner=None, inner_dir=0)
        return [pack(net, form, kind, weights_of(net, layer), packed, n, (exchange, (n, n)), hx, RING - 1),
                self.sweep_launch(net, form, dict(args, weights=packed, exchange=exchange, **more))]
