"""Steps over elements of rows: what goes to the mark of the row, and what is left for its elements."""
from __future__ import annotations

import pytest

from cydnn.fusion import Rows, Site
from cydnn.graph import Graph, Node, Tensor
from cydnn.ops import Pointwise
from cydnn.steps import Pointer, Scalar
from cydnn.tensor import TensorDesc

DIMS = (2, 3, 4, 8)
KEYS = tuple((name, (axis,)) for axis, name in enumerate(("batch", "head", "row", "col")))
POINT = {mode: Pointwise(mode=mode) for mode in ("add", "sub", "mul", "tanh_fwd", "neg", "exp")}


def rows(lanes=1, **tensors) -> tuple[Rows, dict]:
    """Rows over scores, and the uid of each tensor of these dims."""
    uids = {name: uid for uid, name in enumerate(tensors, 10)}
    made = [Tensor(uid, TensorDesc.packed("f16", tensors[name])) for name, uid in uids.items()]
    made += [Tensor(1, TensorDesc.packed("f32", DIMS)), Tensor(2, TensorDesc.packed("f32", DIMS))]
    nodes = [Node(POINT["add"], dict(x=1, b=uid, y=100 + uid)) for uid in uids.values()]
    made += [Tensor(100 + uid, TensorDesc.packed("f32", DIMS)) for uid in uids.values()]
    graph = Graph([*nodes, Node(POINT["neg"], dict(x=1, y=2))], made)
    return Rows("f32", Site(DIMS, None, KEYS, "col", lanes), 3, graph), uids


def lines(fused) -> list:
    return [line for line in str(fused.program).splitlines() if line.startswith("n")]


def test_alibi_keeps_its_slope_and_its_row():
    """score + exp(slope) * (col - row): the slope is made once a row; an index is at hand."""
    r, uids = rows(slope=(1, 3, 1, 1))
    slope = r.step(POINT["exp"], [r.tensor(uids["slope"])])
    far = r.step(POINT["sub"], [r.index(3), r.index(2)])
    once, each = r.finish(r.step(POINT["add"], [r.element(), r.step(POINT["mul"], [slope, far])]))
    assert str(once.program).splitlines() == [
        "n0 = exp(t0)", "keep h0 = n0", "t0: f16 at head, one for all, 1 at once", "in f32, fast"]
    assert lines(each) == ["n0 = sub(@col, @row)", "n1 = mul(h0, n0)", "n2 = add(v, n1)"]
    assert once.pointers == (Pointer(10),) and each.pointers == () and each.program.result == "n2"


def test_a_bias_is_read_by_its_elements_and_a_mask_of_rows_once():
    r, uids = rows(lanes=2, bias=(1, 3, 4, 8), mask=(2, 1, 4, 1), one=(1, 1, 1, 1))
    value = r.step(POINT["mul"], [r.element(), r.number(Scalar("s", 0.5))], (None, 2.0))
    for name in uids:
        value = r.step(POINT["add"], [value, r.tensor(uids[name])])
    once, each = r.finish(value)
    assert once.program.kept == (("t0", "h0"), ("t1", "h1")) and once.pointers == (Pointer(11), Pointer(12))
    assert each.pointers == (Pointer(10),) and each.scalars == (Scalar("s", 0.5), 2.0)
    assert lines(each)[:3] == ["n0 = mul(v, s1 * s0)", "n1 = add(n0, t0)", "n2 = add(n1, h0)"]
    assert each.program.tensors[0].at.vector == 2


@pytest.mark.parametrize("axis, kept", [(2, True), (3, False)])
def test_an_index_is_made_where_its_dim_is(axis, kept):
    r, _ = rows()
    index = r.step(Pointwise(mode="gen_index", axis=axis), [r.element()])
    once, each = r.finish(r.step(POINT["add"], [r.element(), index]))
    assert (once is not None) == kept
    assert [s.inputs for s in each.program.steps][-1] == ("v", "h0" if kept else "n0")


def test_nothing_is_done_to_an_element_alone():
    r, _ = rows()
    assert r.finish(r.element()) == (None, None)
