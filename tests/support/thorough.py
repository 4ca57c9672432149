"""Problems that the mutants asked for beside those of the contracts: whole tiles and full pipelines, so that every barrier and wait matters."""
from __future__ import annotations

SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


def _softmax_block(op):
    return lambda a: [f"softmax_{op} 2x{a['UNITS'] * n // SIZES[a['T']] - 8} {a['T']}" for n in (16, 12)]       # aligned; most of it in shared memory


def _softmax_cluster(op, held):
    return lambda a: [f"softmax_{op} 1x{a['SIZE'] * held * 7 // 4 // SIZES[a['T']]} {a['T']}"]                  # more than the registers hold


MODES = ("max", "avg_exclude_padding", "avg_include_padding")


def _pool3d(op, axes):
    return [f"pooling_{op} n2c3d5h4w6 window=3,2,2 pre_pad=1 stride=2 mode={m} {axes['T']}{layout}" for m in MODES for layout in ("", " nhwc")]


LINES = {                                                    # kernel source -> lines for its axes
    "pool/pooling_fwd_any.cu": lambda a: _pool3d("fwd", a), "pool/pooling_bwd_any.cu": lambda a: _pool3d("bwd", a),
    "pool/pooling_fwd_nhwc_team.cu": lambda a: [f"pooling_fwd n3c136h19w17 window=7 pre_pad=3 stride=3 mode={m} {a['T']} nhwc" for m in MODES],
    "pool/pooling_fwd_whole.cu": lambda a: [f"pooling_fwd n3c7h{n}w{n} window={n} stride=1 mode={m} {a['T']}" for m in MODES for n in (2, 8, 24)],
    "softmax/softmax_fwd_block.cu": _softmax_block("fwd"), "softmax/softmax_bwd_block.cu": _softmax_block("bwd"),
    "softmax/softmax_fwd_cluster.cu": _softmax_cluster("fwd", 131072), "softmax/softmax_bwd_cluster.cu": _softmax_cluster("bwd", 65536),
}


def lines(kernel) -> list[str]:
    """Problem lines for a kernel variant; those that do not launch it are of no use to it, and do no harm."""
    return LINES.get(kernel.source, lambda axes: [])(kernel.axes)
