"""Problems that the mutants asked for beside those of the contracts: whole tiles and full pipelines, so that every barrier and wait matters."""
from __future__ import annotations

SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


def _softmax_block(op):
    return lambda a: [f"softmax_{op} 2x{a['UNITS'] * n // SIZES[a['T']] - 8} {a['T']}" for n in (16, 12)]       # aligned; most of it in shared memory


def _softmax_cluster(op, held):
    return lambda a: [f"softmax_{op} 1x{a['SIZE'] * held * 7 // 4 // SIZES[a['T']]} {a['T']}"]                  # more than the registers hold


LINES = {                                                    # kernel source -> lines for its axes
    "softmax/softmax_fwd_block.cu": _softmax_block("fwd"), "softmax/softmax_bwd_block.cu": _softmax_block("bwd"),
    "softmax/softmax_fwd_cluster.cu": _softmax_cluster("fwd", 131072), "softmax/softmax_bwd_cluster.cu": _softmax_cluster("bwd", 65536),
}


def lines(kernel) -> list[str]:
    """Problem lines for a kernel variant; those that do not launch it are of no use to it, and do no harm."""
    return LINES.get(kernel.source, lambda axes: [])(kernel.axes)
