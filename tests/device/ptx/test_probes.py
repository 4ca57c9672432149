"""Every form of the interpreter's opcode tables is probed, word for word, or stands
here with the reason why not."""
from __future__ import annotations

import re

import pytest

from cydnn.device.ptx import code  # noqa: F401  (fills the tables)
from cydnn.device.ptx.table import TABLE
from support.opcodes import PROBES

HINT = "a hint to the caches: the value of the same load or store without it is probed"
REFUSED = "ptxas refuses it with the other words of this row"
PARAMETER = "every probe reads its parameters so; another form of the same load"
ORDER = "orders what others see; no value of its own"
TIME = "of timing or resources; no value of its own"
COPY = ("asynchronous; moves bytes as they are, run in test_hopper.py with its barriers, "
        "and by the Hopper kernels on the GPU")
SM100 = "needs sm_100 or an architecture of its own; the H200 cannot say"

# (opcode, or opcode and a fixed word of the row; a word of the row, or * for a row
# that no probe has at all) -> why not
EXCEPTIONS = {
    **{(name, "*"): ORDER
       for name in ("membar", "fence", "mbarrier", "bar arrive", "barrier arrive", "barrier cluster")},
    **{(name, "*"): HINT for name in ("prefetch", "prefetchu", "applypriority", "discard")},
    **{(name, "*"): TIME for name in ("setmaxnreg", "griddepcontrol", "nanosleep", "pmevent", "mov clock")},
    **{(name, "*"): COPY for name in ("cp bulk", "cp mbarrier", "st mbarrier::complete_tx::bytes")},
    ("trap", "*"): "ends the kernel",
    ("redux f32", "*"): SM100,
    **{("fence", word): ORDER for word in ("global", "shared::cluster")},
    **{(name, "L2::cache_hint"): HINT for name in ("ld", "st", "atom", "red", "cp global")},
    ("ld", "v8"): SM100, ("st", "v8"): SM100,
    **{("ld", word): PARAMETER for word in ("param", "param::entry")},
    **{("ld", word): REFUSED for word in ("param::func", "const", "mmio", "release")},
    **{("st", word): REFUSED for word in ("acquire", "mmio")},
    **{("red", word): REFUSED for word in ("acquire", "acq_rel", "exch", "cas", "b16")},
    **{("ldu", t): "the load of ld, of which every type is probed"
       for t in ("v2", "b8", "u8", "s8", "b16", "u16", "s16", "b32", "s32", "b64", "u64", "s64", "f64")},
    **{(name, t): REFUSED for name in ("add cc", "sub cc", "addc", "subc") for t in ("b32", "b64")},
    **{("selp", t): REFUSED for t in ("f16", "bf16")}, ("tanh", "ftz"): REFUSED,
    **{("set", word): REFUSED for word in ("lo", "ls", "hi", "hs")},
    **{("cvt pack", t): REFUSED for t in ("s8", "u8")}, ("cvta", "u32"): REFUSED,
    ("mma", "satfinite"): REFUSED, ("bar", "aligned"): REFUSED,
    **{("cvta", word): "of constants and parameters, which lie in no window of their own"
       for word in ("const", "param", "param::entry")},
    **{(f"setp {join}", word): "the comparison of the form without a join, of which every one is probed"
       for join in ("and", "or", "xor") for word in "eq le gt lo ls hi hs num nan equ neu ltu leu gtu geu "
                                                    "ftz b16 b32 b64 s16 u16 u32 s64 f16 bf16".split()},
    **{("wgmma s32", f"m64n{n}k32"): REFUSED for n in range(40, 249, 16)}}


def walk(words, pattern):
    """The (place, word) pairs of an opcode in a row, or None where it is no opcode of the row."""
    used, at = [], 0
    for place, (choices, optional) in enumerate(pattern):
        if at < len(words) and words[at] in choices:
            used.append((place, words[at]))
            at += 1
        elif not optional:
            return None
    return used if at == len(words) else None


def rows(name):
    """The rows of an opcode: (choices, is optional) for each word."""
    for *_, pattern in TABLE[name]:
        bodies = [re.fullmatch(r"(?:\w+:(?!:))?(.*)", word).group(1) for word in pattern.split()[1:]]
        yield [(body.removesuffix("?").split("|"), body.endswith("?")) for body in bodies]


def unprobed(name):
    """(ways to name the row, word) of what no probe has, and the opcodes of probes that no row has."""
    probed = sorted({o for p in PROBES for o in p.opcodes if o.split(".")[0] == name})
    missing, left = [], set(probed)
    for pattern in rows(name):
        used = {opcode: found for opcode in probed
                if (found := walk(opcode.split(".")[1:], pattern)) is not None}
        left -= set(used)
        seen = set().union(*used.values())
        names = [name, *(f"{name} {choices[0]}" for choices, _ in pattern if len(choices) == 1)]
        words = [word for place, (choices, _) in enumerate(pattern)
                 for word in choices if (place, word) not in seen]
        missing += [(names, word) for word in (words if used else ["*"])]
    return missing, sorted(left)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_form_is_probed(name):
    missing, left = unprobed(name)
    missing = [f"{names[-1]}: {word}" for names, word in missing
               if not any((n, word) in EXCEPTIONS for n in names)]
    assert not missing, f"no probe has {missing}"
    assert not left, f"the interpreter has no row for the probed {left}"


def test_exceptions_are_needed():
    needed = {(n, word) for name in TABLE for names, word in unprobed(name)[0] for n in names}
    assert not set(EXCEPTIONS) - needed, "these are probed or in no row"


def test_every_probed_opcode_has_rows():
    assert not {o.split(".")[0] for p in PROBES for o in p.opcodes} - set(TABLE)
