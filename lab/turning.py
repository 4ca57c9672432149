"""More runs of the kernel with the smallest image of a source, until each of its loops has turned: problems
in which there is more for a thread or a block to do than once, and what no problem turns, with the reason.

A loop that runs once hides what is wrong with the second time: a step that is too short, a barrier in front
of the next item.
"""
from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from cydnn import device as devices, kernels, plan
from cydnn.ops import Problem
from support.check import fused
from support.draw import graphs
from lab import loop_turns
from support.draw.cases import cases, every_case
from support.check.matrix import blended, plain

import watched


class More(NamedTuple):
    """A problem of the kernel's axes. ``sms``: of the card, 0 for those that it has; ``numbers``: by-value
    ones; ``config``: a part of the text of those that are meant; ``shares``: blocks along x, where a kernel
    takes any number of them; ``is_fused``: with bias, residual and ReLU behind it, alone; ``order``: in which
    warps run, by a seed, or the fixed one."""
    line: str
    sms: int = 0
    numbers: object = plain
    config: str = ""
    shares: int = 0
    is_fused: bool = False
    order: int | None = None


def small(*lines):
    """For a card of one SM, whose blocks have several items each."""
    return tuple(More(line, 1) for line in lines)


FFT = small("conv_fprop n1c1h160w1 k1r1s1 {T}", "conv_fprop n1c1h54w1 k1r1s1 {T}",
            "conv_fprop n1c1h2w44 k1r1s1 {T}")
FFT_ROWS = ("conv_fprop n1c1h2w160 k1r1s1 {T}", "conv_fprop n1c1h1w54 k1r1s1 {T}",
            "conv_fprop n1c1h44w2 k1r1s1 {T}")
PLANE = "pooling_bwd n2c3h20w20 window=3 pre_pad=1 mode=max {T}"
LINES = {
    "attention/sdpa_fwd_wgmma.cu": small(
        "sdpa q=1x3x168x256:{T} k=1x1x256x300:{T}@76800,76800,1,256 v=1x1x300x256:{T} o=1x3x168x256:{T}",
        "sdpa q=1x1x9x256:{T} k=1x1x256x300:{T}@76800,76800,1,256 v=1x1x300x256:{T} o=1x1x9x256:{T} "
        "len_kv=1x1x1x1:i32"),
    "attention/sdpa_fwd_fp8_wgmma.cu": small(
        "sdpa q=1x3x9x64:{T} k=1x1x64x40:{T}@2560,2560,1,64 v=1x1x40x64:{T} o=1x3x9x64:{O}"),
    "attention/sdpa_bwd_wgmma_dkv.cu": small(
        "sdpa_bwd q=1x1x9x{DEPTH}:{T} k=1x1x{DEPTH}x300:{T}@38400,38400,1,128 v=1x1x300x{DEPTH}:{T} "
        "o=1x1x9x{DEPTH}:{T} do=1x1x9x{DEPTH}:{T} stats=1x1x9x1:f32"),
    "attention/sdpa_bwd_wgmma_dkv_pair.cu": small(
        "sdpa_bwd q=1x2x300x256:{T} k=1x1x256x150:{T}@38400,38400,1,256 v=1x1x150x256:{T} o=1x2x300x256:{T} "
        "do=1x2x300x256:{T} stats=1x2x300x1:f32 len_q=1x1x1x1:i32"),
    "attention/sdpa_bwd_fp8_wgmma_dkv.cu": small(
        "sdpa_bwd q=1x1x9x64:f8_e4m3 k=1x1x64x300:f8_e4m3@19200,19200,1,64 v=1x1x300x64:f8_e4m3 "
        "o=1x1x9x64:f8_e4m3 do=1x1x9x64:f8_e4m3 stats=1x1x9x1:f32 dq=1x1x9x64:f32 "
        "dk=1x1x64x300:f32@19200,19200,1,64 dv=1x1x300x64:f32"),
    "attention/sdpa_bwd_fp8_wgmma_dq.cu": small(
        "sdpa_bwd q=1x1x400x{DEPTH}:f8_e4m3 k=1x1x{DEPTH}x9:f8_e4m3@1152,1152,1,{DEPTH} "
        "v=1x1x9x{DEPTH}:f8_e4m3 o=1x1x400x{DEPTH}:f8_e4m3 do=1x1x400x{DEPTH}:f8_e4m3 stats=1x1x400x1:f32 "
        "dq=1x1x400x{DEPTH}:f32 dk=1x1x{DEPTH}x9:f32@1152,1152,1,{DEPTH} dv=1x1x9x{DEPTH}:f32"),
    "attention/sdpa_bwd_wgmma_dq.cu": small(
        "sdpa_bwd q=1x1x400x{DEPTH}:{T} k=1x1x{DEPTH}x9:{T}@2304,2304,1,256 v=1x1x9x{DEPTH}:{T} "
        "o=1x1x400x{DEPTH}:{T} do=1x1x400x{DEPTH}:{T} stats=1x1x400x1:f32"),
    "grouped_matmul/grouped_matmul_any.cu": (
        More("grouped_matmul x=1x700x8:f16 w=2x8x8:f16 offsets=700x1x1:i32 y=1x700x8:{S} acc={S}"),),
    "grouped_matmul/grouped_matmul_wgmma.cu": (
        More("grouped_matmul x=1x410x8:{T} w=5x8x8:{T}@64,1,8 offsets=400x1x1:i32 y=1x410x8:{T}"),),
    "grouped_matmul/grouped_matmul_wgrad_wgmma.cu": (
        *small("grouped_matmul_wgrad x=1x700x136:{T} dy=1x700x272:{T} offsets=400x1x1:i32 dw=4x136x272:{T}",
               "grouped_matmul_wgrad x=1x700x136:{T} dy=1x700x272:{T} offsets=4x1x1:i32 "
               "dw=4x136x272:{T}@40000,1,137"),
        More("grouped_matmul_wgrad x=1x70x136:{T} dy=1x70x72:{T} offsets=1x1x1:i32 dw=1x136x72:{T}",
             config="store=rows")),
    "grouped_matmul/grouped_matmul_places.cu": (
        More("grouped_matmul x=1x9x8:f32 w=2x8x4:f32 offsets=10x1x1:i32 index=1x9x1:i32 slot=1x9x1:i32 "
             "mode=scatter"),),
    "norm/norm_bwd_rows.cu": small("norm_bwd 73x1016 f16"),
    "norm/norm_bwd_ring.cu": (
        More("norm_bwd 31x4096 {T}", config="blocks_per_row=1"),
        More("norm_bwd 1x16392 {T}", config="blocks_per_row=33"),
        *(More("norm_bwd 3x4360 {T}", 2, order=order) for order in range(12))),
    "norm/norm_fwd_ring.cu": (
        More("norm_fwd 1x16392 {T}", config="blocks_per_row=33"),
        *(More("norm_fwd 3x4360 {T}", 2, order=order) for order in range(12))),
    "norm/norm_bwd_sums.cu": (More("norm_bwd 4300x8 f32", 132),),
    "conv/conv_depthwise.cu": (More("conv_fprop n1c64h10w6 k64r10s10 groups=64 pad=2 {T} nhwc"),),
    "conv/conv_dgrad_few.cu": small("conv_dgrad n2c2h4w66 k136r5s3 pad=1 {T} nhwc",
                                    "conv_dgrad n2c1h8w152 k40r7s7 pre_pad=3 post_pad=2 {T} nhwc"),
    "conv/conv_dgrad_mma.cu": (More("conv_dgrad n1c8d4h4w4 k8t3r3s3 pad=1 {T} nchw"),),
    "conv/conv_dgrad_wgmma.cu": small(
        "conv_dgrad n2c120h9w5 k24r3s2 pre_pad=1,0 post_pad=0,2 stride=2,3 dilation=1,2 {T} nhwc"),
    "conv/conv_fft_columns.cu": FFT,
    "conv/conv_fft_rows.cu": small(*FFT_ROWS),
    "conv/conv_fft_store.cu": tuple(More(line, 1, blended) for line in FFT_ROWS),
    "conv/conv_first.cu": small("conv_fprop n2c3h40w100 k72r11s11 pad=2 stride=4 {T} nhwc",
                                "conv_fprop x=2x3x40x100:{T}@16384,1,404,4 w=72x3x11x11:{T}@363,1,33,3 "
                                "y=2x72x9x24:{T}@15552,1,1728,72 pad=2 stride=4"),
    "conv/conv_first_wgrad.cu": (More("conv_wgrad n1c3h12w20 k32r9s3 pad=4 {T} nhwc"),),
    "conv/conv_halo.cu": (
        More("conv_fprop n2c40h9w29 k72r3s2 pre_pad=1,0 post_pad=0,2 dilation=1,2 {T} nhwc", 1),
        More("conv_fprop n1c16h9w16 k64r3s3 pad=1 {T} nhwc", is_fused=True)),
    "conv/conv_mma_pack.cu": (More("conv_fprop n2c10h4w10 k8r1s1 {T}"),),
    "conv/conv_wgmma.cu": (
        *small("conv_fprop n1c128h3w5 k128r1s2 groups=2 {T} nhwc",
               "conv_fprop n1c128h18w16 k136r3s3 pad1 {T} nhwc"),
        More("conv_fprop n1c128h9w16 k61r1s1 {T} nhwc", config="splits=2"),
        *(More("conv_fprop n1c64h9w16 k104r1s3 pad=0,1 {T} nhwc", 0, blended,
               f"tile=128x64 splits=1 store=rows cluster_k={team}") for team in (1, 2)),
        *(More("conv_fprop n1c128h2w16 k61r3s3 pad1 {T} nhwc", sms, config="stream_k=2") for sms in (6, 16)),
        More("conv_fprop n1c64h22w16 k200r1s3 pad=0,1 {T} nhwc", 5, config="stream_k=1")),
    "conv/conv_wgmma_kept.cu": small(
        "conv_fprop n32c24h9w5 k64r3s2 pre_pad=1,0 post_pad=0,2 stride=2,1 dilation=1,2 {T} nhwc"),
    "conv/conv_wgmma_pieces.cu": (
        *(More(f"conv_fprop n1c96h18w16 k{k}r1s3 pad=0,1 {{T}} nhwc", 1,
               config="tile=128x64 splits=1 store=tma cluster_k=1") for k in (72, 136)),
        More("conv_fprop n1c144h9w16 k61r1s1 {T} nhwc", config="splits=2"),
        *(More("conv_fprop n1c136h9w16 k104r1s3 pad=0,1 {T} nhwc", 0, blended,
               f"tile=128x64 splits=1 store=rows cluster_k={team}") for team in (1, 2)),
        *(More("conv_fprop n1c136h2w16 k61r3s3 pad1 {T} nhwc", sms, config="stream_k=2") for sms in (6, 16)),
        More("conv_fprop n1c72h22w16 k200r1s3 pad=0,1 {T} nhwc", 5, config="stream_k=1")),
    "conv/conv_wgmma_tall.cu": (
        More("conv_fprop n2c24h9w5 k120r3s2 pre_pad=1,0 post_pad=0,2 stride=2,1 dilation=1,2 {T} nhwc", 1,
             config="tile=192x128 splits=2 store=tma cluster_k=1"),
        More("conv_fprop n1c8h13w16 k128r1s1 {T} nhwc", 0, blended, "tile=192x128 splits=1 store=tma")),
    "conv/conv_wgrad_mma_sum.cu": (More("conv_wgrad n1c8h80w100 k8r1s1 f16 dw=8x8x1x1:{T} nhwc"),),
    "conv/conv_wgrad_simt_sum.cu": (
        More("conv_wgrad n2c3h19w19 k4r2s2 {T} acc=i32 nhwc", config="splits=16"),),
    "conv/conv_wgrad_wgmma.cu": (                # the first for stages that are filled again
        More("conv_wgrad n1c64h36w16 k128r1s1 {T} nhwc", config="tile=128x64 splits=1 store=tma cluster_k=1"),
        More("conv_wgrad n1c64h36w16 k128r1s1 {T} nhwc", 0, blended,
             "tile=128x64 splits=1 store=rows cluster_k=2"),
        More("conv_wgrad n1c64h36w16 k128r1s1 dw=128x64x1x1:{T}@65,1,1,1 {T} nhwc", 0, blended,
             "tile=128x64 splits=1 store=rows cluster_k=2")),
    "divisive_norm/divisive_norm_bwd_strided.cu": (
        More("divisive_norm_bwd n2c3h7w29 {T} scale=2.0 offset=0.5 window=13"),),
    "divisive_norm/divisive_norm_bwd_terms.cu": (
        More("divisive_norm_bwd n2c3h7w29 {T} scale=2.0 offset=0.5 window=13"),),
    "divisive_norm/divisive_norm_fwd_strided.cu": (
        More("divisive_norm_fwd x=2x3x7x29:{T} scale=2.0 offset=0.5 window=13"),),
    "dropout/dropout_bwd_vector.cu": (More("dropout_bwd dy=2000:{T} mask=250:u8 dx=2000:{T}"),),
    "dropout/dropout_factors.cu": small("dropout_factors y=65616:{T}"),
    "dropout/dropout_fwd_vector.cu": small("dropout_fwd x=20x17:{T} y=20x17:{T}",
                                           "dropout_fwd x=3x65584:{T} y=3x65584:{T}"),
    "matmul/matmul_sum.cu": (More("matmul a=3x1401:{T} b=1401x5:{T} c=3x5:{T}", config="splits=8"),),
    "matmul/matmul_thin.cu": (
        More("matmul a=200x520:{T} b=520x24:{T}@1,520 c=200x24:{T}@32,1", config="blocks_per_tile=8"),),
    "matmul/matmul_wgmma.cu": (
        *small("matmul a=133x328:{T} b=328x264:{T}@1,328 c=133x264:{T}"),
        More("matmul a=37x136:{T} b=136x157:{T}@1,136 c=37x157:f32", config="splits=2"),
        *(More("matmul a=37x264:{T} b=264x104:{T}@1,264 c=37x104:{T}", 0, blended,
               f"splits=1 store=rows cluster_k={team}") for team in (1, 2)),
        More("matmul a=37x1032:{T} b=1032x131:{T}@1,1032 c=37x131:{T}", 16, config="stream_k=2"),
        More("matmul a=37x2264:{T} b=2264x101:{T}@1,2264 c=37x101:{T}", 18, config="stream_k=2"),
        More("matmul a=133x192:{T} b=192x389:{T}@1,192 c=133x389:{T}", 5, config="stream_k=1")),
    "matmul/matmul_wgmma_unaligned.cu": (
        *small("matmul a=133x333:{T} b=333x261:{T}@1,333 c=133x261:{T}"),
        More("matmul a=37x135:{T} b=135x157:{T}@1,135 c=37x157:f32", config="splits=2"),
        More("matmul a=37x265:{T} b=265x104:{T}@1,265 c=37x104:{T}", 0, blended, "splits=1"),
        More("matmul a=37x1033:{T} b=1033x131:{T}@1,1033 c=37x131:{T}", 16, config="stream_k=2"),
        More("matmul a=37x2263:{T} b=2263x101:{T}@1,2263 c=37x101:{T}", 18, config="stream_k=2"),
        More("matmul a=261x193:{T} b=193x389:{T}@1,193 c=261x389:{T}", 5, config="stream_k=1")),
    **{f"norm/batch_norm_{name}_any.cu": (
        More(f"batch_norm_{op} 3x2x64x64 f16 nchw", config="channels=8 splits=1"),
        More(f"batch_norm_{op} 3x2x64x64 f16 nchw mean=none rstd=none", config="channels=8 splits=1")
        if op == "bwd" else More("batch_norm_training 3000x3x1x1 f16 nhwc", config="channels=1 splits=1"))
       for name, op in (("stats", "training"), ("apply", "training"), ("bwd_sums", "bwd"),
                        ("bwd_apply", "bwd"))},
    "norm/gen_stats_any.cu": (More("gen_stats x=3x2x64x64:f16", config="channels=8 splits=1"),),
    "norm/batch_norm_apply_columns.cu": (
        More("batch_norm_training n64c4h20w25 {T} nhwc acc=f64", config="splits=1"),
        More("batch_norm_training n64c4h20w25 {T} nhwc acc=f64", config="splits=128")),
    "norm/batch_norm_apply_rows.cu": (
        More("batch_norm_training 3x2x1x301 {T}", config="splits=128"),),
    "norm/batch_norm_bwd_apply_columns.cu": (
        More("batch_norm_bwd n64c10h15w7 {T} nhwc acc=f64", config="splits=256"),),
    "norm/batch_norm_bwd_apply_rows.cu": (More("batch_norm_bwd 3x2x1x602 {T}", config="splits=128"),),
    "norm/batch_norm_bwd_grid.cu": (
        More("batch_norm_bwd n16c32h32w34 {T} nhwc", 300, config="lanes_log2=3"),),
    "norm/batch_norm_bwd_ring.cu": small("batch_norm_bwd n12c5h40w24 {T}"),
    "norm/batch_norm_cluster.cu": (
        More("batch_norm_training n2c4h34w100 {T} nhwc", config="cluster=2 lanes_log2=1"),),
    "norm/batch_norm_grid.cu": (
        More("batch_norm_training n16c32h32w34 {T} nhwc", 300, config="lanes_log2=3"),),
    "norm/batch_norm_stats_columns.cu": (
        More("batch_norm_training n64c4h20w25 {T} nhwc acc=f64", config="splits=1"),),
    "norm/peer_parts.cu": (
        More("batch_norm_bwd x=9x1x8x9:f16@nhwc dy=9x1x8x9:f16@nhwc scale=1x1x1x1:f32 mean=1x1x1x1:f32 "
             "rstd=1x1x1x1:f32 peer_stats=12:f32+12:f32+12:f32 dx=9x1x8x9:f16@nhwc dscale=1x1x1x1:f32 "
             "dbias=1x1x1x1:f32 rank=1", config="splits=512"),),
    "pool/pooling_bwd_avg_nhwc_apart.cu": (
        More("pooling_bwd n1c8h4w40 window=2 stride=9 mode=avg_include_padding {T} nhwc", 0, blended),),
    "pool/pooling_bwd_max_nhwc_strip.cu": small("pooling_bwd n1c1024h6w10 pre_pad=2,0 stride=2 {T} nhwc"),
    "pool/pooling_bwd_max_plane.cu": (More(PLANE), More(PLANE, 0, blended)),
    "rnn/rnn_cluster.cu": (More("rnn_fwd t2n8i8 hidden=520 cell=relu {T}"),),
    "rnn/rnn_pack.cu": (More("rnn_bwd_data t2n18i8 hidden=40 cell=gru bidirectional=True {T}", shares=1),),
    "rnn/rnn_persist.cu": (
        More("rnn_fwd t3n5i8 hidden=40 cell=relu {T}",
             config="unit_tiles=1 batch_groups=1 resident=all prefetch=late"),),
    "softmax/softmax_bwd_apply.cu": (More("softmax_bwd 1x1060000 {T}"),),
    "softmax/softmax_bwd_grid.cu": (More("softmax_bwd 1x524240 {T}"),),
    "softmax/softmax_fwd_apply.cu": (More("softmax_fwd 1x4230000 {T}"),),
    "softmax/softmax_fwd_grid.cu": (More("softmax_fwd 1x524276 {T}"),),
    "spatial/spatial_grid_bwd_sum.cu": (More("spatial_grid_bwd dgrid=1x1136x83x2:{T}"),),
    "spatial/spatial_sampler_bwd_bins.cu": small("spatial_sampler_bwd x=2x1x3008x33:f32 dy=2x1x19x35:f32 \
grid=2x19x35x2:f32"),
}


LAST = 12                                        # lines of a loop that tell it from others
NUMBER = r"setp\.lt\.[su]32 %p\d+, %r\d+, {}; (?:mov\S+ \S+ \S+ )?@"        # goes on below that one
STEP = r"add\.s32 (%r\d+), \1, {}; (?:add\.\S+ \S+ \S+ \S+ )*setp\.lt\.[su]32 "
ROWS = "a block has 16 rows of 16 units, in one pass: half of its threads have two neighbours each"
SHARED = "a tile of stream-K that more blocks share, or that a block has no step of; no problem is known"


class Excuse(NamedTuple):
    """Of how many loops of a source the last lines have a pattern, and why they do not turn."""
    source: str
    count: int
    pattern: str
    why: str


EXCUSED = [Excuse(*row) for row in (
    ("attention/sdpa_fwd_wgmma.cu", 1, r"mbarrier\.try_wait",
     "the first queries are there when they are asked for"),
    ("norm/peer_(reduction|parts).cu", 4, r"ld\.relaxed\.sys\.global\.b64",
     "a place is as it is waited for where nobody else runs"),
    ("norm/(batch_norm|gen_stats)_.*", 2, r"add\.s32 (%r\d+), \S+ \S+ setp\.lt\.s32 %p\d+, \1, 16; ",
     "a team that merges the parts of a column has 16 threads or more, a block 16 warps"),
    ("grouped_matmul/grouped_matmul_(any|mma).cu", 3,
     r"st\.shared\.u32 .*setp\.(lt|ne)\.s32 [^@]*@\S+ bra \S+$",
     "a tile has no more rows than a block has threads"),
    ("conv/conv_fft_(rows|store).cu", 1, r"mov\.u16 %rs\d+, 0; st\.shared\.u16 .*setp\.lt",
     "what has no stages has one point"),
    ("(conv|matmul)/.*_wgmma.*.cu", 1, r"@fuse\.ahead .*" + NUMBER.format(0),
     "there are as many threads as lines to ask for in 64 rows, or more"),
    ("conv/conv_dgrad_wgmma.cu", 1, NUMBER.format(8), "a warp has one slice to add, or none"),
    ("((conv/conv_wgrad|conv/conv|matmul/matmul)_wgmma|conv/conv_wgmma_pieces).cu", 2, NUMBER.format(8),
     "a warp has one slice to add, or none"),
    ("conv/conv_wgrad_halo.cu", 2,
     r"st\.shared\.v4\.u32 \S+ \S+ \S+ \S+ \S+ add\.s32 (%r\d+), \1, %r\d+; setp\.lt\.s32 \S+ \1",
     "what is filled with zeros is fewer than 16 rows of eight vectors"),
    ("conv/conv_first.cu", 1, r"add\.s32 (%r\d+), \1, 64; sub\.s32 .*setp\.ge\.s32",
     "where there are two groups, the second begins no more than one turn of the tiles behind"),
    ("layout/transform_tma.cu", 2, STEP.format(16384), "a box has 16 KiB, four vectors of each thread"),
    ("matmul/matmul_small.cu", 1, STEP.format(32), "16 rows of two vectors are one for each lane"),
    ("(matmul/matmul_thin|(matmul/matmul|conv/conv)_wgmma).cu", 1, NUMBER.format(1),
     "no piece of a depth is empty"),
    ("conv/conv_wgmma_pieces.cu", 1, r"setp\.lt\.s32 (%p\d+), %r\d+, 1; .*@\1 bra \S+$",
     "no piece of a depth is empty"),
    ("matmul/matmul_wgmma_unaligned.cu", 1, r"cp\.async\.commit_group; // end inline asm @\S+ bra \S+$",
     "no piece of a depth is empty"),
    ("pointwise/pointwise_vector.cu", 1, r"add\.s64 (%rd\d+), \1, 8; add\.s64 (%rd\d+), \2, 1; setp\.lt",
     "of vectors of two one element is left"),
    ("rnn/rnn_pack.cu", 1, r"bra \S+ \S+: add\.s32 (%r\d+), \1, %r\d+; setp\.lt\.s32",
     "a backward pass has as many planes as matrices"),
    ("rnn/rnn_persist(_bwd)?.cu", 3, STEP.format(256) + "|" + STEP.format(4096), ROWS),
    ("rnn/rnn_persist(_bwd)?.cu", 1, r"st\.global\.v2\.u32 \S+ \S+ \S+ \S+: setp\.lt\.s32 [^@]*@\S+ bra \S+$",
     ROWS),
    ("softmax/softmax_fwd_packed.cu", 2, r"add\.s32 (%r\d+), \1, 512; setp\.lt",
     "a block of rows this short has 12 KiB, six vectors of each thread"),
    ("spatial/spatial_grid_bwd_split.cu", 1,
     r"sub\.f32 (%f\d+), \1, %f\d+; sub\.f32 .*add\.s64 .*setp\.lt\.s64",
     "an image of one row and one column has one point"),
    ("conv/conv_first.cu", 1, r"setp\.lt\.s32 \S+ %r\d+, %r\d+; mov\.u16 %rs\d+, 0; @\S+ bra \S+$",
     "lines of more than 128 chunks of packed pixels; no problem is known"),
    ("conv/conv_first.cu", 1, r"mbarrier",
     "several rows are free at once for the third filler; none is known"),
    ("conv/conv_first.cu", 1, r"wgmma\.commit.*setp\.ne\.s32 [^@]*@\S+ bra \S+$",
     "a number of pairs for which there is no copy of the loop, in another group; no problem is known"),
    ("conv/conv_first_wgrad.cu", 1, r"setp\.le\.s32",
     "a filler brings several lines of a row; none is known"),
    ("conv/conv_dgrad_wgmma.cu", 1, STEP.format(32),
     "elements of a tile that blocks of a cluster share; no problem is known"),
    ("conv/conv_wgrad_wgmma.cu", 1, r"setp\.ge\.s32 [^@]*@\S+ bra \S+$", SHARED),
    ("conv/conv_wgrad_wgmma.cu", 1, r"setp\.le\.s32 [^@]*@\S+ bra \S+$", SHARED),
    ("conv/conv_wgrad_wgmma.cu", 1, r"setp\.gt\.s32 \S+ \S+ 7; @\S+ bra \S+$", SHARED),
    ("conv/conv_wgrad_wgmma.cu", 1, r"setp\.lt\.s32 \S+ \S+ 1; @\S+ bra \S+$", SHARED),
)]


def turn(device, name: str) -> list[str]:
    """Run until all loops have turned, those that are excused left out; the findings, and which have not."""
    wrong = []
    for more in LINES.get(kernels.get(name).source, ()):
        if left := open_loops(device, name):
            wrong += run(device, name, more, left)
    return wrong + [f"{name}: the loop of lines {first} to {last} runs once only in every problem"
                    for first, last in open_loops(device, name)]


def run(device, name, more, left=None) -> list[str]:
    """The findings of the first of a problem's cases that turns a loop, and of those before it."""
    facts, wrong = device.facts, []
    card = replace(facts, sms=more.sms, l2_bytes=4096) if more.sms else facts
    line = more.line.format_map(kernels.get(name).axes)
    if more.is_fused:
        engine = cases(name, card)[0].engine
        return [str(uid) for uid in behind(device, engine, Problem.parse(line))]
    found = ([case for case, _ in every_case(name, card, [line]) if more.config in str(case.config)]
             if more.config else cases(name, card, [line]))
    wrong += [] if found else [f"{name}: {line} does not launch it"]
    for case in found:
        device.facts, device.seed = card, more.order
        with few_blocks(device, name, more.shares):
            outcome = watched.run(case.problem, device, 0, [case.engine], config=case.config,
                                  scalars=more.numbers(case.problem.op))
        device.facts, device.seed = facts, None
        wrong += [f"{case}: {text}" for text in outcome.findings]
        if left and open_loops(device, name) != left:
            break
    return wrong


def behind(device, engine, problem) -> list:
    """The differences of an engine's problem with bias, residual and ReLU behind it."""
    graph = fused.graph_of(problem)
    choice, values = fused.choice_of(engine, graph, device.facts, lambda config: True), fused.values_of(graph)
    want = graphs.run(graph, values, devices.get("numpy"))
    return graphs.differences(graph, graphs.execute(plan.made(choice, device), values), want)


@contextmanager
def few_blocks(device, name: str, blocks: int):
    """Launches of the kernel have so many blocks along x, where that is not 0: what takes any number of them
    takes these."""
    if not blocks:
        yield
        return
    launch = device.launch

    def cut(code, grid, *args, **more):
        return launch(code, (blocks, *grid[1:]) if code.program.name == name else grid, *args, **more)
    device.launch = cut
    try:
        yield
    finally:
        del device.launch


def open_loops(device, name: str) -> list:
    """(first, last line of the text) of the loops that have not turned and are not excused."""
    source, excused = kernels.get(name).source, Counter()
    lines = kernels.get(name).image_for(device.facts.sm).text().decode().splitlines()
    found = []
    for loop in loop_turns.still(device, name):
        end = " ".join(" ".join(lines[loop[1] - LAST:loop[1]]).split())
        row = next((row for row in EXCUSED if re.fullmatch(row.source, source)
                    and re.search(row.pattern, end) and excused[row] < row.count), None)
        if row:
            excused[row] += 1
        else:
            found.append(loop)
    return found
