"""Graphs as text, plans as bytes, keys: the same in every process."""
from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam

from .conftest import floats

T = cudnn.data_type


def make(name="", last="relu", **options):
    """A graph with something of everything, its inputs and its output."""
    g = cudnn.pygraph(io_data_type=T.FLOAT, intermediate_data_type=T.DOUBLE, compute_data_type=T.FLOAT,
                      name=name, **options)
    x = g.tensor([2, 4, 6, 6], [144, 1, 24, 4], uid=0, name=name + "x").set_alignment(4)
    w = g.tensor([4, 4, 3, 3], [36, 1, 12, 4])
    n = g.tensor([1], [1], T.HALF, is_pass_by_value=True)
    conv = g.conv_fprop(x, w, [1, 1], [1, 1], [1, 1])
    scaled = g.mul(conv, n, compute_data_type=T.DOUBLE, name=name + "scaled")
    flat = g.add(g.tensor([6], [1], uid=-3), n)
    y = g.add(getattr(g, last)(scaled), g.tensor_scalar(2.5, cudnn.scalar_type.COMPILE_TIME_CONST))
    return g, (x, w, n), (y.set_output(True).set_uid(40), flat.set_output(True))


def results(g, inputs, outputs, handle=None):
    rng = np.random.default_rng(0)
    x, w, n = inputs
    pack = {x: rng.normal(size=(2, 6, 6, 4)).astype(np.float32),
            w: rng.normal(size=(4, 3, 3, 4)).astype(np.float32), n: 0.5,
            -3: np.arange(6, dtype=np.float32)}
    out = [np.empty((2, 6, 6, 4), np.float32), np.empty(6, np.float32)]
    g.execute({**pack, **dict(zip(outputs, out))}, np.empty(g.get_workspace_size(), np.uint8), handle=handle)
    return out


def test_a_graph_is_read_from_its_text(handle):
    """Before anything is checked, and after it is built; what was set and what was left open stay so."""
    g, inputs, outputs = make(handle=handle)
    early = repr(g)
    g.build([cudnn.heur_mode.A])
    want = results(g, inputs, outputs)
    for text in (early, repr(g)):
        assert json.loads(text)["nodes"][0]["op"] == "conv_fprop"
        again = cudnn.pygraph(handle=handle)
        again.deserialize(text)
        assert again.query_tensor_attributes_of_uid(0).get_alignment() == 4
        again.build([cudnn.heur_mode.A])
        assert again.key() == g.key()
        for a, b in zip(results(again, inputs, outputs), want):
            np.testing.assert_array_equal(a, b)


def test_a_text_keeps_everything(handle):
    g = floats(handle=handle)
    offsets = g.tensor([3, 1], [1, 1], T.INT32)
    g.relu(g.tensor([2, 4], [4, 1], T.INT8x4, ragged_offset=offsets, ragged_offset_multiplier=3,
                    reordering_type=cudnn.tensor_reordering.INT8x32),
           upper_clip=np.float32(6)).set_output(True)
    again = cudnn.pygraph(handle=handle)
    again.deserialize(repr(g))
    assert again.key() == g.key() and repr(again) == repr(g)


def test_a_plan_is_read_from_its_bytes(handle):
    g, inputs, outputs = make(handle=handle)
    g.build([cudnn.heur_mode.A])
    data = g.serialize()
    assert isinstance(data, list) and set(map(type, data)) == {int} and max(data) < 256
    for args in ((bytes(data),), (data,), (handle, bytearray(data))):
        again = cudnn.pygraph(handle=handle if len(args) == 1 else None)
        again.deserialize(*args, enforce_precompiled=len(args) == 1, run_warmup=len(args) == 2)
        assert again.key() == g.key() and again.get_plan_name_at_index(0) == g.get_plan_name_at_index(0)
        assert again.get_workspace_size() == g.get_workspace_size()
        assert again.query_tensor_attributes_of_uid(40).get_dim() == [2, 4, 6, 6]
        for a, b in zip(results(again, inputs, outputs), results(g, inputs, outputs)):
            np.testing.assert_array_equal(a, b)
        assert json.loads(repr(again))["nodes"]
        third = cudnn.pygraph(handle=handle)
        third.deserialize(repr(again))
        assert third.key() == g.key()
        with pytest.raises(BadParam, match="enforce_precompiled requires plan serialization, .*a text of 2"):
            third.deserialize("{}", enforce_precompiled=True)


def test_a_plan_for_a_device_that_is_not_here(h200):
    g, *_ = make(device_property=h200)
    g.build([cudnn.heur_mode.A])
    again = cudnn.pygraph(device_property=h200)
    again.deserialize(bytes(g.serialize()))
    assert again.get_plan_name_at_index(0) == g.get_plan_name_at_index(0)
    assert again.serialize() == g.serialize()


def test_a_plan_of_attention_is_written_as_text_again(handle):
    """Scores that are changed, and keys that an operation makes, or writes: what stands in the graph alone to
    transpose them is no call."""
    g = floats(handle=handle)
    q, c, bias = g.tensor([1, 1, 4, 8]), g.tensor([1, 1, 6, 8]), g.tensor([1, 1, 4, 6])
    k = g.mul(c, c)
    o, stats = g.sdpa(q, k, c, bias=bias, generate_stats=True)
    grads = g.sdpa_backward(q, k, c, o, q, stats, bias=bias)
    outputs, memory = [t.set_output(True) for t in (o, g.relu(grads[1]), grads[2])], {}
    g.build([cudnn.heur_mode.A])
    for t in (q, c, bias, *outputs):
        memory[t.get_uid()] = np.random.default_rng(1).normal(size=t.get_dim()).astype(np.float32)
    found, graphs = [], [g, *(cudnn.pygraph(handle=handle) for _ in range(2))]
    for number, graph in enumerate(graphs):
        if number:
            graph.deserialize(repr(graphs[1]) if number > 1 else g.serialize())
            assert len(graph.nodes) == 4 and graph.nodes[1].params["score"]
        graph.build()
        graph.execute(memory, np.empty(graph.get_workspace_size() + 1, np.uint8))
        found.append([memory[t.get_uid()].tobytes() for t in outputs])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("data, sentence", [
    ("nonsense", "the text must be JSON of a pygraph; got JSONDecodeError"),
                                            ("{}", "the text must be JSON of a pygraph; got KeyError"),
    (json.dumps(dict(format=9)), "format must be 1; got 9"),
                                            (b"nonsense", "it must be JSON that a plan was written as"),
    (b"\xff\xfe", "the bytes must be those of serialize")])
def test_what_cannot_be_read(handle, data, sentence):
    g, other = cudnn.pygraph(handle=handle), cudnn.create_handle("ptx:sm_80")
    with pytest.raises(BadParam, match=sentence):
        g.deserialize(other, data)
    assert g.own_handle.device.name == "numpy"
    cudnn.destroy_handle(other)


def test_bytes_that_were_changed(handle):
    g, *_ = make(handle=handle)
    g.build([cudnn.heur_mode.A])
    data = bytes(g.serialize()).replace(b'"workspace_bytes": ', b'"workspace_bytes": 1')
    with pytest.raises(BadParam,
                       match="workspace_bytes must be what this version of cydnn makes of graph and choice"):
        cudnn.pygraph(handle=handle).deserialize(data)


def changed(text, change) -> str:
    row = json.loads(text)
    change(row)
    return json.dumps(row)


@pytest.mark.parametrize("change, sentence", [
    (lambda row: row.update(extra=1), "extra must be as repr writes it; got 1"),
    (lambda row: row.update(name=5), "name must be a text; got 5"),
    (lambda row: row.update(format="x" * 9999), "format must be 1; got 'x{100,120}…"),
    (lambda row: row["tensors"][0].update(is_virtual=5), "tensors must be as repr writes it; got {"),
    (lambda row: row["tensors"][0].update(alignment="16"), "alignment must be a whole number"),
    (lambda row: row["tensors"][0].update(extra=1), "tensors must be as repr writes it"),
    (lambda row: row["tensors"][0].update(value="x"), "value must be a number or null; got 'x'"),
    (lambda row: row["tensors"][0].update(dim=[1] * 9999), "stride must have as many entries as dim; got"),
    (lambda row: row["nodes"][0].update(extra=1), "nodes must be as repr writes it"),
    (lambda row: row["nodes"][0]["inputs"].update(x=-1), "nodes must be as repr writes it"),
    (lambda row: row["nodes"][0].update(name=7), "nodes must be as repr writes it"),
    (lambda row: row["nodes"][0]["inputs"].update(x=True), "nodes must be as repr writes it"),
    (lambda row: row.update(extra=None), "extra must be as repr writes it; got None")])
def test_a_text_that_was_changed_is_no_other_graph(handle, change, sentence):
    """What is not understood is refused, not left out; errors do not repeat the file."""
    g, again = make(handle=handle)[0], cudnn.pygraph(handle=handle, name="before")
    with pytest.raises(BadParam, match=sentence) as caught:
        again.deserialize(changed(repr(g), change))
        again.validate()
    assert len(str(caught.value)) < 2000 and (again._tensors or again.name == "before")


def test_errors_do_not_repeat_long_names(handle):
    """Neither those of tensors nor of operations."""
    g = make(handle=handle)[0]
    for change in (lambda row: row["tensors"][0].update(name="a" * 20000, vector_count="x"),
                   lambda row: (row["nodes"][0].update(name="b" * 20000),
                                row["tensors"][1].update(dim=[1], stride=[1]))):
        again = cudnn.pygraph(handle=handle)
        with pytest.raises(BadParam, match="a{120}…|b{120}…") as caught:
            again.deserialize(changed(repr(g), change))
            again.validate()
        assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("deep", ["[" * 10 ** 5, '{"a":' * 10 ** 5])
def test_texts_that_are_deep_are_refused(handle, deep):
    for read in (cudnn.pygraph(handle=handle).deserialize, lambda x: cudnn.pygraph().deserialize(x.encode()),
                 cudnn.create_kernel_cache().deserialize, cudnn.create_device_properties):
        with pytest.raises(BadParam, match="must be JSON|it must be JSON"):
            read(deep if deep[0] == "{" else '{"format": 1, "x": ' + deep)


def test_numbers_of_a_plan_keep_their_kind(handle):
    """1, 1.0 and true are three things."""
    g, *_ = make(handle=handle)
    g.build([cudnn.heur_mode.A])
    text = bytes(g.serialize()).decode()
    for change in (lambda row: row.update(format=True), lambda row: row["slots"].__setitem__(0, False),
                   lambda row: row.update(extra=None)):
        with pytest.raises(BadParam, match="must be what this version of cydnn makes"):
            cudnn.pygraph(handle=handle).deserialize(changed(text, change).encode())


def test_there_must_be_a_plan(g):
    with pytest.raises(BadParam, match="a plan must be built first"):
        g.serialize()


# ---- Keys ----

def test_keys_say_what_the_graph_is(handle):
    g = make(handle=handle)[0]
    assert type(g.key()) is int and g.key() == make(name="other", handle=handle)[0].key()
    assert g.key() != make(last="abs", handle=handle)[0].key()


def test_keys_are_the_same_in_every_process(handle):
    program = ("from frontend.test_stored import make; import cydnn.frontend as cudnn; "
               "print(make(handle=cudnn.create_handle('numpy'))[0].key())")
    found = [subprocess.run([sys.executable, "-c", program],
                            env=dict(os.environ, PYTHONPATH=":".join(sys.path), PYTHONHASHSEED=seed),
                            capture_output=True, text=True, check=True).stdout for seed in ("1", "2")]
    assert [int(text) for text in found] == [make(handle=handle)[0].key()] * 2
