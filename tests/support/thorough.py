"""Problems that the mutants asked for beside those of the contracts: whole tiles and full pipelines, so that every barrier and wait matters."""
from __future__ import annotations

MODES = ("max", "avg_exclude_padding", "avg_include_padding")


def _pool3d(op, axes):
    return [f"pooling_{op} n2c3d5h4w6 window=3,2,2 pre_pad=1 stride=2 mode={m} {axes['T']}{layout}" for m in MODES for layout in ("", " nhwc")]


def _layout(axes):
    """Results between NCHW tensors are f32 until they are unpacked."""
    return "nchw" if axes["Y"] == "f32" else "nhwc"


LINES = {                                                    # kernel source -> lines for its axes
    "conv/conv_fprop_simt.cu": lambda a: [f"conv_fprop n1c4h12w12 k130r1s1 {a['T']}{layout}" for layout in ("", " nhwc")],
    "conv/conv_dgrad_simt.cu": lambda a: [f"conv_dgrad n1c130h12w12 k4r1s1 {a['T']}{layout}" for layout in ("", " nhwc")],
    "conv/conv_wgrad_simt.cu": lambda a: [f"conv_wgrad n1c130h2w2 k130r1s1 {a['T']}"],
    "conv/conv_fprop_mma.cu": lambda a: [f"conv_fprop n1c{c}h12w12 k136r1s1 {a['T']} {_layout(a)}" for c in (256, 72)],
    "conv/conv_dgrad_mma.cu": lambda a: [f"conv_dgrad n1c136h12w12 k72r1s1 {a['T']} {_layout(a)}"],
    "conv/conv_wgrad_mma.cu": lambda a: [f"conv_wgrad n1c24h22w12 k40r3s3 pad1 {a['T']} nhwc"],
    "pool/pooling_fwd_any.cu": lambda a: _pool3d("fwd", a), "pool/pooling_bwd_any.cu": lambda a: _pool3d("bwd", a),
    "pool/pooling_fwd_nhwc_team.cu": lambda a: [f"pooling_fwd n3c136h19w17 window=7 pre_pad=3 stride=3 mode={m} {a['T']} nhwc" for m in MODES],
    "pool/pooling_fwd_whole.cu": lambda a: [f"pooling_fwd n3c7h{n}w{n} window={n} stride=1 mode={m} {a['T']}" for m in MODES for n in (2, 8, 24)],
    "matmul/matmul_simt.cu": lambda a: [f"matmul 2x3x133x9 2x3x9x133 {a['T']}", f"matmul 2x1x36x64 1x3x64x20 {a['T']}"],
    "matmul/matmul_sum.cu": lambda a: [                      # batches that do not collapse
        f"matmul a=2x3x37x70:{a['T']} b=2x3x70x21:{a['T']} c=2x3x37x21:{a['T']}@777,1554,21,1",
        f"matmul a=2x3x2x9x70:{a['T']} b=2x3x2x70x21:{a['T']} c=2x3x2x9x21:{a['T']}@189,756,378,21,1",
        f"matmul 2x3x37x70 2x3x70x21 {a['T']}", f"matmul a=3x36x64:{a['T']} b=3x64x20:{a['T']}@1280,1,64 c=3x36x20:{a['T']}@720,1,36"],
    "conv/conv_mma_pack.cu": lambda a: [f"conv_fprop n2c133h4w17 k8r1s1 {a['T']}", f"conv_fprop n2c133h4w17 k8r1s1 {a['T']} nhwc"],
    "conv/conv_mma_unpack.cu": lambda a: [f"conv_fprop n2c8h4w17 k133r1s1 {a['T']}", f"conv_fprop n2c8h4w17 k133r1s1 {a['T']} nhwc"],
}


def lines(kernel) -> list[str]:
    """Problem lines for a kernel variant; those that do not launch it are of no use to it, and do no harm."""
    return LINES.get(kernel.source, lambda axes: [])(kernel.axes)
