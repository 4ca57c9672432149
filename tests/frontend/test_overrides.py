"""Overrides: other dims of a graph that was built are planned once, in its own engines and workspace."""
from __future__ import annotations

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import plan
from cydnn.frontend import overrides
from cydnn.status import BadParam

T, MODE = cudnn.data_type, cudnn.heur_mode


@pytest.fixture(params=["numpy", "ptx:sm_80"])
def device(request):
    number = cudnn.create_handle(request.param)
    yield number
    cudnn.destroy_handle(number)


def product(handle, rows=64, **options):
    """relu(a @ b + bias); uids 1, 2, 3 and 4."""
    g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                      handle=handle, **options)
    a, b, bias = (g.tensor([1, m, 64], [64 * m, 64, 1], uid=uid) for uid, m in ((1, rows), (2, 64), (3, 1)))
    g.relu(g.add(g.matmul(a, b), bias)).set_output(True).set_uid(4)
    g.build([MODE.A])
    return g


def of_rows(m, uid=1) -> dict:
    return dict(override_uids=[uid], override_shapes=[[1, m, 64]], override_strides=[[64 * m, 64, 1]])


def run(g, m, call=None, **options) -> bool:
    """The result for ``m`` rows is right."""
    a, b = (np.random.default_rng(n).integers(-3, 4, (1, n, 64)).astype(np.float16) for n in (m, 64))
    out = np.full((1, m, 64), np.nan, np.float16)
    space = np.empty(max(g.get_workspace_size(), 1), np.uint8)
    (call or g.execute)({1: a, 2: b, 3: np.ones((1, 1, 64), np.float16), 4: out}, space, **options)
    return bool((out == np.maximum(a.astype(np.float32) @ b.astype(np.float32) + 1, 0)).all())


def test_other_rows(device, monkeypatch):
    g, made = product(device), []
    monkeypatch.setattr(plan, "made", lambda *given, was=plan.made: made.append(given) or was(*given))
    for m in (40, 24, 40, 64):
        assert run(g, m, **of_rows(m))
        assert run(g, m, lambda pack, space, **kw: g.execute_plan_at_index(pack, space, 0, **kw),
                   **of_rows(m))
        rows = of_rows(m).values()
        assert g.get_workspace_size(device, *rows) <= g.get_workspace_size(device)
        assert g.get_workspace_size_plan_at_index(0, device, *rows) == g.get_workspace_size(None, *rows)
    assert len(made) == 2 and {choice.text for choice, _ in made} == {g.plan.choice.text}
    assert run(g, 64)                            # the graph is what it was


def test_packed_tokens(device):
    """Ragged rows of any batches, whose strides are those of an array (tokens, heads, numbers)."""
    g = cudnn.pygraph(io_data_type=T.HALF, intermediate_data_type=T.FLOAT, compute_data_type=T.FLOAT,
                      handle=device)
    n, h, d, s = np.int32([3, 2]), 2, 16, 4
    q, k, v = (g.tensor([2, h, rows, d], [s * h * d if k else h * d, d, h * d, 1], uid=uid)
               for k, (rows, uid) in enumerate([(8, 1), (s, 2), (s, 3)]))
    counts, at = (g.tensor([count, 1, 1, 1], data_type=T.INT32, uid=uid) for count, uid in ((2, 5), (3, 6)))
    q.set_ragged_offset(at)
    o, _ = g.sdpa(q, k, v, generate_stats=False, use_padding_mask=True, seq_len_q=counts, seq_len_kv=counts)
    o.set_output(True).set_uid(4).set_dim(q.get_dim()).set_stride(q.get_stride()).set_ragged_offset(at)
    g.build([MODE.A, MODE.FALLBACK])
    tokens, keys, values = (np.random.default_rng(i).random(dims).astype(np.float16)
                            for i, dims in enumerate([(5, h, d), (2, s, h, d), (2, s, h, d)]))
    out, starts = np.empty_like(tokens), np.int32([0, 3, 5])
    pack = {1: tokens, 2: keys, 3: values, 4: out, 5: n, 6: starts * h * d}
    space = np.empty(max(g.get_workspace_size(), 1), np.uint8)
    for rows in (8, s):
        out[:] = np.nan
        g.execute(pack, space, override_uids=[1, 4], override_shapes=[[2, h, rows, d]] * 2,
                  override_strides=[[h * d, d, 1]] * 2)
        for b, (start, end) in enumerate(zip(starts, starts[1:])):
            scores = np.exp(np.einsum("qhd,khd->hqk", tokens[start:end], keys[b, :n[b]], dtype=np.float32))
            want = np.einsum("hqk,khd->qhd", scores / scores.sum(2, keepdims=True), values[b, :n[b]])
            np.testing.assert_allclose(out[start:end], want, 4e-3, 4e-3)


def test_what_the_engines_do_not_take_is_chosen_anew(device, monkeypatch):
    """As where dims are not those that a kernel's loads need."""
    g = product(device, kernel_cache=cudnn.create_kernel_cache())
    parse = overrides.heuristics.parse
    monkeypatch.setattr(overrides.heuristics, "parse", lambda text, *given: parse("nonsense", *given))
    assert run(g, 40, **of_rows(40)) and len(g.kernel_cache) == 4           # lists of choices, and plans
    g.deselect_engines([":"])
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="overrides must leave a plan; got"):
        run(g, 24, **of_rows(24))


def test_a_plan_of_more_workspace_is_refused(device):
    g = product(device)
    if g.get_workspace_size():
        with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="bytes of workspace; the least is"):
            run(g, 4096, **of_rows(4096))


def test_dims_that_do_not_fit_are_refused_in_the_words_of_the_graph(device):
    g = product(device)
    with pytest.raises(BadParam, match="add.*dims"):
        run(g, 40, **of_rows(7, uid=3))
