"""The options of attention as rows of its scores: their order, and what each means."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn.ops import Sdpa, rows
from cydnn.ops.attention import scores
from cydnn.status import BadParam


def evaluated(made, extras=(), dims=(1, 1, 3, 4)):
    """(s, what the rows make of it)."""
    s = np.random.default_rng(0).normal(size=dims)
    at = dict(zip(("batch", "head", "row", "col"), np.indices(dims).astype(np.float64)))
    return s, rows.evaluate(made, dict(s=s, **at, **{f"e{i}": np.float64(e) for i, e in enumerate(extras)}))


def test_options_come_in_their_order_and_share_tensors():
    made, extras = scores(2, mask=700, bias=700, soft_cap=30, score_mod=((), ()), alibi=False)
    assert rows.text(Sdpa(score=made).score) == (
        "div(s,#30.0);tanh_fwd(n0);mul(n1,#30.0);add(n2,e0);binary_select(n3,#-inf,e0)")
    assert extras == (700,)


def test_a_callback_comes_first():
    made, extras = scores(2, bias=8, score_mod=(rows.parse("", "exp(e0);mul(e1,n0)"), (9, 9)), alibi=7)
    assert rows.text(made) == "exp(e0);mul(e1,n0);add(n1,e2);sub(col,row);mul(n3,e3);add(n2,n4)"
    assert extras == (9, 9, 8, 7)


@pytest.mark.parametrize("heads, slopes", [
    (8, [2.0 ** -i for i in range(1, 9)]), (1, [2.0 ** -8]),
    (6, [2.0 ** -2, 2.0 ** -4, 2.0 ** -6, 2.0 ** -8, 2.0 ** -1, 2.0 ** -3])])
def test_slopes_of_alibi(heads, slopes):
    """Those of the paper, also where heads are no power of two."""
    s, found = evaluated(scores(heads, alibi=True)[0], dims=(1, heads, 3, 4))
    way = np.arange(4.0) - np.arange(3.0)[:, None]
    np.testing.assert_allclose(found, s + np.reshape(slopes, (1, heads, 1, 1)) * way)


def test_cap_bias_and_mask_mean_what_they_say():
    mask = np.array([1, 0, 1, 1.0])
    s, found = evaluated(scores(1, soft_cap=2, bias="b", mask="m")[0], [0.5, mask])
    np.testing.assert_allclose(found, np.where(mask, 2 * np.tanh(s / 2) + 0.5, -np.inf))


def test_an_unknown_option_is_refused():
    with pytest.raises(BadParam, match="sdpa: score must have the options score_mod soft_cap .*; got 'cap'"):
        scores(1, cap=1.0)
