"""Lowerings: the rows of an operation that is made of others, as they are written."""
from __future__ import annotations

from ..tensor import TensorDesc
from .pointwise import Pointwise
from .reduction import Reduction


class Made:
    """The rows of a lowering, as they are written:
    ``full`` values have x's dims, ``thin`` ones are one a mean."""

    def __init__(self, compute, full, thin):
        self.compute, self.full, self.thin, self.rows, self.inner = compute, full, thin, [], {}

    def point(self, name, mode, *reads, thin=False, **scalars) -> str:
        """name = mode(reads); the name is an output of the op, or a new value. Returns it."""
        operands = dict(zip(("x", "b", "t"), reads), y=name)
        axis = scalars.pop("axis", 0)            # of gen_index
        self.rows.append((Pointwise(mode=mode, axis=axis, compute=self.compute), operands, scalars))
        self.inner[name] = self.thin if thin else self.full
        return name

    def number(self, name, mode, *reads) -> str:
        """The same of numbers."""
        self.point(name, mode, *reads)
        self.inner[name] = TensorDesc.packed(self.thin.dtype, (1,) * self.thin.rank)
        return name

    def fold(self, name, mode, x) -> str:
        """name = the reduction of x to one a mean."""
        self.rows.append((Reduction(mode=mode, compute=self.compute), dict(x=x, y=name), {}))
        self.inner[name] = self.thin
        return name

    def statistics(self) -> tuple:
        """(mean, rstd, biased variance) of x."""
        mean, var = self.moments("mean", "variance")
        return mean, self.rstd(var), var

    def moments(self, mean, variance) -> tuple:
        """(mean, biased variance) of x, by these names. What is full is made anew where it is needed:
        that moves less than keeping it."""
        mean = self.fold(mean, "avg", "x")
        spread = self.point("spread", "sub", "x", mean)
        return mean, self.fold(variance, "avg", self.point("square", "mul", spread, spread))

    def rstd(self, var) -> str:
        """1 / sqrt(var + epsilon)."""
        return self.point("rstd", "rsqrt", self.point("least", "add", var, "epsilon", thin=True), thin=True)

    def normal(self, name, mean, rstd) -> str:
        """name = (x - mean) * rstd."""
        return self.point(name, "mul", self.point(f"{name}_apart", "sub", "x", mean), rstd)

    def finish(self, outputs, descs):
        """(rows, values in between). What is read again is read as it is before it is rounded to the type of
        an output."""
        again = {n for _, operands, _ in self.rows for o, n in operands.items() if o != "y"}
        for name in outputs:
            if name in again and descs[name].dtype != self.thin.dtype:
                exact = f"{name}_exact"
                self.rows = [(op, {o: exact if n == name else n for o, n in operands.items()}, scalars)
                             for op, operands, scalars in self.rows]
                self.inner[exact] = self.inner[name]
                self.point(name, "identity", exact, thin=True)
        return self.rows, {name: desc for name, desc in self.inner.items() if name not in outputs}
