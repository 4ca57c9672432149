"""The kernel cache: an equal graph is planned once, in this process or from what another one wrote."""
from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn.status import BadParam

from .conftest import conv, floats, names

MODE = cudnn.heur_mode


def test_an_equal_graph_is_planned_once(handle, monkeypatch):
    from cydnn.frontend import planning
    asked = []
    monkeypatch.setattr(planning, "candidates", lambda *a,
                        was=planning.candidates: asked.append(1) or was(*a))
    cache, plans = cudnn.create_kernel_cache(), []
    for n in (2, 2, 3):
        g = floats(handle=handle, kernel_cache=cache)
        x = g.tensor([n, 3], [3, 1])
        y = g.exp(x, name=f"name {len(plans)}").set_output(True)
        g.build([MODE.A])
        plans.append(g._plan().ready[g.own_handle.device].plan)
        out = np.empty((n, 3), np.float32)
        g.execute({x: np.zeros((n, 3), np.float32), y: out})
        assert (out == 1).all()
    assert len(asked) == 2 and plans[0] is plans[1] is not plans[2]


def test_how_many_graphs_a_cache_has(h200):
    cache = cudnn.create_kernel_cache()
    with pytest.raises(BadParam, match="size must be called after build_operation_graph"):
        cache.size()
    for wide in (0, 0, 1):
        g, _ = conv(wide, device_property=h200, kernel_cache=cache)
        g.build_operation_graph()
        assert cache.revision() == cache.size() == wide or not wide
        g.build([MODE.A, MODE.FALLBACK])
        assert cache.revision() == cache.size() == 1 + wide
    other = cudnn.create_kernel_cache()
    other.deserialize(cache.serialize())
    with pytest.raises(BadParam, match="revision must be called after"):
        other.revision()
    g.kernel_cache, g.is_built = other, False
    g.build_operation_graph()
    assert other.revision() == other.size() == 2


def test_a_cache_is_written_and_read(h200, monkeypatch):
    from cydnn.frontend import planning
    cache = cudnn.create_kernel_cache()
    first, _ = conv(device_property=h200, kernel_cache=cache)
    first.build([MODE.A, MODE.FALLBACK])
    other = cudnn.create_kernel_cache()
    other.deserialize(cache.serialize())
    monkeypatch.setattr(planning, "candidates", None)          # nobody is asked
    second, _ = conv(device_property=h200, kernel_cache=other)
    second.build([MODE.A, MODE.FALLBACK])
    assert names(second) == names(first)
    with pytest.raises(BadParam, match="it must be empty to be read into"):
        other.deserialize(cache.serialize())
    for wrong in ("nonsense", "{}", json.dumps(dict(format=9, choices={})), "[]", "5",
                  json.dumps(dict(format=1, choices={}, more=1)), json.dumps(dict(format=1, choices=[])),
                  json.dumps(dict(format=1, choices={"a": "text"})),
                  json.dumps(dict(format=1, choices={"a": [1]}))):
        with pytest.raises(BadParam, match="kernel_cache: "):
            cudnn.create_kernel_cache().deserialize(wrong)


def test_what_does_not_fit_a_graph_is_chosen_anew(h200):
    cache = cudnn.create_kernel_cache()
    g, _ = conv(device_property=h200, kernel_cache=cache)
    g.build([MODE.A])
    row = json.loads(cache.serialize())
    row["choices"] = {name: ["part 0: 999"] for name in row["choices"]}
    stale = cudnn.create_kernel_cache()
    stale.deserialize(json.dumps(row))
    again, _ = conv(device_property=h200, kernel_cache=stale)
    again.build([MODE.A])
    assert names(again) == names(g)


def test_a_cache_has_a_bound(handle, monkeypatch):
    from cydnn.frontend import kernel_cache as room
    monkeypatch.setattr(sys.modules[room.__module__], "MOST", 2)
    monkeypatch.setattr(sys.modules[room.__module__], "MOST_TEXTS", 3)
    cache = cudnn.create_kernel_cache()
    for n in range(1, 6):
        g = floats(handle=handle, kernel_cache=cache)
        g.exp(g.tensor([n], [1])).set_output(True)
        g.build([MODE.A])
    assert len(cache._plans) == len(cache._choices) == 2
    assert len(json.loads(cache.serialize())["choices"]) == 3
