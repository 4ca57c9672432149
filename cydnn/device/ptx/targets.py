"""Targets (``.target``) that instructions, special registers and directives need. PTX ISA,
Target ISA Notes of each; what no row names, every target has that cydnn runs on.

Rows are families of opcodes: words that stand next to one another in them, and the least target. A target
with a letter behind its number has what no other has: several names are all that have it.
"""
from __future__ import annotations

import functools
import re

from .parse import PtxError

LETTERED = "sm_90a sm_100a sm_100f sm_103a sm_103f sm_110a sm_110f sm_120a sm_120f sm_121a sm_121f"
NO_F32, SHORT = r"(?:[usf](?:8|16|64)|[us]32|bf16)", "bf16(?:x2)?"
ROWS = (
    # ---- Types ----
    (f"{SHORT}|tf32", "sm_80"),
    ("e[45]m[23](?:x2)?", "sm_89"),
    (rf"(?:add|sub|mul|set|setp|ex2|tanh|atom|red)\..*{SHORT}", "sm_90"),
    (rf"cvt\..*(?:bf16\.{NO_F32}|{NO_F32}\.bf16|ftz\.(?:sat\.)?f32\.bf16)", "sm_90"),
    (r"cvt\.rn\.(?:relu\.)?tf32|add\.[us]16x2", "sm_90"),
    (r"(?:min|max)\..*f16(?:x2)?|cvt\..*f16x2\.f32|relu|NaN", "sm_80"),
    # ---- Matrices ----
    (r"mma\..*m16n8k(?:4|16|32)|mma\..*f64", "sm_80"),
    ("stmatrix", "sm_90"),
    ("wgmma", "sm_90a"),
    # ---- Memory ----
    (r"cp\.async|mbarrier|discard|applypriority|L2::cache_hint|L2::256B", "sm_80"),
    (r"cp\.async\.bulk|st\.async|tensormap|fence\.proxy\.async", "sm_90"),
    ("expect_tx|complete_tx|try_wait", "sm_90"),
    (r"(?:atom|red)\..*v[248]", "sm_90"),
    (r"(?:ld|st)\..*(?:v8|v4\.[busf]64)", "sm_100"),
    # ---- Warps, clusters, launches ----
    ("redux", "sm_80"),
    (r"redux\..*f32", "sm_100a sm_100f sm_103a sm_103f"),
    ("elect|griddepcontrol", "sm_90"),
    (r"(?:shared::)?cluster|mapa|%\w*cluster\w*", "sm_90"),
    ("reqnctapercluster|explicitcluster|maxclusterrank", "sm_90"),
    ("setmaxnreg", LETTERED),
)
PATTERNS = [(re.compile(rf"(?:^|\.)(?:{words})(?:\.|$)"), needs) for words, needs in ROWS]


def number(target: str) -> int:
    """Of ``sm_90a`` 90; of no target 0."""
    found = re.match(r"sm_(\d+)", target)
    return int(found[1]) if found else 0


@functools.lru_cache(maxsize=4096)
def needed(word: str) -> str:
    """The target that a word asks for, "" for any: an opcode, a special register, a directive."""
    return max((needs for pattern, needs in PATTERNS if pattern.search(word)), key=number, default="")


def has(target: str, needs: str) -> bool:
    """Has a target what is there from ``needs`` on, or in those alone that ``needs`` names?"""
    return target in needs.split() if needs[-1:].isalpha() else number(target) >= number(needs)


def runs(sm: int, target: str) -> bool:
    """May a GPU of ``sm`` run a text for a target? One with an a is for it alone, with an f for its
    family."""
    least, letter = number(target), target[-1:]
    return least == sm if letter == "a" else least <= sm and (letter != "f" or least // 10 == sm // 10)


def check(module, program):
    """Raises PtxError where a program uses what its text's target does not have."""
    used = [(name, module.entries[program.name][2]) for name in (*program.specials, *program.limits)]
    for word, at in used + [(i.opcode, i.at) for i in program.code]:
        if (needs := needed(word)) and not has(module.target, needs):
            newer = "" if needs[-1].isalpha() else " or newer"
            raise PtxError(f"{module.file}:{module.line(at)}: {word} must have .target {needs}{newer}; "
                           f"got {module.target or 'none'}")
