"""A flag that says that a tensor is there: set behind it, or waited for in front of it."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..status import ExecutionFailed
from .attribute import choice, integer
from .op import Op

MOST_VALUE = 2 ** 31 - 1


@dataclass(frozen=True)
class Signal(Op, reads="x", writes="y flag"):
    """y = x, and a flag in memory: set, once y is there, to ``value``; or waited for until it is ``value``,
    before x is read.

    x, y  equal dims, any strides; flag one i32, which other streams, devices or the host may write and read
    Where nothing else runs (NumPy) a flag that is waited for must hold the value.
    Spec: graph API, Signal.
    """
    mode: str = choice("set", "wait", api="OPERATION_SIGNAL_MODE", is_required=True,
                       doc="what is done to the flag",
                       members="SIGNAL_{}")
    value: int = integer(1, lo=0, api="OPERATION_SIGNAL_VALUE",
                         doc="what the flag becomes, or has when it is waited for")

    scalars = {}
    keeps = frozenset(["flag"])
    fixed = frozenset(["flag"])
    api = "SIGNAL"
    api_names = dict(x="OPERATION_SIGNAL_XDESC", y="OPERATION_SIGNAL_YDESC", flag="OPERATION_SIGNAL_FLAGDESC")

    def check(self, x):
        yield self.value <= MOST_VALUE, f"value must be at most {MOST_VALUE}; got {self.value}"

    def infer(self, x):
        return dict(y=x)

    def check_outputs(self, x, y, flag):
        yield flag is not None, "flag must be given"
        yield (flag.dtype.name == "i32" and flag.count == 1,
               f"flag must be one i32; got {flag.dtype} of dims {flag.dims}")

    def reference(self, x, flag):
        if self.mode == "wait" and int(flag.ravel()[0]) != self.value:
            raise ExecutionFailed(f"signal: flag must hold {self.value} where nothing else runs; got "
                                  f"{int(flag.ravel()[0])}")
        return dict(y=x, flag=np.full(flag.shape, self.value))

    def admit(self, name, values):
        return np.full(values.shape, float(self.value)) if name == "flag" else values
