"""Accumulators of the engines of any type, and the tensors in which their kernels count offsets."""
from __future__ import annotations


def _factors(p) -> list:
    """Names of what is summed."""
    return [name for name in p.op.reads if name not in p.op.fixed and p.operands[name] is not None]


def sum_type(p) -> str:
    """i32 where the op asks for it and has whole numbers,
    f64 where it asks for that or for i32 of others, else f32."""
    if p.op.compute == "i32" and all(p.operands[name].dtype.kind != "float" for name in _factors(p)):
        return "i32"
    return p.op.math


def wrong_sums(p):
    """Whole numbers that sums of i32 cannot take."""
    if sum_type(p) == "i32":
        for name in _factors(p):
            if p.operands[name].dtype.bits > 32:
                yield f"{name} must be i32 or smaller where compute is i32; got {p.operands[name].dtype}"


def lead_input(p, name: str):
    """The tensor that a kernel's offsets in operand ``name`` count in:
    the operand, or what is read in its place; None where nothing has its dims."""
    operand = p.operands[name]
    if name not in p.before:
        return operand if operand.dtype.bits >= 8 else None
    made = {u for node in p.before[name] for u in node.writes}
    read = [p.graph.tensors[u] for node in p.before[name] for u in node.reads if u not in made]
    return next((t for t in read if t.dims == operand.dims and not t.is_by_value and t.dtype.bits >= 8), None)
