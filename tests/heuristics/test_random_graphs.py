"""Random graphs and the listed ones against the NumPy device, on the kernels as they ship."""
from __future__ import annotations

import os

import pytest

from cydnn import device
from cydnn.heuristics import Wish
from cydnn.ops import ConvDgrad, ConvFprop, ConvWgrad, Matmul
from support.draw.dags import WIDE, check, dag

from .graphs import LISTED
from .test_choices import PAIRS, pair

SMOOTH = ("norm_add_relu", "silu", "softmax_of_scores", "three_outputs")
COUNT, FROM = int(os.environ.get("CYDNN_GRAPHS", "300")), int(os.environ.get("CYDNN_GRAPHS_FROM", WIDE))
PARTS = 60                                       # few graphs a part: a row of the record covers few sources


@pytest.mark.share(40)
@pytest.mark.parametrize("seed", range(80))
def test_on_the_interpreter(seed):
    graph, smooth = dag(seed)
    assert check(graph, smooth, device.get(f"ptx:sm_{(75, 80, 90)[seed % 3]}"), seed) == []


@pytest.mark.share(12)
@pytest.mark.parametrize("seed", range(WIDE, WIDE + 40))
def test_of_many_sizes_on_the_interpreter(seed):
    graph, smooth = dag(seed)
    assert check(graph, smooth, device.get("ptx:sm_90"), seed) == []


@pytest.mark.parametrize("seed", range(0, 80, 8))
def test_node_by_node_on_the_interpreter(seed):
    graph, smooth = dag(seed)
    assert check(graph, smooth, device.get("ptx:sm_80"), seed, Wish(mode="fallback")) == []


@pytest.mark.share(12)
@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90"])
def test_the_listed_graphs(name, target):
    assert check(LISTED[name](), name in SMOOTH, device.get(f"ptx:{target}"), 1) == []


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(PARTS))
def test_on_a_gpu(part, gpu, family_counts):
    """Every random graph as it is chosen, and every third node by node: small ones, and those of many sizes
    (``CYDNN_GRAPHS`` each, from seed ``CYDNN_GRAPHS_FROM``)."""
    count, wrong = {"problems": 0, "engine_runs": 0, "wrong": 0, "engines": {}}, []
    for seed in (*range(part, COUNT, PARTS), *range(FROM + part, FROM + COUNT, PARTS)):
        graph, smooth = dag(seed)
        for wish in [Wish()] + [Wish(mode="fallback")] * (seed % 3 == 0):
            texts = check(graph, smooth, gpu, seed, wish)
            count["problems"] += 1
            count["engine_runs"] += 1
            count["wrong"] += bool(texts)
            wrong += [f"seed {seed} {wish.mode}: {text}" for text in texts]
    family_counts[f"random graphs/{part}"] = count
    assert not wrong, "\n".join(wrong[:12])


@pytest.mark.gpu
@pytest.mark.parametrize("name", LISTED)
def test_the_listed_graphs_on_a_gpu(name, gpu):
    assert check(LISTED[name](), name in SMOOTH, gpu, 1) == []


# ---- Pairs of types: small whole numbers, so every sum is exact ----

def wrong_pairs(op_class, pairs, place) -> list:
    return [f"{read} -> {written}: {text}" for read, written in pairs
            for text in check(pair(op_class, read, written), False, place, 1)]


@pytest.mark.parametrize("op_class", [ConvFprop, ConvDgrad, ConvWgrad, Matmul], ids=lambda op: op.name)
def test_pairs_of_types_on_the_interpreter(op_class):
    assert not wrong_pairs(op_class, PAIRS[::7], device.get("ptx:sm_80"))


@pytest.mark.gpu
@pytest.mark.parametrize("op_class", [ConvFprop, ConvDgrad, ConvWgrad, Matmul], ids=lambda op: op.name)
def test_pairs_of_types_on_a_gpu(op_class, gpu):
    assert not wrong_pairs(op_class, PAIRS, gpu)
