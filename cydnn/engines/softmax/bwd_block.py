"""Gradient of softmax of rows that one block holds."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd
from .block import Block


class SoftmaxBwdBlock(Block):
    """A block a row, y and dy read once."""
    index, takes, kernel = 221, core(SoftmaxBwd), "softmax_bwd_block"
    held = (512, 1024, 2048, 4096, 8192)
    smem = {4096: 65536, 8192: 131072}
