"""Operands of a plan: one row a pointer, and the sentences about memory that does not fit."""
from __future__ import annotations

from typing import NamedTuple

from .dtypes import ML_DTYPES, DType
from .tensor import TensorDesc, stride_order

FITS, IS_FROZEN, IS_SHORT, IS_OTHER_TYPE, IS_OTHER_LAYOUT = range(5)           # what is found of memory


class Operand(NamedTuple):
    """``alignment``: bytes that its address must be a multiple of, at least those of an element.
    ``desc``: what an array must look like that says its type, shape and strides; None: anything.
    ``is_opaque``: its elements have an order of their own, so that a shape says nothing.
    ``is_ragged``: its offsets say how far it reaches, not a plan: ``bytes`` is 0, an array of any shape
    fits, and what it overlaps is not looked at.
    ``is_shared``: other devices write there too; ``is_remote``: it may be memory of one of those, to which
    this one has peer access."""
    name: str
    bytes: int
    alignment: int = 1
    is_written: bool = False
    is_optional: bool = False
    desc: TensorDesc | None = None
    is_opaque: bool = False
    is_ragged: bool = False
    is_shared: bool = False
    is_remote: bool = False


def of_slots(slots, written=(), optional=(), shared=(), remote=()) -> tuple:
    """The operands of a plan whose slots are these Tensors; ``written`` and the others: numbers of slots."""
    ragged = [t.ragged is not None for t in slots]
    return tuple([Operand(t.label, 0 if ragged[i] else t.bytes,
                          max(t.alignment, t.desc.dtype.bytes_of(1)), i in written, i in optional, t.desc,
                          t.reordering != "none", ragged[i], i in shared, i in remote)
                  for i, t in enumerate(slots)])


def shape_of(desc: TensorDesc) -> tuple:
    """(dims, strides) of an array of the elements: a vector is one more dim."""
    if desc.vector == 1:
        return desc.dims, desc.strides
    return (*desc.dims, desc.vector), (*[s * desc.vector for s in desc.strides], 1)


def unfit(operand: Operand, memory, rule: int) -> str:
    """The sentence of a rule that memory breaks: operand, what it must be, what was given, how to get it."""
    desc, name = operand.desc, operand.name
    if rule == IS_FROZEN:
        return (f"{name}: array must be writable, as it is an output; got a read-only one: "
                f"pass a copy of it")
    if rule == IS_SHORT:
        kind, what = (("buffer", "") if memory.type == "bytes" else
                      ("array", f" bytes in shape {memory.dims} of {memory.type}"))
        wanted = f", for {desc}" if desc is not None and what else ""
        return f"{name}: {kind} must have at least {operand.bytes} bytes{wanted}; got {memory.bytes}{what}"
    if rule == IS_OTHER_TYPE:
        return (f"{name}: array must be of type {named(desc.dtype)}, as the tensor is {desc}; "
                f"got {memory.type}: {how(operand)}")
    dims, strides = shape_of(desc)
    return (f"{name}: array must have shape {dims} and strides {strides} in elements, those of the tensor; "
            f"got shape {memory.dims} and strides {memory.strides}: {how(operand)}, or the memory as a flat "
            "array or an address")


def named(row: DType) -> str:
    """What arrays of a type are called in NumPy."""
    if row.kind == "bool":
        return "uint8, flat, eight booleans a byte"
    own = ML_DTYPES.get(row.name)
    return f"{own} or {row.numpy.name}" if own else row.numpy.name


def how(operand: Operand) -> str:
    """How to get what is needed."""
    (dims, strides), row = shape_of(operand.desc), operand.desc.dtype
    if row.kind == "bool":
        return "pass np.packbits(values, bitorder='little')"
    if operand.desc.is_dense and not operand.is_opaque:
        order = stride_order(TensorDesc(row, dims, strides))
        back = tuple([order.index(axis) for axis in range(len(dims))])
        made = f"np.empty({tuple([dims[axis] for axis in order])}, '{row.numpy.name}')"
        made += "" if back == tuple(sorted(back)) else f".transpose{back}"
    else:
        made = f"np.empty({operand.desc.extent * operand.desc.vector}, '{row.numpy.name}'), flat"
    return f"make it {made}" if operand.is_written else f"copy it into {made}"
