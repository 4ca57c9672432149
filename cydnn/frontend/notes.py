"""Names and notes of choices, by the names of the API, and filters over them."""
from __future__ import annotations

from dataclasses import dataclass, field

from ..engines import BY_INDEX, COMPOSITE
from ..given import several, shown
from ..heuristics import Choice
from ..status import BadParam
from .enums import behavior_note, member, numerical_note


def name_of(choice: Choice) -> str:
    """The engines with their configurations, such as
    ``110:conv_fprop_mma[tile=m128n256]+270:pointwise_vector``."""
    parts = "+".join(f"{p.engine}[{p.config}]" if p.config else str(p.engine) for p in choice.parts)
    return f"{COMPOSITE}({parts})" if choice.is_composite else parts


def notes_of(choice: Choice) -> set:
    """Every note of a choice. An engine's own notes are named like those of the API."""
    words = {*choice.notes, *(() if "deterministic" in choice.notes else ("nondeterministic",))}
    return {note for kind in (behavior_note, numerical_note) for note in kind if note.name.lower() in words}


OF_ENGINES = {note for engine in BY_INDEX.values() for note in engine.notes}
ASKED = {note for engine in BY_INDEX.values() for note in engine.only_for}


@dataclass
class Filter:
    """Which choices are left: by notes, by parts of the name, by workspace."""
    needed: set = field(default_factory=set)
    barred: set = field(default_factory=set)
    names: list = field(default_factory=list)
    workspace_bytes: int | None = None

    def add(self, method: str, kind: type, notes, is_needed: bool):
        """Notes that a choice must have, or must not."""
        for note in several(f"{method}: notes", notes, kind.__name__):
            (self.needed if is_needed else self.barred).add(member(method, "notes", kind, note))

    def bar(self, names):
        """Parts of names that a choice must not have."""
        given = several("deselect_engines: names", names, "parts of plan names")
        if not all(isinstance(name, str) for name in given):
            raise BadParam(f"deselect_engines: names must be a list of parts of plan names; "
                           f"got {shown(names)}")
        self.names += given

    @property
    def asked(self) -> tuple:
        """Needed notes whose engines serve only where a wish names them."""
        return tuple(sorted(ASKED & {note.name.lower() for note in self.needed}))

    @property
    def unasked(self) -> tuple:
        """Barred notes that engines have: those that have one need not be asked."""
        return tuple(sorted(OF_ENGINES & {note.name.lower() for note in self.barred}))

    def lets(self, choice: Choice) -> bool:
        """The choice is left."""
        whole = name_of(choice) if self.names else ""
        if any(name in whole for name in self.names):
            return False
        if self.needed or self.barred:
            notes = notes_of(choice)
            if self.needed - notes or self.barred & notes:
                return False
        return self.workspace_bytes is None or choice.workspace_bytes <= self.workspace_bytes

    def __str__(self):
        words = [f"selected {n.name}" for n in self.needed] + [f"deselected {n.name}" for n in self.barred]
        words += [f"deselected {name!r}" for name in self.names]
        if self.workspace_bytes is not None:
            words.append(f"at most {self.workspace_bytes} bytes of workspace")
        return ", ".join(words) or "nothing was deselected"
