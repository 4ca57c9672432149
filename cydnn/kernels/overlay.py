"""Images that the user built for another card, in the user's cache folder, beside those of the manifest.

``cydnn ptx --build --arch sm_120`` puts them there, as a folder like ``ptx/`` for each manifest: its own is
sealed, each image has its hash. An overlay adds targets; it changes no image that is shipped.
"""
from __future__ import annotations

import logging
import os
from pathlib import Path

from .. import files
from . import seal

MANIFEST, MOST = "manifest.json", 1 << 26
COMPILED = ("source", "source_sha256", "axes", "params", "block")    # of a row: what an image is made from
log = logging.getLogger("cydnn.kernels")


def folder(of: str) -> Path:
    """Where the overlay of a manifest with this seal lies, present or not."""
    return files.cache_folder() / "ptx" / of[:16]


def rows(of: str, shipped: dict) -> dict:
    """{kernel: {target: (row of an image, folder)}} of the overlay, where its kernels are those that are
    shipped. One that is changed, or somebody else's, is left alone, with a warning."""
    try:
        place = folder(of)
        if not (place / MANIFEST).is_file():
            return {}
        files.check_own(place)
        found = seal.read(files.read(place / MANIFEST, MOST, place))
    except (OSError, RuntimeError):              # also where the user has no home
        return {}
    except ValueError as error:
        log.warning("the overlay %s is not used: it %s", place, error)
        return {}
    added: dict = {}
    for name, row in {**found["functions"], **found["kernels"]}.items():
        usual = shipped.get(name)
        if usual and all(row[key] == usual[key] for key in COMPILED):
            more = {t: (image, place) for t, image in row["images"].items() if t not in usual["images"]}
            added.update({name: more} if more else {})
    return added


def tool() -> Path | None:
    """What compiles the sources: of a wheel, or of the repository."""
    package = Path(__file__).resolve().parents[1]
    places = [package / "_build" / "tools", package.parent / "tools"]
    return next((p / "build_ptx.py" for p in places if os.path.isfile(p / "build_ptx.py")), None)
