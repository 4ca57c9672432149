"""Matmul as its engines see it: the mark behind a product, the arguments of its launches."""
from __future__ import annotations

from ... import fusion
from ...fusion import Site
from ...steps import Launch
from ..tile.matrices import Matrices
from ..tile.split_k import DepthSplit, parts, with_sum


def out_site(lead, lanes: int = 1) -> Site:
    """The mark of a kernel that writes c: col counts its columns."""
    rank = len(lead.tensor.dims)
    return Site(lead.tensor.dims, lead.tensor, (("col", (rank - 1,)),), "col", lanes)


def c_args(p, g: Matrices, lead) -> dict:
    """The arguments of a product that say what it is and where it goes."""
    return dict(**lead.store(p), alpha=p.scalar("alpha"), m=g.m, n=g.n, k=g.k, c_m=g.c[0], c_n=g.c[1],
                batch=g.batch, c_batch=g.c_batch)


def launches(p, g: Matrices, lead, kernel: str, sum_kernel: str, part_type: str, cut: DepthSplit, args: dict,
             extra: dict, fuse) -> list:
    """The product of operands at addresses, and the ordered sum."""
    product = dict(c_args(p, g, lead), batches=g.count, parts=parts(p, g, part_type, cut), split_k=cut.each,
                   a=p.ptr("a"), b=p.ptr("b"), a_batch=g.a_batch, b_batch=g.b_batch) | args
    return with_sum(g, Launch(kernel, product, dict(extra, splits=cut.splits)), sum_kernel, cut.splits, fuse)


@fusion.attempt
def behind_product(p, native: str, lanes: int = 1, mark_type: str = "f32"):
    """What is spliced behind a kernel that writes c, and stores type ``native`` itself."""
    lead = p.lead(native)
    return fusion.behind(p, out_site(lead, lanes), lead, mark_type=mark_type, beta=lead.beta)
