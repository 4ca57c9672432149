"""The seal of a manifest, and what a manifest must look like.

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
        _check(manifest)
    del manifest["seal"]
    return manifest


# ---- What it must look like ----

def _is_size(x) -> bool:
    return type(x) is int and x >= 0


def _is_expression(x) -> bool:
    return isinstance(x, str) or _is_size(x)


def _is_list_of(good):
    return lambda x: isinstance(x, list) and all(map(good, x))


def _is_text(x) -> bool:
    return isinstance(x, str)


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


_PARAM = _has(dict(name=_is_text, type=_is_text, offset=_is_size, bytes=_is_size))
_IMAGE = _has(dict(file=_is_place, nvcc=_is_text, version=_is_text, registers=_is_size, smem_static=_is_size,
                   spills=_is_size, sha256=lambda x: isinstance(x, str) and bool(_HEX.fullmatch(x))))
_THREE = lambda x: _is_list_of(_is_expression)(x) and len(x) == 3
_KERNEL = _has(dict(
    about=_is_text, axes=lambda x: isinstance(x, dict), block=_THREE, grid=_THREE, cluster=_THREE,
    cooperative=lambda x: isinstance(x, bool), dependent=lambda x: isinstance(x, bool),
    extra=_is_list_of(_is_text), marks=_is_list_of(_is_text), needs=_is_list_of(_is_text),
    problems=_is_list_of(_is_text), targets=_is_list_of(_is_text), images=lambda x: isinstance(x, dict),
    params=lambda x: isinstance(x, list), param_bytes=_is_size, smem=_is_expression, source=_is_place,
    source_sha256=_is_text), optional=("cluster", "cooperative", "dependent", "marks", "problems"))
_WHOLE = _has(dict(seal=_is_text, nvcc=_is_text, functions=lambda x: isinstance(x, dict),
                   kernels=lambda x: isinstance(x, dict)))


def _check(manifest):
    """Raises ValueError for the first thing that is not as it must be."""
    sentence = _WHOLE(manifest, "the manifest")
    for section in ("kernels", "functions") if not sentence else ():
        for name, row in manifest[section].items():
            sentence = sentence or _KERNEL(row, name)
            if sentence:
                break
            parts = [*((_PARAM, p, f"{name}.params[{i}]") for i, p in enumerate(row["params"])),
                     *((_IMAGE, image, f"{name}.{target}") for target, image in row["images"].items())]
            sentence = next(filter(None, (wrong(x, at) for wrong, x, at in parts)), "")
    if sentence:
        raise ValueError(f"must be what build_ptx.py writes: {sentence}")
