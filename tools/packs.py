"""The folder ptx/ as it lies on disk: manifest, problems, packs.

A pack: the images of one source for one target are one file of xz streams, each of at most a MiB of text, so
that images alike are stored once and reading one unpacks little. The manifest says where each lies:
``[offset of its stream, bytes of it, offset in its text, bytes]``."""
from __future__ import annotations

import fcntl
import hashlib
import json
import lzma
import os
from contextlib import contextmanager
from pathlib import Path

from contract import files, seal

STREAM = 1 << 20
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 21}]


def name_of(source: str, target: str) -> str:
    return f"{source.removesuffix('.cu')}.{target}.ptx.xz"


def packed(texts: dict[str, bytes]) -> tuple[bytes, dict]:
    """(the file, {name: where its text lies}). The same for the same texts."""
    streams: list[list] = [[]]
    for name, text in sorted(texts.items()):
        if streams[-1] and sum(len(t) for _, t in streams[-1]) + len(text) > STREAM:
            streams.append([])
        streams[-1].append((name, text))
    data, lies = b"", {}
    for stream in streams:
        small, at = lzma.compress(b"".join(t for _, t in stream), check=lzma.CHECK_CRC32, filters=FILTERS), 0
        for name, text in stream:
            lies[name], at = [len(data), len(small), at, len(text)], at + len(text)
        data += small
    return data, lies


def text_of(folder: Path, image: dict) -> bytes:
    """The text of an image, as the manifest says where it lies."""
    start, size, at, length = image["lies"]
    data = files.read(folder / image["file"], 1 << 24, folder)[start:start + size]
    return lzma.decompress(data)[at:at + length]


def groups_of(manifest: dict) -> dict:
    """{(source, target): {name of a variant: its image's row}}."""
    found: dict = {}
    for section in ("functions", "kernels"):
        for name, row in manifest[section].items():
            for target, image in row["images"].items():
                found.setdefault((row["source"], target), {})[name] = image
    return found


def repack(folder: Path, before: dict, manifest: dict, texts: dict):
    """Write the packs of a manifest that have other images than ``before`` (its groups then) or new ``texts``
    {(name, target): bytes}, and put into its rows where they lie. Packs without images go."""
    now = groups_of(manifest)
    for (source, target), images in now.items():
        fresh = {name: texts[name, target] for name in images if (name, target) in texts}
        if not fresh and before.get((source, target), {}).keys() == images.keys():
            continue
        kept = {name: text_of(folder, image) for name, image in images.items() if name not in fresh}
        data, lies = packed(kept | fresh)
        files.write(folder / name_of(source, target), data)
        for name, image in images.items():
            image.update(file=name_of(source, target), lies=lies[name])
    for source, target in before.keys() - now.keys():
        (folder / name_of(source, target)).unlink(missing_ok=True)


# ---- Manifest ----

@contextmanager
def locked(out: Path):
    """Nobody else changes the folder meanwhile: others build other kernels."""
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def read_manifest(out: Path) -> dict:
    path = out / "manifest.json"
    found = json.loads(path.read_text()) if path.is_file() else {"nvcc": "", "kernels": {}, "functions": {}}
    found.pop("seal", None)
    seal.unfold(found)
    path = out / seal.PROBLEMS
    lines = json.loads(path.read_text()) if path.is_file() else {}
    for section in seal.SECTIONS:
        for name, row in found[section].items():
            row["problems"] = lines.get(name, [])
    return found


def write_manifest(out: Path, manifest: dict):
    """The manifest, and the problems of its kernels, which are read on demand, in a file beside it."""
    files.write(out / seal.PROBLEMS, problems_text(manifest).encode())
    files.write(out / "manifest.json", manifest_text(manifest).encode())


def problems_text(manifest: dict) -> str:
    rows = [(name, row["problems"]) for name, row in sorted(manifest["kernels"].items())
            if row.get("problems")]
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(lines)}" for name, lines in rows) + "\n}\n"


def manifest_text(manifest: dict) -> str:
    """JSON with a line for each kernel, and for each value that kernels share: a diff names kernels."""
    def section(name, rows, indent=" "):
        short = lambda row: json.dumps(row, sort_keys=True, separators=(",", ":"))
        lines = ",\n".join(f"{indent} {json.dumps(key)}:{short(row)}" for key, row in sorted(rows.items()))
        return f'{indent}"{name}": {{\n{lines}\n{indent}}}'
    without = lambda row: {key: value for key, value in row.items() if key != "problems"}
    whole = seal.folded(manifest | {section: {name: without(row) for name, row in manifest[section].items()}
                                    for section in seal.SECTIONS})
    shared = ",\n".join(section(key, table, "  ") for key, table in whole["shared"].items())
    problems = hashlib.sha256(problems_text(manifest).encode()).hexdigest()
    parts = [*(section(name, whole[name]) for name in seal.SECTIONS),
             f' "nvcc": {json.dumps(manifest["nvcc"])}', f' "problems": "{problems}"',
             f' "shared": {{\n{shared}\n }}']
    return seal.sealed("{\n" + ",\n".join(parts) + "\n}\n")
