"""Convolutions whose groups are a dim of their own: x (n, g, c, …), w (g, k, c, …), y (n, g, k, …).

CONVOLUTION_SPATIAL_DIMS tells this form from the usual one: the rank is three more than it. Graphs know
groups by their channels alone, so that both dims become one, which strides must allow.
"""
from __future__ import annotations

from ..ops.conv import Conv
from ..status import BadParam, NotSupported


def grouped(d, op, node, tensors: dict) -> dict:
    """{uid: first of the two axes that become one}; empty for what is no convolution of this form."""
    if not isinstance(op, Conv):
        return {}
    parameters = d.value(next(n for n in d.kind.attributes if n.endswith("CONV_DESC")))
    spatial = parameters.value("CONVOLUTION_SPATIAL_DIMS")
    ranks = {name: tensors[uid].rank for name, uid in node.operands.items()}
    for name, rank in ranks.items():
        if rank not in (spatial + 2, spatial + 3) or rank != max(ranks.values()):
            raise BadParam(f"{name} must have rank {spatial + 2}, or {spatial + 3} with groups as a dim of "
                           f"their own, for CONVOLUTION_SPATIAL_DIMS {spatial}; got {rank}: dims "
                           f"{tensors[node.operands[name]].dims}")
    if max(ranks.values()) == spatial + 2:
        return {}
    w = node.operands[type(op).parts[1] if type(op).parts[1] in node.operands else "w"]
    return {uid: 0 if uid == w or name in ("w", "dw") else 1 for name, uid in node.operands.items()}


def merge(tensor, axis: int):
    """A tensor with axis and the one behind it as one."""
    dims, strides = tensor.dims, tensor.strides
    outer, inner = dims[axis], dims[axis + 1]
    if outer > 1 and inner > 1 and strides[axis] != inner * strides[axis + 1]:
        raise NotSupported(f"tensor {tensor.label} must have strides that put groups before their channels, "
                           f"{inner} * {strides[axis + 1]} for dim {axis}; got {strides[axis]}")
    step = strides[axis + 1] if inner > 1 else strides[axis]
    return tensor.replace(dims=dims[:axis] + (outer * inner,) + dims[axis + 2:],
                          strides=strides[:axis] + (step,) + strides[axis + 2:])


def merged(made: list, tensors: dict) -> list:
    """The tensors of a graph. Where a convolution has groups as a dim, all of its rank lose that dim."""
    groups: dict = {}
    for one in made:
        groups.update(one.groups)
    if not groups:
        return list(tensors.values())
    rank = tensors[next(iter(groups))].rank
    axis = lambda t: groups.get(t.uid, 1)
    return [merge(t, axis(t)) if t.rank == rank else t for t in tensors.values()]
