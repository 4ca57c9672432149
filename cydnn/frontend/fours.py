"""Numbers of 4 bits. Tensors of FP4_E2M1 are scaled by blocks and nothing else; the graph has them as bytes
of two neighbours each."""
from __future__ import annotations

from ..given import shown
from ..ops import BlockScaleDequantize, BlockScaleQuantize
from ..status import BadParam
from .enums import data_type

PLACES = ((BlockScaleDequantize, "x"), (BlockScaleQuantize, "y"))


def fours(steps, kind_of) -> set:
    """The tensors of that type, but those that another operation reads or writes. ``kind_of``: the type of a
    tensor."""
    uses = [(t, (step.op, o) in PLACES) for step in steps
            for o, t in (*step.inputs.items(), *step.scalars.items(), *step.outputs.items())
            if kind_of(t) is data_type.FP4_E2M1]
    return {t for t, is_scaled in uses if is_scaled} - {t for t, is_scaled in uses if not is_scaled}


def in_bytes(t, dims, strides) -> tuple:
    """(the dim whose neighbours share a byte, dims, strides) of the bytes."""
    axis = next((i for i, (n, stride) in enumerate(zip(dims, strides)) if n > 1 and stride == 1), None)
    even = [n if i == axis else 0 if n < 2 else stride for i, (n, stride) in enumerate(zip(dims, strides))]
    if axis is None or any(n % 2 for n in even) or t.ragged_offset is not None:
        raise BadParam(f"tensor {t.label}: FP4_E2M1 must have an even dim of stride 1, even strides else and "
                       f"no ragged_offset, as a byte holds two; got dim {shown(list(dims))}, stride "
                       f"{shown(list(strides))}")
    halved = lambda numbers, which: tuple([-(-n // 2) if which(i) else n for i, n in enumerate(numbers)])
    return axis, halved(dims, lambda i: i == axis), halved(strides, lambda i: i != axis)


def in_numbers(axis: int, what: str, numbers: tuple) -> tuple:
    """Dims or strides of the numbers, from those of the bytes."""
    return tuple([2 * n if (i == axis) == (what == "dims") else n for i, n in enumerate(numbers)])


def read_back(steps):
    """Of steps of a graph: what has two numbers in a byte is what a caller has again."""
    for step in steps:
        place = next((o for op, o in PLACES if step.op is op), None)
        if place is None or not step.op(**step.attributes).has_pairs:
            continue
        t = {**step.inputs, **step.outputs}[place]
        if t.pairs is None:
            t.pairs = (step.attributes["pairs"] if place == "x" else
                       step.op(**step.attributes).columns(len(t.own_dim)))
            t.set_dim(in_numbers(t.pairs, "dims", t.own_dim))
            t.set_stride(in_numbers(t.pairs, "strides", t.own_stride)).set_data_type(data_type.FP4_E2M1)
        del step.attributes["pairs" if place == "x" else "to"]
