"""Gradient of a recurrent network's data with one launch for all steps of a layer."""
from __future__ import annotations

from .backward import Backward
from .persist import CLUSTER_K, KNOBS, Persist


class RnnBwdDataPersist(Persist, Backward):
    """One cooperative launch a layer, both directions: transposed recurrent weights stay in shared memory,
    gradients of gates go round through L2; then a product for the inputs of all steps. Teams of blocks share
    the depth, so that each reads a part of the gradients."""
    index = 315
    kernel, sweep, is_backward, extra_steps = "rnn/rnn_persist_bwd.cu", "rnn_persist_bwd", True, 1
    fixed_us = 22.0
    knobs = (*KNOBS, CLUSTER_K)

    def teams(self, net, dev):
        has_teams = dev.sm >= 90 and net.dtype.bits == 16
        return tuple(dict(cluster_k=team) for team in (CLUSTER_K.values if has_teams else (1,)))

    def kernel_name(self, net, form):
        return f"{super().kernel_name(net, form)}_{form.team}"
