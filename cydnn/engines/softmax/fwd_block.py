"""Softmax of rows that one block holds."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .block import Block


class SoftmaxFwdBlock(Block):
    """A block a row, x read once."""
    index, takes, kernel = 211, core(SoftmaxFwd), "softmax_fwd_block"
    held = (512, 1024, 2048, 4096, 8192, 16384)
    smem = {4096: 32768, 8192: 65536, 16384: 131072}
