"""What is asked of a choice: the v5 functions, pygraph, the benchmark and the tests fill one of these."""
from __future__ import annotations

from dataclasses import dataclass

from ..engines import COMPOSITE, Config
from ..given import flag, several, shown, text, whole, wholes
from ..status import BadParam

MODES = ("a", "b", "fallback")


def _notes(where, given) -> tuple:
    return tuple([text(where, word) for word in several(where, given, "notes")])


def _or_none(read):
    return lambda where, given: None if given is None else read(where, given)


READ = dict(engines=_or_none(wholes), without=wholes, notes=_notes, without_notes=_notes, deterministic=flag,
            workspace_bytes=_or_none(whole))


@dataclass(frozen=True)
class Wish:
    """``engines``: indices that may be used (None: all; the composite alone stands for mode "fallback");
    ``without``: indices that may not. ``notes``: what every engine of the choice must say of itself,
    ``without_notes`` what none may. ``workspace_bytes``: the most it may need. Engines whose numbers differ
    from those of others (``Engine.only_for``) serve only where ``engines`` or ``notes`` names them.

    ``mode``: "a" the cost model, "b" what was measured (``tuned``), else as "a", "fallback" node by node,
    nothing fused.
    ``config``: of the one engine that takes a graph whole.
    """
    engines: tuple | None = None
    without: tuple = ()
    notes: tuple = ()
    without_notes: tuple = ()
    deterministic: bool = False
    workspace_bytes: int | None = None
    mode: str = "a"
    config: Config | None = None

    def __post_init__(self):
        if not isinstance(self.mode, str) or self.mode not in MODES:
            raise BadParam(f"wish: mode must be one of {' '.join(MODES)}; got {shown(self.mode)}")
        if not isinstance(self.config, Config | None):
            raise BadParam(f"wish: config must be a Config; got {shown(self.config)}")
        for name, read in READ.items():
            object.__setattr__(self, name, read(f"wish: {name}", getattr(self, name)))
        if self.engines == (COMPOSITE.index,):
            object.__setattr__(self, "engines", None)
            object.__setattr__(self, "mode", "fallback")

    def allows(self, engine) -> bool:
        """An engine that the wish does not leave out."""
        needed = {*self.notes, *(("deterministic",) if self.deterministic else ())}
        asked = engine.index in self.engines if self.engines is not None else (
            not engine.only_for or bool(set(engine.only_for) & set(self.notes)))
        return (asked and engine.index not in self.without
                and needed <= set(engine.notes) and not set(self.without_notes) & set(engine.notes))


ANYTHING = Wish()
