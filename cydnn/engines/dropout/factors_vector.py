"""What kept elements are multiplied by, for other operations."""
from ...graph import core
from ...ops import DropoutFactors
from ..engine import Engine, moved_us, no_variant, wrong_device
from .view import factors


class DropoutFactorsVector(Engine):
    """Eight neighbours a thread."""
    index, takes = 354, core(DropoutFactors)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from no_variant(p, "dropout/dropout_factors.cu", "y")

    def cost(self, p, dev, config):
        return moved_us(p.op.moved_bytes(**p.operands), dev, 0.8)

    def plan(self, p, dev, config):
        return factors(p.ptr("y"), p.y.dtype, p.y.count, p.op.p, p.ptr("states"), dev)
