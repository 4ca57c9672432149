"""Gradient of a recurrent network's data with one launch for all steps of a layer."""
from __future__ import annotations

from .backward import Backward
from .persist import Persist


class RnnBwdDataPersist(Persist, Backward):
    """One cooperative launch a layer, both directions: transposed recurrent weights stay in shared memory,
    gradients of gates go round through L2; then a product for the inputs of all steps."""
    index = 315
    kernel, sweep, is_backward, extra_steps = "rnn/rnn_persist_bwd.cu", "rnn_persist_bwd", True, 1
