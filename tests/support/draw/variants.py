"""One kernel of every source, or of every source and type; and its text."""
from __future__ import annotations

from collections import defaultdict

from cydnn import kernels
from cydnn.bench import trial as debug

from .cases import SERVING


def by_source() -> list[list[str]]:
    """The variants of every kernel source; those of an axis that is nothing or a word (``_pairs``) apart."""
    found = defaultdict(list)
    for name in SERVING:
        kernel = kernels.get(name)
        words = [value for value in map(str, kernel.row["axes"].values()) if not value or value[0] == "_"]
        found[kernel.source, *words].append(name)
    return [names for _, names in sorted(found.items())]


def representatives() -> list[str]:
    """One variant of every kernel source: the middle one by name."""
    return [names[len(names) // 2] for names in by_source()]


def smallest() -> list[str]:
    """One variant of every kernel source: the one whose image has fewest bytes, so the quickest."""
    return [min(names, key=_size) for names in by_source()]


def of_each_type() -> list[str]:
    """The same of every source and type of its elements."""
    found = defaultdict(list)
    for names in by_source():
        for name in names:
            axes = kernels.get(name).axes
            found[names[0], axes.get("T", axes.get("V"))].append(name)
    return [min(names, key=_size) for names in found.values()]


def _size(name: str) -> tuple:
    return kernels.get(name).image_for(sm_of(name)).bytes, name


def sm_of(name: str) -> int:
    return int(debug.target_of(kernels.get(name))[3:])


def text_of(name: str) -> str:
    """The PTX that the kernel's device would run."""
    return kernels.get(name).image_for(sm_of(name)).text().decode()
