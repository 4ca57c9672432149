"""The table of answers on disk: one compressed file, with the device that gave them and, for each probe,
a digest of what it was asked."""
from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .probe import Probe
from .values import SIZE

FILE = Path(__file__).resolve().parents[2] / "device" / "ptx" / "data" / "opcodes_h200.npz"


def digest(probe: Probe) -> str:
    """Of the kernel and its operands: an answer to another question does not count."""
    return hashlib.sha256(probe.entry("p").encode() + probe.data().tobytes()).hexdigest()[:8]


class Answers(NamedTuple):
    """``found``: probe name -> (digest, results or the text of an error)."""
    device: str
    driver: str
    found: dict[str, tuple[str, list | str]]


def planes(array: np.ndarray) -> bytes:
    """The bytes of an array, all first bytes before all second ones: they compress better."""
    return np.ascontiguousarray(array.view(np.uint8).reshape(len(array), -1).T).tobytes()


def write(path, device: str, driver: str, pairs) -> int:
    """Write the answers of ``run.answers``; returns the bytes of the file."""
    rows, parts = [], []
    for probe, results in pairs:
        if isinstance(results, Exception):
            rows.append([probe.name, digest(probe), f"{type(results).__name__}: {results}"[:300]])
            continue
        rows.append([probe.name, digest(probe), [[SIZE[t], len(r)] for t, r in zip(probe.outs, results)]])
        parts += [planes(r) for r in results]
    head = json.dumps(dict(device=device, driver=driver, rows=rows)).encode()
    pack = lambda data: np.frombuffer(lzma.compress(data, preset=9), np.uint8)
    np.savez(path, head=pack(head), answers=pack(b"".join(parts)))
    return Path(path).stat().st_size


def read(path=FILE) -> Answers:
    """The table. Raises FileNotFoundError when nobody has written it."""
    with np.load(path) as file:
        head, data = (lzma.decompress(file[name].tobytes()) for name in ("head", "answers"))
    head, found, at = json.loads(head), {}, 0
    for name, asked, shape in head["rows"]:
        if isinstance(shape, str):
            found[name] = asked, shape
            continue
        results = []
        for size, count in shape:
            raw = np.frombuffer(data, np.uint8, size * count, at).reshape(size, count).T
            results.append(np.ascontiguousarray(raw).view(f"u{size}").reshape(-1))
            at += size * count
        found[name] = asked, results
    return Answers(head["device"], head["driver"], found)
