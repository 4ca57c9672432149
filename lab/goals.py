"""The goals of docs/reliability.md that need a GPU, and which tests show each."""
from __future__ import annotations

import re
from typing import NamedTuple


class Goal(NamedTuple):
    """``tests``: a pattern over file::function; ``gigabytes``: GPU memory that one worker needs."""
    about: str
    tests: str
    gigabytes: int = 0


GOALS = {
    "R23": Goal("errors on the GPU are told by name", "gpu/test_told_errors"),
    "R13": Goal("a late producer, only an event between", "gpu/test_streams.*producer"),
    "R14": Goal("captured, replayed, updated", "gpu/.*(replayed|captured)"),
    "R4": Goal("gradients are adjoint", "gpu/test_adjoint_identity"),
    "R11": Goal("the same bits under load", "gpu/.*same_bits"),
    "R8": Goal("more than 2^31 elements", "gpu/test_large_tensors", 34),
    "R7": Goal("compute-sanitizer, four tools", "gpu/test_sanitizer"),
    "R16": Goal("memory of another device is refused", "gpu/test_two_devices"),
    "R5": Goal("corners and special values", "gpu/test_corners"),
    "R6": Goal("every kernel between guard zones", "gpu/test_every_kernel"),
    "R12": Goal("the bits of the interpreter", "gpu/test_bits"),
    "R1": Goal("random problems", "gpu/test_(random_problems|tile_program|column_sums)"),
    "calls": Goal("what a call and a launch can carry", "gpu/"),
    "others": Goal("tests beside those of tests/gpu", ""),
}
LARGE = {name for name, goal in GOALS.items() if goal.gigabytes}


def goal_of(test: str) -> str:
    """The first goal whose pattern a test's file::function has in it; its parameters do not count."""
    name = test.partition("[")[0].partition("tests/")[2]
    return next(goal for goal, row in GOALS.items() if re.match(row.tests, name))
