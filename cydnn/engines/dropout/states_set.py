"""The states of a generator from its seed, on the device."""
from ...graph import core
from ...ops import DropoutStates
from ...steps import Launch
from ..cast import number_as
from ..engine import Engine, numbers, wrong_device


class DropoutStatesSet(Engine):
    """One small launch. The seed may lie in memory."""
    index, takes = 355, core(DropoutStates)
    understands = numbers("i64", "i32", "i8", "u8")

    def refuse(self, p, dev):
        yield from wrong_device(dev)

    def plan(self, p, dev, config):
        steps = []
        args = dict(states=p.ptr("states"), seed=number_as(p, "seed", "i64", steps))
        return [*steps, Launch("dropout_states", args)]
