"""Every shipped image on one card: those for older targets as on an older GPU."""
from __future__ import annotations

from dataclasses import replace

from cydnn import kernels
from cydnn.kernels import pick_target

OLDER = {75: 65536, 80: 166912}                  # target: bytes of shared memory of a block there
NEWEST = 90


def as_if(gpu, sm: int):
    """The GPU with the facts of an older one, so that plans take the images which that would load."""
    if sm >= gpu.facts.sm:
        return gpu
    older = object.__new__(type(gpu))
    older.__dict__.update(vars(gpu), name=f"{gpu.name} as sm_{sm}",
                          facts=replace(gpu.facts, sm=sm, smem_bytes=OLDER[sm]))
    return older


def names(sm: int, among=None) -> list:
    """The kernels that have an image for ``sm`` which no newer card would take; all that run, for the
    newest."""
    found = []
    for name in kernels.names() if among is None else among:
        images = kernels.get(name).images
        target = pick_target(images, sm)
        if target and (sm == NEWEST or target == f"sm_{sm}" != pick_target(images, NEWEST)):
            found.append(name)
    return found


def every() -> list[tuple]:
    """(kernel, sm) of each image."""
    return [(name, sm) for sm in (*OLDER, NEWEST) for name in names(sm)]
