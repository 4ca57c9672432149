"""Are the checks any good? Mutants of shipped PTX must be found: every dropped barrier
and wait, and nine of ten others.

tools/mutate_ptx.py does the same with more mutants and more cases; its record is lab/records/mutation.md.
"""
from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.device.ptx import Finding, PtxDevice
from lab import mutants, mutation, mutation_report, sampling
from support.draw import neighbours, streamed, variants
from support.draw.cases import every_case

import test_hopper
import watched

SYNCHRONISED = [n for n in variants.smallest()
                if re.search("bar|wait", text := variants.text_of(n))    # else none can be dropped
                and any(m.kind in mutants.SYNC for m in mutants.mutants(text, n))]


# Blocks of these stay and take tile after tile: where there are few of them, small problems make them.
THIN, KEPT = "matmul/matmul_thin.cu", "conv/conv_wgmma_kept.cu"
STAYING = ("matmul/matmul_wgmma.cu", "conv/conv_wgmma.cu", "conv/conv_dgrad_wgmma.cu",
           "conv/conv_halo.cu", "conv/conv_wgmma_tall.cu", KEPT)


# Deeper than twice the stages of the ring, so that the last one is taken again; more rows of an image whose
# pixels are packed than a ring of events has; seven tiles of a block that has three stages, nine of a
# warpgroup that has six.
ROWS = "conv_fprop n1c3h45w10 k24r2s3 f16 nhwc"
DEEP = {"conv_first_T": ROWS, "conv_first_T_pairs": ROWS,
        "conv_wgrad_wgmma_T_64x128": "conv_wgrad n1c64h34w34 k136r1s1 f16 nhwc",
        "conv_dgrad_wgmma_T_64x128": "conv_dgrad n1c40h9w9 k1216r1s1 stride2 f16 nhwc",
        "conv_halo_T_ak": "conv_fprop n14c8h17w28 k8r2s1 dilation=9,1 f16 nhwc",
        "conv_wgmma_kept_T_64_bk": "conv_fprop n1c8h72w64 k64r1s1 f16 nhwc"}
# What keeps a warpgroup from the stage of a tile that is not its own shows where loads come in any order, and
# what keeps a warp from a box that is on its way where it is sent behind others.
SHUFFLED = ("conv_halo_T_ak", "conv_wgmma_T_192x128_bk")


def kin(name) -> str:
    """The name of f16 and bf16: which of the two has the smaller image is chance."""
    return re.sub("_b?f16", "_T", name)


def ready(name, more=0, lazily=False) -> mutation.Mutation:
    device = watched.PtxDevice(debug.target_of(kernels.get(name)))
    line = DEEP.get(kin(name), "").replace(" f16", f" {kernels.get(name).axes.get('T')}")
    if kernels.get(name).source in STAYING or line:
        device.facts = replace(device.facts, sms=2)
    device.seed = 1 if kin(name) in SHUFFLED else None
    every = every_case(name, device.facts) if kernels.get(name).source in STAYING else ()
    teams = [case for case, _ in every if "cluster_k=2" in str(case.config)]
    deep = debug.every_case(name, device.facts, [line]) if line else ()
    alone = [case for case, _ in deep
             if not case.config or case.config.get("splits", 1) == case.config.get("cluster_k", 1) == 1]
    rare = mutation.behind(name, device.facts) if kernels.get(name).source in (*streamed.TILED, KEPT) else []
    first = rare + teams[:2] + alone[:1] + mutation.contract_cases(name, device.facts)
    return mutation.Mutation(name, device, first, mutation.more_cases(name, device.facts, more), budget=1e9,
                             lazily=lazily)


# simt_main waits for tables; a matrix product has none.
NEEDLESS = {"matmul_any_i32_t32x32": ["bar.sync 0;"],
            "softmax_bwd_grid_f32": ["bar.sync 0;"],
            # Who fills lines has one of each eight rows at least, and waits there for all before: not so in
            # the others. A lane that is rows behind the one that gives them back is in no order of warps.
            "conv_first_f16": ["mbarrier.try_wait.parity.shared::cta.b64 p, [%r], %r;", "bar.warp.sync -1;"]}


def needless(name) -> list:
    """What nothing depends on, in the order of the text. A warpgroup that has 64 columns of a tile has one
    slice, before which nothing was there; what a block orders before it tells at its end matters to nobody;
    a thin product sends no boxes for which it would wait. Parts of a tile are added behind the meeting of all
    blocks, when boxes have long left; of these tiles a warp adds one unit, so that it waits for itself where
    it has nothing to wait for."""
    kernel, found = kernels.get(name), list(NEEDLESS.get(name, ()))
    size = kernel.axes.get("TILE_M"), kernel.axes.get("TILE_N")
    if kernel.source in STAYING and size in ((128, 64), (64, 128)):
        found.append("bar.warp.sync -1;")
    if kernel.source in streamed.LINES:
        found += ["cp.async.bulk.wait_group.read 0;", "bar.sync %r, 128;", *["bar.warp.sync -1;"] * 3,
                  "bar.sync 3, 256;", "bar.warp.sync -1;"]
    return found + (["bar.sync 3, 256;", "cp.async.bulk.wait_group.read 0;"] if kernel.source == THIN else [])


# The problems of these contracts do not reach every barrier or wait yet, or their threads meet elsewhere.
UNSEEN = """batch_norm_bwd_ring_f32_1 batch_norm_grid_f32_8 batch_norm_ring_f32_1
    conv_dgrad_few_T_r8 conv_first_T_pairs conv_wgrad_wgmma_T_128x64
    matmul_wgmma_unaligned_T_ak_bk rnn_persist_bwd_f32_vanilla_1x2_1 rnn_persist_f32_vanilla_1x2""".split()


def known(names, unseen, **more):
    """Names, those of ``unseen`` marked: their test is to fail until it is mended."""
    mark = pytest.mark.xfail(strict=True, run=sampling.ALL, reason="its problems do not show every fault yet",
                             **more)
    return [pytest.param(n, marks=mark) if {n, kin(n)} & {*unseen} else n for n in names]


def test_kernels_that_are_named_apart_are_tried():
    """Which image of a source is the smallest may change; what is said of one is then said of none."""
    tried = {name for kernel in (*SYNCHRONISED, *TILES) for name in (kernel, kin(kernel))}
    assert {*DEEP, *SHUFFLED, *NEEDLESS, *UNSEEN} <= tried


@pytest.mark.share(12)
@pytest.mark.parametrize("name", known(SYNCHRONISED, UNSEEN))
def test_dropped_barriers_and_waits(name):
    """All of them ran, and all are found."""
    with watched.watching():
        made = ready(name, lazily=True)
        idle = made.reach(mutants.SYNC, mutation.staying(name, made.device.facts))
        assert not idle, f"did not run: {[f'{m.line}: {m.old}' for m in idle]}"
        score = made.score([m for m in made.every if m.kind in mutants.SYNC])
    alive = [f"{name}:{v.mutant.line}: {v.mutant.old}" for v in score.alive]
    assert [re.sub(r"%r\d+", "%r", v.mutant.old) for v in score.alive] == needless(name), (
        f"nothing depends on {alive}")


OTHERS = ["transform_transpose_f64_f64", "pooling_fwd_any_f32_avg", "conv_wgrad_mma_sum_f16",
          "conv_depthwise_wgrad_f32", "softmax_bwd_strided_f32_4_1", "batch_norm_bwd_apply_columns_f64_1_1"]


def test_other_mutants():
    """Nine of ten of a sample; the same ones every time."""
    with watched.watching():
        scores = [(made := ready(name, 12)).score(made.sample(10, 0)) for name in OTHERS]
    killed, every, *_ = mutation_report.totals(scores)
    assert every >= 9 * len(OTHERS) and killed >= mutation_report.BAR * every, (
        mutation_report.markdown(scores, "this test"))


SYNCS = ("dropped barrier", "dropped wait", "dropped arrival",
         "dropped initialisation", "dropped copy", "dropped wgmma")
HOPPER = [m for m in mutants.mutants(test_hopper.TEXT, "wg_gemm") if m.kind in SYNCS]


@pytest.mark.parametrize("mutant", HOPPER, ids=lambda m: f"{m.kind} {m.line}")
def test_synchronisation_of_hopper(mutant):
    """TMA, mbarrier and wgmma: nothing of the pipeline may be missing. A dropped wgmma is a wrong value."""
    try:
        assert test_hopper.gemm(PtxDevice("sm_90a"), 100, 72, 200, text=mutant.text)[0] > 1e-3
    except Finding as found:
        assert mutant.kind != "dropped wgmma", found


TILES = ("matmul_wgmma_bf16_64x128_ak_bk", "conv_wgmma_f16_128x64_bk", "conv_dgrad_wgmma_bf16_64x128",
         "conv_wgrad_wgmma_f16_64x128", "conv_halo_bf16_ak", "conv_wgmma_kept_f16_64_bk",
         "conv_wgmma_f16_192x128_bk", "matmul_wgmma_bf16_128x256_ak_bn", "matmul_wgmma_unaligned_f16_ak_bk")
MORE = ("dropped commit", "dropped fence", "wrong count", "stuck phase")


def ends(found) -> list:
    """Those of initialisations that are alike, one a stage: the first and the last of each kind."""
    unrolled = lambda m: m.old.startswith("mbarrier.init")
    each = [[m for m in found if unrolled(m) and m.kind == kind] for kind in {m.kind for m in found}]
    return [m for m in found if not unrolled(m)] + [m for some in each for m in some[:1] + some[1:][-1:]]


@pytest.mark.share(1)
@pytest.mark.parametrize("name", TILES)
def test_synchronisation_of_the_tile_program(name):
    """Of the ring of stages nothing may be missing. Barriers and waits are dropped above."""
    with watched.watching():
        made = ready(name)
        dropped = ends([m for m in made.mutants if m.kind in {*SYNCS, *MORE} - {*mutants.SYNC}])
        score = made.score(dropped)
    assert len(score.verdicts) == len(dropped) > 15 and {m.kind for m in dropped} >= {*MORE[2:]}
    alive = [f"{v.mutant.line}: {v.mutant.old}" for v in score.alive]
    assert not alive


# ---- The mutants themselves ----

BODY = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a) { // bar.sync 0; in a comment
 .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .shared .align 4 .b8 s[64];
 ld.param.u64 %rd1, [a];
 setp.lt.s32 %p1, %r1, 5;
 @!%p1 bra LOOP;
LOOP: bar.sync 0;
 @%p1 st.shared.v2.f32 [%r2+8], {%f1, %f2};
 min.s32 %r3, %r4, 7;
 shr.s32 %r5, %r3, 31; shr.u32 %r6, %r5, 29; add.s32 %r7, %r3, %r6;
 cp.async.wait_group 1;
 atom.release.gpu.global.add.u32 %r5, [%rd1], %r6;
 sub.f32 %f1, %f2, 0f00000000; add.f32 %f1, 0f00000000, %f2;
 ret;
}
.visible .entry other() { bar.sync 0; ret; }
"""
WANTED = [(7, "flipped comparison", "setp.le.s32 %p1, %r1, 5;"),
          (7, "constant + 1", "setp.lt.s32 %p1, %r1, 6;"), (8, "dropped guard", "bra LOOP;"),
          (8, "dropped branch", ""), (9, "dropped barrier", ""), (10, "dropped store", ""),
          (10, "dropped guard", "st.shared.v2.f32 [%r2+8], {%f1, %f2};"),
          (10, "address + 1", "@%p1 st.shared.v2.f32 [%r2+16], {%f1, %f2};"),
          (11, "min for max", "max.s32 %r3, %r4, 7;"), (11, "constant + 1", "min.s32 %r3, %r4, 8;"),
          (13, "dropped wait", ""), (14, "dropped store", ""),
          (14, "weaker order", "atom.relaxed.gpu.global.add.u32 %r5, [%rd1], %r6;"),
          (14, "narrower scope", "atom.release.cta.global.add.u32 %r5, [%rd1], %r6;"),
          (14, "address + 1", "atom.release.gpu.global.add.u32 %r5, [%rd1+4], %r6;")]


def test_mutants_of_a_text():
    found = list(mutants.mutants(BODY, "k"))
    assert [(m.line, m.kind, m.new) for m in found] == WANTED
    for m in found:
        assert m.text.count("\n") == BODY.count("\n") and (m.new in m.text) and m.text != BODY


@pytest.mark.parametrize("name", kernels.names()[::60])
def test_every_instruction_is_a_statement(name):
    """The scanner of the mutants and the interpreter see the same instructions."""
    text = variants.text_of(name)
    device = PtxDevice(debug.target_of(kernels.get(name)))
    code = device.code(name)
    words = lambda t: re.sub(r"^@!?%\w+\s+", "", " ".join(t.split())).split(" ")[0]
    assert [s.opcode for s in mutants.statements(text, name)] == [words(i.text) for i in code.instructions]


def test_lines_of_a_spliced_kernel():
    """Where the splicer has put in lines, the lines that ran are still those of the shipped text."""
    name = "pointwise_vector_f32"
    with watched.watching():
        made = ready(name)
    lines = {i: text for i, text in enumerate(made.text.splitlines(), 1)}
    ran = [lines[i] for i in sorted(made.lines)]
    assert (any("st.global" in text for text in ran) and all(text.strip().endswith(";") for text in ran)
            and made.lines < set(lines))


def test_near_problems_launch_the_kernel():
    name = "softmax_bwd_warp_f32_8"
    cases = list(islice(neighbours.near(name, watched.PtxDevice("sm_80").facts, 20), 20))
    assert len({str(c.problem) for c in cases}) >= 15 and {c.kernel for c in cases} == {name}
