"""The room that chooses: which engines compute a graph,
in which parts and configurations, the cheapest first."""
from . import tuned
from .candidates import best, candidates
from .choice import Choice, Part
from .knobs import Range, main_part, offered, ranges, turned
from .read import parse
from .wish import ANYTHING, Wish
