"""The forward and the backward pass of a function of descriptions: what the libraries that trace before they
run (torch.compile, JAX) ask for, where there is no memory yet."""
from __future__ import annotations

from ..dtypes import dtype as to_dtype
from .backward import gradients, reads_results
from .function import Function, Result, results_of

DRAWING = dict(attention="dropout_p", dropout="p")           # functions that draw, and by which probability
_needs_result: dict = {}                         # function -> its gradients read what it returned


def made_of(function: Function, said, arrays, options) -> tuple[list[Result], bool]:
    """(the results, and what is saved behind them; are they several?)"""
    trace, results, is_tuple = function.traced(said, arrays, options, bool(function.saves))
    return results_of(trace, trace.finish(results), results), is_tuple


def walked(function: Function, arrays, said, options, wanted):
    """(trace, gradients, graph) of the arguments ``wanted``, of ``said``: arguments, result and what was
    saved with it, gradient."""
    count, ends = len(function.arrays), len(function.arrays) + 1 + function.saves
    trace, results, _ = function.traced(said[:count], arrays, options, bool(function.saves))
    descs = {i: said[i].desc for i in wanted}
    grads = [None] * len(results)
    outputs, grads[0] = said[count:count + len(results)], said[ends]
    found = gradients(function.name, trace, results, outputs, grads, descs, (count, ends))
    return trace, found, trace.finish(found, [v.desc for v in found])


def needs_result(function: Function, said, arrays, options) -> bool:
    """Whether the gradients of a function read what it returned."""
    if function.name not in _needs_result:
        _needs_result[function.name] = reads_results(
            *function.traced(said, arrays, options, bool(function.saves))[:2])
    return _needs_result[function.name]


def plain(value):
    """An option as a literal: lists are tuples, types their names."""
    if isinstance(value, (list, tuple)):
        return tuple([plain(v) for v in value])
    return value if value is None or isinstance(value, (bool, int, float, str)) else to_dtype(value).name
