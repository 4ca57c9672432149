"""Faults in shipped kernels: one instruction in the PTX that a device runs is another, or none."""
from __future__ import annotations

from cydnn import kernels


def plant(device, name: str, instruction: str, nth: int = 0, other: str = ""):
    """In kernel ``name`` as ``device`` runs it: in place of number ``nth`` of the instructions whose words
    ``instruction`` is in, up to its semicolon, there is ``other``."""
    text, place = kernels.get(name).image_for(device.facts.sm).text().decode(), -1
    for _ in range(nth + 1):
        place = text.index(instruction, place + 1)
    device.replaced[name] = text[:place] + other + text[text.index(";", place) + 1:]


def change(device, name: str, line: str, old: str, new: str):
    """In kernel ``name`` as ``device`` runs it, lines that begin with ``line``, spaces aside, have ``new`` in
    place of ``old``. Raises ValueError where none does."""
    text = kernels.get(name).image_for(device.facts.sm).text().decode()
    begins = lambda row: " ".join(row.split()).startswith(line)
    rows = [row.replace(old, new) if begins(row) else row for row in text.split("\n")]
    if (other := "\n".join(rows)) == text:
        raise ValueError(f"{name}: no line begins with {line!r} and has {old!r}")
    device.replaced[name] = other
