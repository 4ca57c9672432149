"""Softmax of long rows on clusters (sm_90 and newer)."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .cluster import Cluster


class SoftmaxFwdCluster(Cluster):
    """2 or 4 blocks a row, x read once."""
    index, takes, kernel = 212, core(SoftmaxFwd), "softmax_fwd_cluster"
    held, few = 16, {512: 0.64, 1024: 0.55}
