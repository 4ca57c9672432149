"""Gradient of softmax of long rows on clusters (sm_90 and newer)."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd
from .cluster import Cluster


class SoftmaxBwdCluster(Cluster):
    """2 or 4 blocks a row, y and dy read once."""
    index, takes, kernel = 222, core(SoftmaxBwd), "softmax_bwd_cluster"
    held, few = 8, {512: 0.62, 1024: 0.65}
