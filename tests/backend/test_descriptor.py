"""Every attribute of every kind: right and wrong types, counts and values, before and after finalize."""
from __future__ import annotations

import os
import random

import pytest

from cydnn.backend import KINDS, Descriptor, constant, constants
from cydnn.backend.types import TYPES
from cydnn.status import NINE, BadParam, CydnnError, NotInitialized, NotSupported

from descriptors import EVERY, conv_graph, make, right


@pytest.fixture(scope="module")
def others():
    return conv_graph("numpy")


def is_equal(one, other):
    return one is other or one == other or tuple(map(str, (one,))) == ("1/2",) and other == (1, 2)


@pytest.mark.parametrize("kind, name", EVERY)
def test_what_is_set_is_kept(kind, name, others):
    d, attr = Descriptor(kind), KINDS[kind].attributes[name]
    values = right(attr, others)
    if attr.access == "get":
        with pytest.raises(BadParam, match=f"{name} must not be set: finalize finds it"):
            d.set(name, values or [0])
        return
    if values:
        d.set(attr.api, values, constant(f"CUDNN_TYPE_{attr.types[0]}"), len(values))
        assert all(map(is_equal, d.value(name, list=True), values))
    with pytest.raises(NotInitialized, match=r"get\(.*the descriptor must be finalized"):
        d.get(name)


@pytest.mark.parametrize("kind, name", EVERY)
def test_what_is_wrong_is_refused_and_changes_nothing(kind, name, others):
    d, attr = Descriptor(kind), KINDS[kind].attributes[name]
    if attr.access == "get":
        return
    values = right(attr, others)
    before = dict(d.set(name, values).values) if values else {}
    other = "CUDNN_TYPE_BOOLEAN" if attr.types[0] != "BOOLEAN" else "CUDNN_TYPE_INT64"
    with pytest.raises(BadParam, match=f"{name}: its type must be .*; got {other}"):
        d.set(name, values, constant(other))
    with pytest.raises(BadParam, match=f"{name} must have .* elements"):
        d.set(name, [])
    if attr.most == 1 and attr.types[0] != "FRACTION":
        with pytest.raises(BadParam, match=f"{name} must have 1 elements"):
            d.set(name, [*values, *values, 0, 0])
    if attr.types[0] not in ("VOID_PTR", "HANDLE"):
        with pytest.raises(BadParam, match=name):
            d.set(name, [object()])
    with pytest.raises(BadParam, match="the count must be"):
        d.set(name, values, count=-1) if attr.types[0] != "CHAR" else d.set(name, values, count="many")
    assert d.values == before


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_descriptor(kind):
    d = Descriptor(KINDS[kind].api)
    needed = [a.name for a in d.kind.attributes.values() if a.is_required]
    if needed:
        short = needed[0].removeprefix("OPERATION_")
        with pytest.raises(BadParam, match=rf"finalize\({kind}\): {short} must be "
                                           "set; got none") as found:
            d.finalize()
        assert f"CUDNN_ATTR_{needed[0]}" in str(found.value) and needed[0] == found.value.facts["attribute"]
    assert not d.is_finalized and "MISSING" in d.describe() or not needed


@pytest.mark.parametrize("kind", KINDS)
def test_an_attribute_of_another_kind(kind):
    foreign = "CUDNN_ATTR_TENSOR_STRIDES" if kind != "TENSOR" else "CUDNN_ATTR_POINTWISE_MODE"
    with pytest.raises(BadParam, match=r"the attribute must be one of .*; got CUDNN_ATTR_"):
        Descriptor(kind).set(constant(foreign), 1)


def test_what_is_finalized_does_not_change(others):
    for kind, d in others.items():
        assert d.is_finalized and d.finalize() is d and d.describe() and str(d) and repr(d)
        name = next(n for n, a in d.kind.attributes.items() if a.access != "get")
        with pytest.raises(NotInitialized, match="the descriptor must not be finalized"):
            d.set(name, right(d.kind.attributes[name], others) or [0])
        for name, attr in d.kind.attributes.items():
            found = d.get(attr.api, constant(f"CUDNN_TYPE_{attr.types[0]}"))
            assert isinstance(found, list) and d.get(name, count=1) == found[:1], name


def test_kinds_that_are_none():
    with pytest.raises(BadParam, match="create: the type must be one of CUDNN_BACKEND_.*; got 99"):
        Descriptor(99)
    with pytest.raises(NotSupported, match="create: the type must be one of .*; got CUDNN_BACKEND_OPER"):
        Descriptor(constant("CUDNN_BACKEND_OPERATION_EXPAND_BAND_MATRIX_DESCRIPTOR"))
    for kind in ("KNOB_INFO", "LAYOUT_INFO", "INTERMEDIATE_INFO"):
        with pytest.raises(BadParam, match="must be made by the library"):
            Descriptor(kind).finalize()


def test_random_calls_are_refused_in_words(others):
    """Sequences of calls with values of any kind raise only the library's errors, and leave what was there.
    ``CYDNN_BACKEND_CALLS`` says how many calls there are."""
    rng = random.Random(int(os.environ.get("CYDNN_SEED", 1)))
    pool = [*others.values(), *others, None, -1, 0, 1, 2, 2.5, float("nan"), True, "x", b"x", [1, 2], (1, 2),
            [], {}, object(), 2 ** 70, *rng.sample(sorted(constants().values()), 40)]
    kinds, calls = [*KINDS.values()], 0
    while calls < int(os.environ.get("CYDNN_BACKEND_CALLS", 10 ** 4)):
        d = Descriptor(rng.choice(kinds))
        for _ in range(rng.randrange(1, 12)):
            calls, before = calls + 1, (dict(d.values), d.is_finalized)
            attr = rng.choice(list(d.kind.attributes.values()))
            value = rng.choice((right(attr, others), rng.choice(pool), [rng.choice(pool)] * rng.randrange(4)))
            way = rng.choice(("set", "set", "set", "set of a type", "finalize", "get", "describe"))
            try:
                if way.startswith("set"):
                    d.set(attr.name, value, rng.choice(pool) if way == "set of a type" else None)
                elif way == "get":
                    name, count = rng.choice((attr.name, rng.choice(pool))), rng.choice((None, 1, -1, "x"))
                    d.get(name, None, count)
                else:
                    getattr(d, way)()
            except CydnnError:
                assert (d.values, d.is_finalized) == before


def test_a_descriptor_belongs_to_its_process():
    import pickle
    with pytest.raises(TypeError, match="pickle: a descriptor belongs to its process"):
        pickle.dumps(make("KERNEL_CACHE"))


@pytest.mark.parametrize("kind, name, value, sentence", [
    ("TENSOR", "UNIQUE_ID", "x", "whole number of 64 bits; got 'x': a text label is a tensor's name"),
    ("TENSOR", "UNIQUE_ID", 2 ** 63, "must be a whole number of 64 bits; got 9223372036854775808"),
    ("KERNEL_CACHE", "JSON_REPRESENTATION", b"\xff", "must be text in UTF-8"),
    ("OPERATIONGRAPH", "OPS", make("TENSOR"), "must be a descriptor of kind OPERATION; got <TENSOR not"),
    ("ENGINE", "OPERATION_GRAPH", make("OPERATIONGRAPH"), "must be finalized; got .*: call finalize"),
    ("DEVICEPROP", "CUDNN_ATTR_NONSENSE", 1, "name must be one of the API's enumerants; got 'CUDNN_")])
def test_values_that_are_refused(kind, name, value, sentence):
    with pytest.raises(BadParam, match=sentence):
        Descriptor(kind).set(name if name.startswith("CUDNN") else f"{kind}_{name}", value)


def test_fractions():
    read = TYPES["FRACTION"].read
    assert read("here", (3, 2)) == 1.5 == read("here", 1.5)
    for wrong in ((1, 0), "x/y", (1, 2, 3), None):
        with pytest.raises(BadParam, match=r"here must be a number or \(numerator, denominator\); got"):
            read("here", wrong)


def test_finalized_values_that_are_refused(others):
    graph, config = others["OPERATIONGRAPH"], others["ENGINECFG"]
    with pytest.raises(BadParam, match="ENGINEHEUR_MODE must be one of .*; got CUDNN_HEUR_MODES_COUNT"):
        make("ENGINEHEUR", OPERATION_GRAPH=graph, MODE=constant("CUDNN_HEUR_MODES_COUNT")).finalize()
    with pytest.raises(NotSupported, match="RUN_ONLY_INTERMEDIATE_UIDS must not be set: no engine keeps"):
        make("EXECUTION_PLAN", ENGINE_CONFIG=config, RUN_ONLY_INTERMEDIATE_UIDS=[1]).finalize()


@pytest.mark.parametrize("call, status", [
    (lambda: Descriptor("TENSOR").get("TENSOR_STRIDES"), "BAD_PARAM_NOT_FINALIZED"),
    (lambda: Descriptor("TENSOR").set("TENSOR_STRIDES", [1], constant("CUDNN_TYPE_FLOAT")),
     "BAD_PARAM_ATTRIBUTE_TYPE"),
    (lambda: Descriptor("ENGINE").set("ENGINE_OPERATION_GRAPH", Descriptor("TENSOR")),
     "BAD_PARAM_DESCRIPTOR_TYPE"),
    (lambda: Descriptor("MATMUL").set("MATMUL_PADDING_VALUE", [1, 2]), "BAD_PARAM_SIZE_INSUFFICIENT"),
    (lambda: Descriptor("CONVOLUTION").finalize(), "BAD_PARAM"),
    (lambda: Descriptor(constant("CUDNN_BACKEND_OPERATION_EXPAND_BAND_MATRIX_DESCRIPTOR")),
     "NOT_SUPPORTED")])
def test_statuses_of_v9(call, status):
    with pytest.raises(CydnnError) as found:
        call()
    assert found.value.api9 == f"CUDNN_STATUS_{status}" == constant(f"CUDNN_STATUS_{status}").name
    assert found.value.status9 == constant(f"CUDNN_STATUS_{status}")


def test_every_status_of_v9_has_the_number_of_the_api():
    assert {name: int(constant(f"CUDNN_STATUS_{name}")) for name in NINE} == NINE
