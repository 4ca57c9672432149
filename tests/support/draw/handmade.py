"""Kernels written by hand, with a manifest as kernels/ reads it, and plans without a graph: launches and
their slots."""
from __future__ import annotations

import hashlib
import json
import lzma
import re
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import contract  # noqa: E402

from cydnn import kernels as shipped  # noqa: E402
from cydnn.dtypes import dtype  # noqa: E402
from cydnn.graph import Graph, Match, Tensor  # noqa: E402
from cydnn.operand import of_slots  # noqa: E402
from cydnn.kernels import seal  # noqa: E402
from cydnn.steps import Pointer, Scalar, mapped  # noqa: E402
from cydnn.tensor import TensorDesc  # noqa: E402


def folder(path: Path, **kernels: tuple) -> Path:
    """A folder with a manifest: name = (parameters, PTX text, facts of the contract)."""
    rows = {}
    for name, (declared, text, facts) in kernels.items():
        params = contract.layout(name, [contract.parameter(name, each, {}) for each in declared])
        data, target = text.encode(), re.search(r"\.target (\w+)", text)[1]
        (path / f"{name}.ptx.xz").write_bytes(lzma.compress(data))
        image = dict(file=f"{name}.ptx.xz", sha256=hashlib.sha256(data).hexdigest(), version="8.0", nvcc="",
                     registers=32, smem_static=0, spills=0)
        row = dict(source=f"{name}.cu", source_sha256="", about="", params=params, axes={}, block=[32, 1, 1],
                   grid=[1, 1, 1], smem=0, extra=[], needs=[], marks=[], targets=[target],
                   images={target: image},
                   param_bytes=params[-1]["offset"] + params[-1]["bytes"] if params else 0)
        rows[name] = {**row, **facts}
    (path / "manifest.json").write_text(manifest_text(rows))
    return path


def manifest_text(kernels: dict, **more) -> str:
    """A sealed manifest of these rows. What is no row stands there as it is."""
    rows = {name: row for name, row in kernels.items() if isinstance(row, dict)}
    whole = seal.folded({"nvcc": "13.0.88", "functions": {}, "kernels": rows, **more})
    whole["kernels"] = {**kernels, **whole["kernels"]}
    return seal.sealed("{\n" + json.dumps(whole)[1:])


@contextmanager
def installed(path: Path, **kernels: tuple):
    """The kernels of ``folder`` stand in the place of those that ship."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CYDNN_PTX_DIR", str(folder(path, **kernels)))
        shipped.reload()
        yield
    shipped.reload()


@contextmanager
def installer(path: Path):
    """make(name, parameters, text, contract): a kernel by that name, in the place of all others."""
    with ExitStack() as stack:
        def make(name, params, text, **contract):
            stack.enter_context(installed(path, **{name: (params, text, contract)}))
            return name
        yield make


def tensor(uid: int, type_: str, dims, strides=None, **facts) -> Tensor:
    """A tensor in memory; packed where no strides are given."""
    desc = TensorDesc(type_, dims, strides) if strides else TensorDesc.packed(dtype(type_), dims)
    return Tensor(uid, desc, **{"name": f"t{uid}", **facts})


def plan(slots, steps, scalars=(), written=None, workspace_bytes=0, optional=()):
    """What a device compiles: Pointers of the steps name slots, Scalars name places in ``scalars``."""
    written = {len(slots) - 1} if written is None else set(written)
    return SimpleNamespace(slots=list(slots), steps=list(steps), scalars=list(scalars), written=written,
                           optional=set(optional), inplace=[], inside={}, periods={}, text="",
                           workspace_bytes=workspace_bytes, uids=tuple(t.uid for t in slots),
                           operands=of_slots(slots, written, optional))


def engine_plan(engine, graph: Graph, facts):
    """The plan of a graph of one node by one engine, which must accept it."""
    match = Match(graph, graph.nodes[0], 1)
    assert engine.reasons(match, facts) == (), engine.reasons(match, facts)
    uids, scalars = sorted(graph.tensors), {}

    def turn(value):
        if isinstance(value, Scalar):
            scalars.setdefault(value.key, (len(scalars), value.default))
            return Scalar(scalars[value.key][0], value.default)
        return Pointer(uids.index(value.uid), value.addend)
    steps = [mapped(step, turn) for step in engine.plan(match, facts, engine.best(match, facts))]
    return plan([graph.tensors[u] for u in uids], steps,
                [(key, default) for key, (_, default) in scalars.items()],
                {uids.index(u) for u in graph.nodes[0].writes})
