"""Matmul engines without a GPU: refusals, launches that pack, and the kernels' index
arithmetic followed in NumPy."""
from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest

from cydnn import device, kernels
from cydnn.device.facts import KNOWN
from cydnn.engines import BY_INDEX
from cydnn.engines.matmul import simt as matmul_simt
from cydnn.engines.tile.simt import TILES
from cydnn.fusion import splice
from cydnn.graph import Graph, Match, Node, Tensor
from cydnn.heuristics import candidates
from cydnn.ops import Matmul, Pointwise
from cydnn.ops.problem import Problem
from cydnn.tensor import TensorDesc
from support.draw import graphs
from support.check import matrix
from support.draw.alone import match, steps
from support.draw import draw

H200, T4 = KNOWN["h200"], KNOWN["t4"]
SIMT, MMA, CONV = (BY_INDEX[i] for i in (199, 190, 109))


def flat(values, desc):
    memory = np.full(max(desc.extent, 1), np.nan)
    view = np.lib.stride_tricks.as_strided(memory, desc.dims, [8 * s for s in desc.strides])
    if values is not None and desc.count:
        view[...] = values
    return memory, view


def batch_offsets(a):
    """batch_offsets of batch.cuh for every matrix: (a, b, c)."""
    index, out = np.arange(a["batches"]), np.zeros((3, a["batches"]), int)
    for i, by in enumerate(a["batch"]):
        out += np.array([index % by * a[f"{name}_batch"][i] for name in "abc"])
        index = index // by
    return out


def check_simt(a, offsets, base, form, row_step, k_step, rows, depth):
    """Every vector is four neighbours from a multiple of 4 on, and none straddles the end."""
    if form == matmul_simt.ROW_VECTORS:
        assert row_step == 1 and rows % 4 == 0 and k_step % 4 == 0 and (base % 4 == 0).all()
    if form == matmul_simt.DEPTH_VECTORS:
        assert (k_step == 1 and depth % 4 == 0 and row_step % 4 == 0
                and (base % 4 == 0).all() and a["split_k"] % 4 == 0)


def follow(launch, values, problem):
    """What the product (and the sum) compute, from the arguments alone."""
    a = launch.args
    (fa, _), (fb, _), (fc, view) = (flat(values["a"], problem.operands["a"]),
                                    flat(values["b"], problem.operands["b"]),
                                    flat(None, problem.operands["c"]))
    offsets = batch_offsets(a)
    row, col, depth = np.arange(a["m"]), np.arange(a["n"]), np.arange(a["k"])
    if "a_form" in a:
        a_m, a_k, b_k, b_n = (a[key] for key in ("a_m", "a_k", "b_k", "b_n"))
        check_simt(a, offsets, offsets[0], a["a_form"], a_m, a_k, a["m"], a["k"])
        check_simt(a, offsets, offsets[1], a["b_form"], b_n, b_k, a["n"], a["k"])
    else:
        a_m, a_k = (a["a_step"], 1) if "_ak_" in launch.kernel else (1, a["a_step"])
        b_n, b_k = ((b_step, 1) if (b_step := a["b_step"]) is not None and launch.kernel.endswith("_bk")
                    else (1, a["b_step"]))
        assert (a["a_step"] % 8 == 0 and a["b_step"] % 8 == 0 and (offsets[:2] % 8 == 0).all()
                and a["split_k"] % 64 == 0)
        if a["c_vectors"]:
            assert a["n"] % 8 == 0 and a["c_n"] == 1 and a["c_m"] % 8 == 0 and (offsets[2] % 8 == 0).all()
    for o_a, o_b, o_c in offsets.T:
        total = np.zeros((a["m"], a["n"]))
        for begin in range(0, max(a["k"], 1), a["split_k"]):
            k = depth[begin:begin + a["split_k"]]
            total += fa[o_a + row[:, None] * a_m + k * a_k] @ fb[o_b + k[:, None] * b_k + col * b_n]
        fc[o_c + row[:, None] * a["c_m"] + col * a["c_n"]] = total
    return view


@pytest.mark.parametrize("engine", [SIMT, MMA], ids=lambda e: e.name)
@pytest.mark.parametrize("seed", range(80))
def test_index_arithmetic_gives_the_reference(engine, seed):
    rng = random.Random(seed)
    problem = draw(Matmul, rng)
    while len({d.dtype for d in problem.descs}) > 1 or not engine.accepts(match(problem), H200):
        problem = draw(Matmul, rng)
    p = match(problem)
    gen = np.random.default_rng(seed)
    values = {n: gen.integers(-3, 4, d.dims).astype(float) for n, d in problem.operands.items()}
    launches = steps(engine, p, H200)
    want = problem.op.reference(values["a"], values["b"])["c"]
    np.testing.assert_array_equal(follow(launches[0], values, problem), want)
    for launch in launches:
        packed = kernels.get(launch.kernel).pack(launch.args, **launch.extra)
        if launch.kernel.startswith("matmul_sum"):
            assert packed.grid[0] * 256 >= problem.operands["c"].count
            continue
        tile = (next((TILES[t][:2] for t in TILES if launch.kernel.endswith(t)), None)
                or (kernels.get(launch.kernel).axes["TILE"],) * 2)
        per_matrix = prod(-(-s // t) for s, t in zip((launch.args["m"], launch.args["n"]), tile))
        assert packed.grid[0] == per_matrix * launch.args["batches"] * launch.extra["splits"]
        assert launch.extra["splits"] * launch.args["split_k"] >= launch.args["k"]


def test_panels_fill_a_stage_once():
    """panel_mma.cuh: the threads' chunks are the whole operand, each once, in different
    banks where 8 lanes write together."""
    for rows in (128, 64):
        for k_major in (True, False):
            chunks, lines = (8, rows) if k_major else (rows // 8, 64)
            apart = 128 // chunks
            t = np.arange(128)
            line, chunk = t // chunks, t % chunks
            at = line * chunks * 16 + ((chunk ^ (line & 7)) << 4)
            every = np.concatenate([at + i * apart * chunks * 16 for i in range(lines // apart)])
            assert sorted(every) == list(range(0, rows * 64 * 2, 16))
            assert all(len(set(phase // 16 % 8)) == 8 for phase in at.reshape(-1, 8))


def test_bands_visit_every_tile_once():
    """The order of matmul_mma's tiles."""
    for tiles_m, tiles_n in ((1, 1), (7, 3), (8, 5), (19, 4), (33, 2)):
        index = np.arange(tiles_m * tiles_n)
        band = index // (8 * tiles_n)
        rows = np.minimum(8, tiles_m - 8 * band)
        inside = index - band * 8 * tiles_n
        assert len({*zip(8 * band + inside % rows, inside // rows)}) == tiles_m * tiles_n
        assert (8 * band + inside % rows).max() < tiles_m and (inside // rows).max() < tiles_n


@pytest.mark.parametrize("shape", ["t128x128", "t128x64", "t64x64", "t32x32"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_simt_threads_cover_the_tile_once(shape, dtype):
    """operand_simt.cuh and tile/simt.cuh: who loads, multiplies and stores what."""
    m, n = TILES[shape][:2]
    k = {"t128x128": 8, "t128x64": 8 if dtype == "f64" else 16, "t64x64": 16, "t32x32": 32}[shape]
    t = np.arange(256)
    for rows in (m, n):
        e = rows * k // 256
        v = min(e, 4)
        lanes = {matmul_simt.ALONG_ROWS: (t % rows, t // rows * e),
                 matmul_simt.ALONG_DEPTH: (t // (k // e), t % (k // e) * e)}
        for row, k0 in lanes.values():
            assert (len({(r, d + i) for r, d in zip(row, k0) for i in range(e)}) == rows * k
                    and row.max() < rows and k0.max() + e == k)
        row, k0 = t % (rows // v) * v, t // (rows // v) * (e // v)
        assert len({(r + j, d + i) for r, d in zip(row, k0)
                    for i in range(e // v) for j in range(v)}) == rows * k
    tm, tn = t // 64 * 4 + t % 32 // 8, t // 32 % 2 * 8 + t % 8
    fm, fn = m // 16, n // 16
    wm, wn = min(fm, 4), min(fn, 4)
    mine = {(i // wm * 16 * wm + a * wm + i % wm, j // wn * 16 * wn + b * wn + j % wn) for a, b in zip(tm, tn)
            for i in range(fm) for j in range(fn)}
    assert mine == {(i, j) for i in range(m) for j in range(n)}
    for wide, across in ((wn, fn), (wm, fm)):                       # drain: chunk c, line w
        assert ({c // wide * 16 * wide + w * wide + c % wide for c in range(across) for w in range(16)}
                == set(range(16 * across)))


@pytest.mark.parametrize("engine, text, sentence", [
    (SIMT, "matmul 4x4 4x4 i8", "a must be one of f64 f32 f16 bf16; got i8"),
    (SIMT, "matmul 4x4 4x4 f16 acc=f64", "compute must be f32 for f16 tensors; got f64"),
    (MMA, "matmul 4x4 4x4 f32", "a must be one of f16 bf16 "),
    (MMA, "matmul a=4x4:f16 b=4x4:bf16 c=4x4:f32", "operands must be held by one 16-bit type; got bf16 f16"),
    (MMA, "matmul 64x60 60x64 f16",
     "a must have one contiguous matrix dim and strides that are multiples of 8 (16-byte loads); "
     "got strides (60, 1)"),
    (MMA, "matmul 64x64 64x64 f16 align=8", "a must be aligned to 16 bytes; got 8"),
    (SIMT, "matmul 3000000000x1 1x2 f16", "m must be at most 2147482624; got 3000000000"),
])
def test_refusals(engine, text, sentence):
    reasons = list(engine.refuse(match(Problem.parse(text)), H200))
    assert any(reason.startswith(sentence) for reason in reasons), reasons


def test_mma_needs_sm_80():
    assert "needs sm_80 or newer; device is sm_75" in list(
        MMA.refuse(match(Problem.parse("matmul 64x64 64x64 f16")), T4))


def test_empty_products():
    assert steps(SIMT, match(Problem.parse("matmul 0x4 4x4 f32")), H200) == []
    [launch] = steps(SIMT, match(Problem.parse("matmul 4x0 0x4 f32")), H200)
    assert kernels.get(launch.kernel).pack(launch.args, **launch.extra).grid[0] == 1


@pytest.mark.parametrize("line", ["matmul a=3x0:i8 b=0x5:i8 c=3x5:f32", "matmul 0x4 4x5 i8",
                                  "matmul 2x4 4x0 f16"])
def test_empty_operands_in_another_type(line):
    """What is copied has no element; what is written has zeros, or none."""
    found = matrix.run(Problem.parse(line), device.get("ptx:sm_80"), seed=3)
    assert not found.findings and found.ran


@pytest.mark.parametrize("engine", [SIMT, MMA], ids=lambda e: e.name)
def test_skinny_products_are_split(engine):
    launches = steps(engine, match(Problem.parse("matmul 16x8192 8192x512 f16")), H200)
    assert len(launches) == 2 and launches[0].extra["splits"] > 1
    packed = [kernels.get(s.kernel).pack(s.args, **s.extra) for s in launches]
    assert packed[0].grid[0] >= 64


def test_many_batches_fold_into_the_grid():
    [launch] = steps(SIMT, match(Problem.parse("matmul 100000x2x3 100000x3x4 f32")), H200)
    assert kernels.get(launch.kernel).pack(launch.args, **launch.extra).grid == (100000, 1, 1)


# ---- Fusion, here for every engine of the family that has marks ----

def fused(text, middle="f32"):
    """The match of an op whose virtual output passes a bias and a relu."""
    problem = Problem.parse(text)
    op, descs = problem.op, problem.operands
    uids = {name: i + 1 for i, name in enumerate(op.operands())}
    out = descs[op.writes[0]]
    channel = out.rank - 1 if op.name == "matmul" else 1
    bias = TensorDesc.packed(out.dtype, [d if i == channel else 1 for i, d in enumerate(out.dims)])
    tensors = [Tensor(uids[n], descs[n]) for n in op.reads] + [
        Tensor(3, out.replace(dtype=middle), "virtual"), Tensor(10, bias),
        Tensor(11, out.replace(dtype=middle), "virtual"), Tensor(12, out)]
    nodes = [Node(op, uids), Node(Pointwise(mode="add"), dict(x=3, b=10, y=11)),
             Node(Pointwise(mode="relu_fwd"), dict(x=11, y=12))]
    graph = Graph(nodes, tensors)
    return Match.around(graph, 0, 0b111)


@pytest.mark.parametrize("engine, text",
                         [(SIMT, "matmul 64x256 256x64 f32"), (SIMT, "matmul 16x8192 8192x64 f16"),
                          (MMA, "matmul 64x256 256x64 f16"), (MMA, "matmul 16x8192 8192x64 bf16"),
                          (CONV, "conv_fprop n2c8h8w8 k8r3s3 pad1 f32"),
                          (CONV, "conv_fprop n2c8h8w8 k8r3s3 pad1 f64 nhwc")])
def test_a_bias_and_a_relu_are_spliced(engine, text):
    p = fused(text, "f64" if "f64" in text else "f32")
    assert list(engine.reasons(p, H200)) == []
    launches = steps(engine, p, H200)
    assert [set(s.fuse) for s in launches] == [set()] * (len(launches) - 1) + [{"epilogue"}]
    assert launches[-1].args["c" if engine is not CONV else "y"].uid == 12
    kernel = kernels.get(launches[-1].kernel)
    plain = kernel.image_for(90).text()
    spliced = splice(plain, kernel, launches[-1].fuse)
    assert len(spliced) > len(plain) and b"@fuse.epilogue" not in spliced


@pytest.mark.parametrize("index", [189, 190])
def test_a_depth_with_a_mask_behind_it_is_whole(index):
    """The sum of the splits would write eight booleans of a byte one after the other."""
    packed = TensorDesc.packed
    graph = Graph([Node(Matmul(), dict(a=1, b=2, c=3)), Node(Pointwise(mode="cmp_gt"), dict(x=3, b=4, y=5))],
                  [Tensor(1, packed("f16", (16, 4096))), Tensor(2, packed("f16", (4096, 24))),
                   Tensor(3, packed("f32", (16, 24)), "virtual"), Tensor(4, packed("f16", (16, 24))),
                   Tensor(5, packed("bool", (16, 24)))])
    p, engine = Match.around(graph, 0, 0b11), BY_INDEX[index]
    assert engine.accepts(p, H200) and {config.splits for config in engine.configs(p, H200)} == {1}
    assert len(steps(engine, p, H200, engine.best(p, H200))) == 1


# ---- Heads that share keys ----

@pytest.mark.parametrize("line, count", [
    ("matmul a=2x6x40x64:f16 b=2x2x64x48:f16", 5), ("matmul a=3x2x33x7:f32 b=3x8x7x5:f32", 2),
    ("matmul a=4x6x9x16:f16@7680,160,16,1 b=2x3x16x24:f16@1152,384,1,16", 4)])
def test_batch_dims_of_which_one_is_a_multiple(line, count):
    outcome = matrix.run(Problem.parse(line), device.get("ptx:sm_90"), 1)
    assert not outcome.findings and len(outcome.ran) == count, outcome


def test_what_stands_in_front_of_shared_keys_is_fused():
    """An index along the heads of the keys, and a factor."""
    keys, virtual = (2, 2, 5, 6), lambda uid: Tensor(uid, TensorDesc.packed("f32", keys), "virtual")
    stored = {1: (2, 6, 4, 5), 2: keys, 3: (1, 2, 1, 6), 4: (2, 6, 4, 6)}
    nodes = [Node(Pointwise(mode="gen_index", axis=1), dict(x=2, y=5)),
             Node(Pointwise(mode="add"), dict(x=2, b=5, y=6)),
             Node(Pointwise(mode="mul"), dict(x=6, b=3, y=7)), Node(Matmul(), dict(a=1, b=7, c=4))]
    graph = Graph(nodes, [*(Tensor(u, TensorDesc.packed("f16", d)) for u, d in stored.items()),
                          *map(virtual, (5, 6, 7))])
    values = {u: np.random.default_rng(u).normal(size=d) for u, d in stored.items() if u < 4}
    want, got = (graphs.run(graph, values, device.get(name))[4] for name in ("numpy", "ptx:sm_80"))
    np.testing.assert_allclose(got, want, atol=4e-3 * np.abs(want).max())
    assert candidates(graph, H200)[0].text.startswith("part 0 1 2 3: 180")
