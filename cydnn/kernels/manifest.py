"""The kernels of ``ptx/``: what the manifest says of each, which image fits a device,
and how arguments become a parameter block.

``get("softmax_fwd_warp_f32_8")`` gives a Kernel; ``Kernel.image_for(90)`` the PTX for a device;
``Kernel.pack(args)`` everything a launch needs. The manifest is read once, on first use. Images are read when
asked for, and their hash is verified each time.
"""
from __future__ import annotations

import hashlib
import json
import logging
import os
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from pathlib import Path

from .. import files
from ..given import shown
from ..locks import once
from ._seal import SEAL
from ..status import BadParam, CydnnError, InternalError, NotSupported
from . import overlay, seal
from .expressions import expression
from .images import BUILD, Image, pick_target
from .pack import Attributes, Packed, Packer

MANIFEST = "manifest.json"
VARIABLE = "CYDNN_PTX_DIR"
INSTALLED = Path(__file__).resolve().parents[1] / "_ptx"
log = logging.getLogger("cydnn.kernels")
GRID_LIMITS = (2**31 - 1, 65535, 65535)
MOST_OF_MANIFEST = 1 << 26
MOST_OF_CLUSTER = 8                              # blocks, on every GPU that has clusters


# ---- Where the images are ----

def ptx_dir() -> Path:
    """The folder with ``manifest.json``: ``CYDNN_PTX_DIR``, then ``cydnn/_ptx`` (installed),
    then ``ptx/`` of the repository."""
    return _place(os.environ.get(VARIABLE))


@lru_cache(maxsize=None)
def _place(named: str | None) -> Path:
    places = [Path(named)] if named else [INSTALLED, INSTALLED.parents[1] / "ptx"]
    for place in places:
        try:
            if (place / MANIFEST).exists():      # what it is, is said when it is read
                return place
        except (OSError, ValueError) as error:   # a name that is too long, or holds a 0
            raise BadParam(f"{VARIABLE}: must name a folder; got {shown(named)}: "
                           f"{getattr(error, 'strerror', None) or error}") from None
    raise NotSupported(f"kernels: {MANIFEST} must be in {' or '.join(map(str, places))}; got none. "
                       f"Build it with `{BUILD}`")


@lru_cache(maxsize=None)
def _manifest(place: Path) -> dict:
    path = place / MANIFEST
    try:
        data = files.read(path, MOST_OF_MANIFEST, place)
        found = seal.read(data, known=SEAL)
    except (OSError, ValueError) as error:
        raise InternalError(f"manifest {path} {_said(error)}. Build it with `{BUILD}`, "
                            "or install cydnn again") from None
    if place == INSTALLED and seal.seal_of(data) != SEAL:
        raise InternalError(f"manifest {path} must be the one that this cydnn was built with, sha256 "
                            f"{SEAL[:16]}…; got {seal.seal_of(data)[:16]}…. Install cydnn again, or name "
                            "a folder of your own by CYDNN_PTX_DIR")
    if os.environ.get(VARIABLE) and place == Path(os.environ[VARIABLE]):
        log.warning("%s", replaced())
    return found


@lru_cache(maxsize=None)
def _problems(place: Path) -> dict:
    """{kernel: problem lines that launch it}: for tests and tools, so no launch reads them."""
    wanted = _manifest(place).get("problems")
    if wanted is None:                           # a folder by hand: without any
        return {}
    path = place / seal.PROBLEMS
    try:
        data = files.read(path, MOST_OF_MANIFEST, place)
    except (OSError, ValueError) as error:
        raise InternalError(f"problems {path} {_said(error)}. Build it with `{BUILD}`") from None
    found = hashlib.sha256(data).hexdigest()
    if found != wanted:
        raise InternalError(f"problems {path} must have sha256 {wanted[:16]}…; got {found[:16]}…. "
                            f"The file was changed; build it with `{BUILD}`")
    return {name: tuple(lines) for name, lines in json.loads(data).items()}


def _said(error) -> str:
    return f"must be readable; got {error.strerror or error}" if isinstance(error, OSError) else str(error)


def is_as_built() -> bool:
    """The manifest in use is the one that the extension was built with."""
    return seal.seal_of(files.read(ptx_dir() / MANIFEST, MOST_OF_MANIFEST, ptx_dir())) == SEAL


def seal_in_use() -> str:
    """The sha256 of the manifest in use, which names this version of the kernels."""
    return _seal(ptx_dir())


@lru_cache(maxsize=None)
def _seal(place: Path) -> str:
    return seal.seal_of(files.read(place / MANIFEST, MOST_OF_MANIFEST, place))


def replaced() -> str:
    """What the folder that CYDNN_PTX_DIR names has in place of the shipped kernels, "" without it."""
    named = os.environ.get(VARIABLE)
    if not named:
        return ""
    try:
        usual = _rows(_place(None))
    except (CydnnError, OSError, ValueError) as error:
        return f"{VARIABLE}: kernels are those of {named}; what they replace cannot be said: {error.args[0]}"
    mine = _rows(Path(named))
    changed = [name for name in mine if name in usual and mine[name] != usual[name]]
    more, less = [n for n in mine if n not in usual], [n for n in usual if n not in mine]
    said = [f"{len(names)} {how} ({', '.join(names[:3])}{' …' if names[3:] else ''})"
            for names, how in ((changed, "are others"), (more, "are new"), (less, "are missing")) if names]
    return f"{VARIABLE}: kernels are those of {named}; of them {', '.join(said) or 'none is another'}"


def _rows(place: Path) -> dict:
    """Kernels and functions of a folder, whatever they are called."""
    found = seal.read(files.read(place / MANIFEST, MOST_OF_MANIFEST, place), known=SEAL)
    return {**found["functions"], **found["kernels"]}


@lru_cache(maxsize=None)
def _overlay(place: Path) -> dict:
    """{kernel: {target: (row, folder)}} of the images that the user built beside those of a folder."""
    found = _manifest(place)
    return overlay.rows(_seal(place), {**found["functions"], **found["kernels"]})


def overlaid() -> str:
    """What the user's overlay adds, in words."""
    added = _overlay(ptx_dir())
    targets = sorted({target for images in added.values() for target in images})
    count = sum(map(len, added.values()))
    return f"{count} images for {' '.join(targets)} in {overlay.folder(seal_in_use())}" if count else "none"


@lru_cache(maxsize=None)
def _kernels(place: Path) -> dict:
    added = _overlay(place)
    return {name: Kernel(name, row, place, added.get(name))
            for name, row in _manifest(place)["kernels"].items()}


@lru_cache(maxsize=None)
def _functions(place: Path) -> dict:
    added = _overlay(place)
    return {name: Kernel(name, row, place, added.get(name))
            for name, row in _manifest(place).get("functions", {}).items()}


def names() -> list[str]:
    """The names of all kernel variants, sorted."""
    return sorted(_kernels(ptx_dir()))


def has(name: str) -> bool:
    """Whether there is a kernel variant ``name``."""
    return name in _kernels(ptx_dir())


def get(name: str) -> "Kernel":
    """The kernel variant ``name``."""
    return _find(_kernels(ptx_dir()), name, "kernel")


def function(name: str) -> "Kernel":
    """A library of device functions for the splicer; only ``image_for`` makes sense on it."""
    return _find(_functions(ptx_dir()), name, "function library")


def _find(table: dict, name: str, kind: str) -> "Kernel":
    try:
        return table[name]
    except (KeyError, TypeError):
        if not isinstance(name, str):
            raise BadParam(f"kernels: name must be a text; got {shown(name)}") from None
        from difflib import get_close_matches
        near = ", ".join(get_close_matches(name[:200], table)) or f"{len(table)} others"
        called = name if name.isidentifier() else shown(name)
        raise NotSupported(f"{kind} {called} must be in {ptx_dir() / MANIFEST}; there are {near}. "
                           f"Build it with `{BUILD} --only {called}`") from None


@lru_cache(maxsize=None)
def _axis(place: Path, source: str, name: str) -> tuple:
    rows = _manifest(place)["kernels"].values()
    axes = (row["axes"] for row in rows if row["source"] == source)
    return tuple(dict.fromkeys(found[name] for found in axes if name in found))


def axis(source: str, name: str) -> tuple:
    """The values that the variants of a source ("softmax/softmax_fwd_warp.cu")
    have on one axis; () where it has none."""
    return _axis(ptx_dir(), source, name)


def reload():
    """Forget what was read: the manifest has changed on disk."""
    for cache in (_place, _manifest, _problems, _overlay, _kernels, _functions, _axis, _seal):
        cache.cache_clear()


def verify() -> list[str]:
    """Read every image and compare its hash with the manifest; the sentences of what is wrong."""
    wrong = []
    for kernel in [*_kernels(ptx_dir()).values(), *_functions(ptx_dir()).values()]:
        for image in kernel.images.values():
            try:
                image.text()
            except InternalError as error:
                wrong.append(str(error))
    return wrong


# ---- One kernel ----

class Kernel:
    """One kernel variant: a row of the manifest, ready to use. ``added``: {target: (row of an image,
    folder)} of an overlay."""

    def __init__(self, name: str, row: dict, place: Path, added=None):
        self._added = added or {}
        self.name, self.row, self.place = name, row, place
        self.about, self.source, self.axes = row["about"], row["source"], row["axes"]
        self.marks = tuple(row.get("marks", ()))

    def __repr__(self):
        return f"Kernel({self.name}: {', '.join(self.images)})"

    @property
    def problems(self) -> tuple:
        """Problem lines that launch it."""
        return _problems(self.place).get(self.name, ())

    @once
    def offsets(self) -> tuple:
        """Where in the parameter block each parameter begins."""
        return tuple([row["offset"] for row in self.row["params"]])

    @once
    def images(self) -> dict[str, Image]:
        """The images by target."""
        facts_of = lambda row: {k: tuple(v) if k == "lies" else v for k, v in row.items() if k != "file"}
        mine = {target: (row, self.place) for target, row in self.row["images"].items()}
        return {target: Image(target, place / row["file"], place, **facts_of(row))
                for target, (row, place) in {**mine, **self._added}.items()}

    def image_for(self, sm: int) -> Image:
        """The best image for a device of compute capability ``sm`` (75, 90, 120)."""
        target = pick_target(self.images, sm)
        if target is None:
            raise NotSupported(f"{self.name}: the device is sm_{sm} and the images are for "
                               f"{', '.join(self.images)}. "
                               f"Build one with `cydnn ptx {self.name} --build --arch sm_{sm}`")
        return self.images[target]

    @property
    def param_bytes(self) -> int:
        return self.row["param_bytes"]

    @once
    def fuse_offset(self) -> int | None:
        """Where the parameters of what is spliced in begin; they may need more bytes than the block has."""
        return next((row["offset"] for row in self.row["params"] if row["type"] == "Fuse"), None)

    @once
    def _packers(self) -> list:
        with self._contract():
            return [Packer(self.name, row) for row in self.row["params"] if row["type"] != "Fuse"]

    @contextmanager
    def _contract(self):
        """What cannot be is the manifest's fault, not the caller's."""
        try:
            yield
        except ValueError as error:
            raise InternalError(f"{self.name}: its contract must be right; got {error}. Build it with "
                                f"`{BUILD}`") from None

    @once
    def _shape(self) -> tuple:
        with self._contract():
            lists = [tuple(map(expression, self.row[key])) for key in ("needs", "grid", "block")]
            return *lists, expression(self.row["smem"])

    def smem_bytes(self, **values) -> int:
        """Dynamic shared memory of a block, where the names of the contract's expression have these
        values."""
        return int(self._shape[-1]({**self.axes, **values}))

    def pack(self, args: dict, **extra) -> Packed:
        """Pack ``args``, one value for each parameter by name, and evaluate the launch shape.

        Pointers: a Pointer (patched at execute), None (null) or an address. Numbers: as declared; int,
        int64_t, float and double also a Scalar (patched at execute), Number<T> a Pointer too. FastDiv: the
        divisor. Array<T, N>: N values. CUtensorMap: a TensorMap. Fuse: left out. ``extra``: the contract's
        extra names.
        Raises BadParam for a wrong argument and NotSupported when a need of the contract does not hold.
        """
        values, block = self._names_and_block(args, extra)
        later = {"pointers": [], "scalars": [], "maps": []}
        for packer in self._packers:
            seen = packer.put(block, args[packer.name], later)
            if seen is not None:
                values[packer.name] = seen
        grid, threads, smem = self._launch_shape(values)
        attributes = Attributes(self._cluster_of(values, grid), self._is_cooperative(values),
                                self.row.get("dependent", False))
        return Packed(data=bytes(block), grid=grid, block=threads, smem=smem, attributes=attributes, **later)

    def _names_and_block(self, args, extra):
        wanted, others = {packer.name for packer in self._packers}, set(self.row["extra"])
        for given, names, what in ((args, wanted, "arguments"), (extra, others, "extra names")):
            if given.keys() != names:
                missing, unknown = sorted(names - given.keys()), sorted(given.keys() - names)
                raise BadParam(f"{self.name}: {what} must be {', '.join(sorted(names)) or 'none'}; got "
                               f"{', '.join(unknown) if unknown else 'no ' + ', '.join(missing)}")
        return {**self.axes, **extra}, bytearray(self.row["param_bytes"])

    def _is_cooperative(self, values) -> bool:
        """As the contract says: always, or where its expression is not 0."""
        said = self.row.get("cooperative", False)
        return said if isinstance(said, bool) else bool(expression(said)(values))

    def _cluster_of(self, values, grid):
        """The cluster of the contract, None where it has none or a block is alone."""
        if "cluster" not in self.row:
            return None
        cluster = tuple(int(expression(text)(values)) for text in self.row["cluster"])
        if min(cluster) < 1 or prod(cluster) > MOST_OF_CLUSTER:
            raise NotSupported(f"{self.name}: cluster must have 1 … {MOST_OF_CLUSTER} blocks; "
                               f"got {cluster}")
        if any(g % c for g, c in zip(grid, cluster)):
            raise NotSupported(f"{self.name}: grid must be a multiple of the cluster {cluster}; got {grid}")
        return cluster if prod(cluster) > 1 else None

    def _launch_shape(self, values):
        needs, grid, block, smem = self._shape
        try:
            for need in needs:
                if not need(values):
                    raise NotSupported(f"{self.name}: needs {need.text}; got {need.show(values)}")
            grid, block = (tuple(int(size(values)) for size in sizes) for sizes in (grid, block))
            smem = int(smem(values))
        except ValueError as error:
            if isinstance(error, NotSupported):
                raise
            raise BadParam(f"{self.name}: {error}") from None
        for axis, size, limit in zip("xyz", grid, GRID_LIMITS):
            if not 1 <= size <= limit:
                raise NotSupported(f"{self.name}: grid.{axis} must be in 1 … {limit}; got {size}")
        if not 1 <= block[0] * block[1] * block[2] <= 1024:
            raise NotSupported(f"{self.name}: a block must have 1 … 1024 threads; got {block}")
        return grid, block, smem
