"""Forward pass of a recurrent network with one launch for all steps of a layer."""
from __future__ import annotations

from .forward import Forward
from .persist import Persist


class RnnFwdPersist(Persist, Forward):
    """A product for the inputs of all steps; then one cooperative launch a layer, both directions: recurrent
    weights stay in shared memory, states go round through L2."""
    index = 311
    kernel, sweep = "rnn/rnn_persist.cu", "rnn_persist"
