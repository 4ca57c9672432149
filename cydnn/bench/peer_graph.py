"""The closed library's graph interface, by its own package: convolution + bias + GELU in one graph. Needs the
package nvidia-cudnn-frontend, and torch, whose copy of the library it finds; only ``benchmarks/fused.py``
imports it."""
from __future__ import annotations

import statistics

import torch

from ..status import BadParam

torch.backends.cudnn.version()                   # loads the library: the package takes the one that is there
try:
    import cudnn
except ImportError as error:
    raise BadParam("bench: the fused peer needs the package nvidia-cudnn-frontend (import name cudnn); "
                   f"{error}") from None

_KINDS = {torch.float16: "HALF", torch.bfloat16: "BFLOAT16", torch.float32: "FLOAT"}
TRIED = 7                                        # runs of a plan, to choose among them


class FusedConv:
    """gelu(conv(x, w) + bias) into ``out``, all torch tensors; ``at``: padding, stride, dilation by name.

    ``plans`` of the library's own list (heuristics mode A) are built and timed, the fastest is kept.
    Raises the package's error where none is to be had.
    """
    handle = None

    def __init__(self, x, w, bias, out, at, clock, plans):
        kind = getattr(cudnn.data_type, _KINDS[x.dtype])
        FusedConv.handle = FusedConv.handle or cudnn.create_handle()
        self.graph = g = cudnn.pygraph(
            io_data_type=kind, intermediate_data_type=cudnn.data_type.FLOAT,
            compute_data_type=cudnn.data_type.FLOAT, handle=self.handle)
        given = [g.tensor(name=name, dim=list(t.shape), stride=list(t.stride()), data_type=kind)
                 for name, t in (("x", x), ("w", w), ("bias", bias))]
        result = g.gelu(g.bias(g.conv_fprop(image=given[0], weight=given[1], **at), given[2]))
        result.set_output(True).set_data_type(kind).set_stride(list(out.stride()))
        self.pack = dict(zip((*given, result), (x, w, bias, out)))
        g.validate()
        g.build_operation_graph()
        g.create_execution_plans([cudnn.heur_mode.A])
        g.check_support()
        self.count, self.best, self.reasons = g.get_execution_plan_count(), None, []
        self._choose(clock, plans)

    def _choose(self, clock, plans):
        """Build and time the first plans of the list."""
        made = {}
        for index in range(self.count):
            if len(made) == plans:
                break
            try:
                self.graph.build_plan_at_index(index)
                size = self.graph.get_workspace_size_plan_at_index(index)
                made[index] = self._call(index, torch.empty(max(size, 1), device="cuda", dtype=torch.uint8))
                made[index]()
            except Exception as error:           # the package has several; the next plan may do
                made.pop(index, None)
                self.reasons.append(f"plan {index}: {error}")
        if not made:
            raise BadParam("; ".join(self.reasons) or "no plan")
        found = clock.times(list(made.values()), TRIED) if len(made) > 1 else [[0.0]]
        us = {index: statistics.median(times) for index, times in zip(made, found)}
        self.best = min(us, key=us.get)
        self.run, self.name = made[self.best], self.graph.get_plan_name_at_index(self.best)

    def _call(self, index, workspace):
        return lambda: self.graph.execute_plan_at_index(self.pack, workspace, index, handle=self.handle)

    def __call__(self):
        self.run()
