"""Two devices in one process: memory of the other one is refused by name before a launch, and each computes
on its own memory whichever context is current."""
from __future__ import annotations

from cydnn import bench
from cydnn.heuristics import Wish
from cydnn.status import BadParam

from .buffers import FILLS
from ..check.streams import Runs, beside, stream_of


def refused(problem, engine, here, there) -> list[str]:
    """What is not refused as it should be: one operand after the other, then the workspace, of ``there``."""
    made = bench.Case(problem, here, Wish(engines=(engine.index,)))
    space, operands, wrong = int(made.workspace.ptr), made.plan.layout.operands, []
    for i, operand in enumerate(operands):
        if operand.bytes:
            other = there.alloc(operand.bytes)
            given = [*made.pointers[:i], int(other.ptr), *made.pointers[i + 1:]]
            wrong += _not_refused(made, given, space, operand.name, here)
    if made.plan.workspace_bytes:
        other = there.alloc(made.plan.workspace_bytes)
        wrong += _not_refused(made, made.pointers, int(other.ptr), "workspace", here)
    return wrong


def _not_refused(made, pointers, space, name, here) -> list[str]:
    want = f"{name}: must be memory of {here.name}; got memory of another device"
    try:
        made.plan.execute(tuple(pointers), space)
    except BadParam as error:
        return [] if str(error).startswith(want) else [f"{want!r} expected; got {error}"]
    here.synchronize()
    return [f"{name} was taken"]


def apart(problem, engine, here, there) -> list[str]:
    """The same numbers on both devices, in turns, give the same results."""
    both = [Runs(problem, engine, device, fill=fill) for device, fill in zip((here, there), FILLS)]
    streams = [stream_of(runs.device) for runs in both]
    wants = both[0].wants(streams[0])
    for runs, stream in (*zip(both, streams), *reversed(list(zip(both, streams)))):
        if runs.other(runs.wants(stream), wants):
            return [f"{runs.device.name} gives other results than {here.name}"]
    return beside(both)
