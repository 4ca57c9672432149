"""The states of a generator from its seed, on the device."""
from ...graph import core
from ...ops import DropoutStates
from ...steps import Launch
from ..engine import Engine, wrong_device


class DropoutStatesSet(Engine):
    """One small launch."""
    index, takes = 355, core(DropoutStates)

    def refuse(self, p, dev):
        yield from wrong_device(dev)

    def plan(self, p, dev, config):
        return [Launch("dropout_states", dict(states=p.ptr("states"), seed=p.scalar("seed")))]
