"""The seal of a manifest, what many of its rows say and it has once, and what it must look like.

A manifest begins with the sha256 of itself, its own 64 digits left out: a change of any byte is seen. The
extension ``_seal`` knows the seal of the manifest that it was built with. Standard library only:
tools/build_ptx.py and setup.py load this file by its path.
"""
from __future__ import annotations

import hashlib
import json
import re

_HEAD = re.compile(rb'\{\n "seal": "([0-9a-f]{64})",\n')
_HEX = re.compile("[0-9a-f]{64}")
MOST_PARAM_BYTES = 32764                         # of a launch, on every GPU
SECTIONS = ("functions", "kernels")
PROBLEMS = "problems.json"                       # beside the manifest: problem lines that launch each kernel
SHARED = ("about", "grid", "needs", "params", "smem", "source", "source_sha256")   # what rows have in common


def sealed(text: str) -> str:
    """A JSON object that begins with "{" and a line feed, with its seal in front."""
    rest = text.removeprefix("{\n")
    return f'{{\n "seal": "{_digest(rest.encode())}",\n{rest}'


def _digest(rest: bytes) -> str:
    return hashlib.sha256(rest).hexdigest()


def seal_of(data: bytes) -> str:
    """The seal that a manifest carries, "" where it has none. Not checked."""
    head = _HEAD.match(data)
    return head[1].decode() if head else ""


def read(data: bytes, known: str = "") -> dict:
    """The manifest, without its seal. Raises ValueError with what is wrong: one sentence that begins with
    "must". ``known``: the seal of one that was looked through before."""
    seal = seal_of(data)
    if not seal:
        raise ValueError("must begin with its seal; got none")
    found = _digest(data[_HEAD.match(data).end():])
    if found != seal:
        raise ValueError(f"must have the sha256 {seal[:16]}… that it begins with; got {found[:16]}…: "
                         "it was changed")
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"must be JSON; got {error}") from None
    if seal != known:
        _refuse(_WHOLE(manifest, "the manifest"))
    del manifest["seal"]
    unfold(manifest)
    if seal != known:
        _check_rows(manifest)
    return manifest


# ---- What many rows say ----

def folded(manifest: dict) -> dict:
    """The manifest as it is written: a value of SHARED stands once, below "shared", and rows have its name:
    the first digits of its sha256, so that a name stays when other values come and go."""
    shared = {key: {} for key in SHARED}

    def name_of(key, value):
        digest, n = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest(), 8
        while shared[key].setdefault(digest[:n], value) != value:
            n += 1
        return digest[:n]

    rows = {section: {name: {key: name_of(key, x) if key in SHARED else x for key, x in row.items()}
                      for name, row in sorted(manifest[section].items())} for section in SECTIONS}
    return {**manifest, **rows, "shared": shared}


def unfold(manifest: dict):
    """Put the values in the place of their names, in a manifest as it was read. Rows share them: they are not
    to be changed. Raises ValueError as ``read`` does."""
    tables = list(manifest.pop("shared", {}).items())
    for section in SECTIONS:
        for name, row in manifest[section].items():
            try:
                for key, table in tables:
                    row[key] = table[row[key]]
            except (KeyError, TypeError):
                _refuse(f"{name} must have the name of one of the shared {key}")


# ---- What it must look like ----

def _is_size(x) -> bool:
    return type(x) is int and x >= 0


def _is_in_block(x) -> bool:
    return _is_size(x) and x <= MOST_PARAM_BYTES


def _is_expression(x) -> bool:
    return isinstance(x, str) or _is_size(x)


def _is_list_of(good):
    return lambda x: isinstance(x, list) and all(map(good, x))


def _is_text(x) -> bool:
    return isinstance(x, str)


def _is_name(x) -> bool:
    return isinstance(x, str) and x.isidentifier() and len(x) <= 100


def _is_place(x) -> bool:
    """A file below the folder."""
    return (isinstance(x, str) and bool(re.fullmatch(r"[\w.-]{1,200}(/[\w.-]{1,200}){0,4}", x))
            and ".." not in x.split("/"))


def _has(rows: dict, optional=()):
    """Exactly these keys, each with a value that its function takes; the first that is wrong is named."""
    def wrong(x, at: str):
        if not isinstance(x, dict):
            return f"{at} must be an object; got {x!r:.80}"
        for key in [*x, *rows]:
            if key not in rows:
                return f"{at} must have no {key!r:.40}"
            if key not in x:
                if key not in optional:
                    return f"{at} must have {key}"
            elif not rows[key](x[key]):
                return f"{at}: {key} must be as build_ptx.py writes it; got {x[key]!r:.80}"
        return ""
    return wrong


_PARAM = _has(dict(name=_is_name, type=_is_text, offset=_is_in_block, bytes=_is_in_block))
_IMAGE = _has(dict(
    file=_is_place, lies=lambda x: _is_list_of(_is_size)(x) and len(x) == 4, nvcc=_is_text, version=_is_text,
    registers=_is_size, smem_static=_is_size, spills=_is_size,
    sha256=lambda x: isinstance(x, str) and bool(_HEX.fullmatch(x))), optional=("lies",))
_THREE = lambda x: _is_list_of(_is_expression)(x) and len(x) == 3
_KERNEL = _has(dict(
    about=_is_text, axes=lambda x: isinstance(x, dict), block=_THREE, grid=_THREE, cluster=_THREE,
    cooperative=lambda x: isinstance(x, bool) or _is_expression(x), dependent=lambda x: isinstance(x, bool),
    extra=_is_list_of(_is_name), marks=_is_list_of(_is_text), needs=_is_list_of(_is_text),
    targets=_is_list_of(_is_text), images=lambda x: isinstance(x, dict),
    params=lambda x: isinstance(x, list), param_bytes=_is_in_block, smem=_is_expression, source=_is_place,
    source_sha256=_is_text), optional=("cluster", "cooperative", "dependent", "marks"))
_TABLE = lambda x: isinstance(x, dict)
_WHOLE = _has(dict(
    seal=_is_text, nvcc=_is_text, problems=_is_text, functions=_TABLE, kernels=_TABLE,
    shared=lambda x: _TABLE(x) and x.keys() == set(SHARED) and all(map(_TABLE, x.values()))),
    optional=("problems",))


def _refuse(sentence: str):
    if sentence:
        raise ValueError(f"must be what build_ptx.py writes: {sentence}")


def _check_rows(manifest):
    """Raises ValueError for the first thing that is not as it must be."""
    for section in SECTIONS:
        for name, row in manifest[section].items():
            _refuse(_KERNEL(row, name))
            parts = [*((_PARAM, p, f"{name}.params[{i}]") for i, p in enumerate(row["params"])),
                     *((_IMAGE, image, f"{name}.{target}") for target, image in row["images"].items())]
            _refuse(next(filter(None, (wrong(x, at) for wrong, x, at in parts)), ""))
