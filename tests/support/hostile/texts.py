"""Texts that the library reads, misspelt: choices, configurations, contracts' expressions, switches, words of
the command line and the files that they name."""
from __future__ import annotations

import contextlib
import io

from cydnn import __main__ as command_line
from cydnn import kernels
from cydnn.device import guarded
from cydnn.engines import TABLE, Config
from cydnn.graph import Graph
from cydnn.heuristics import parse
from cydnn.kernels.expressions import Expression
from cydnn.layout import Layout

from .attack import Attack
from .damage import bytes_of
from .entries import VERBS
from .files import KERNELS, LINES, stored

MANY = 4                                         # texts of a round
HOSTILE = """__import__('os').system('true')  9**9**9**9  1<<10**9  ().__class__  lambda:0  [1 for x in y]
    f'{n}'  min(n,*[1])  'a'*10**9  n[0:1]  max()  ceil_div(1,0)  n.n.n  minmin  sizeof(f32)  sizeof('x')
    1e999  n==f16  2**n  n**-1  n<<-1  n*n*n*n  '\\ud800'  (1,2)*n  n<<n<<n  n if n else"""
HOSTILE = HOSTILE.replace("\n  ", "").split("  ")
HOSTILE += ["(" * 500, "1" * 5000, "not " * 2000 + "n", "x" * 9999, "\x00", "n + " * 900 + "n"]


def several(one):
    """A round of a few texts of a kind."""
    def texts(a: Attack):
        for _ in range(MANY):
            one(a)
    texts.__name__, texts.__doc__ = one.__name__, one.__doc__
    return texts


@several
def choices(a: Attack):
    """Choices and configurations as they stand in plans, caches and logs."""
    layout = a.random.choice(stored(a)["layouts"])
    graph: Graph = layout.graph
    made = a.call("parse", parse, a.misspelt(layout.choice.text), graph, layout.facts)
    if made is not None:
        if parse(made.text, graph, layout.facts) != made:
            a.wrong("a choice that does not parse back", made.text)
        a.call("Layout", lambda: Layout(made).to_json())
    engine = a.random.choice([e for e in TABLE if e.knobs])
    words = " ".join(f"{knob.name}={a.random.choice(knob.values or (knob.lo, knob.hi))}"
                     for knob in engine.knobs)
    a.call("Config.parse", Config.parse, a.misspelt(words), engine.knobs)
    a.call("CYDNN_DEBUG", guarded.asked, a.misspelt("sync,nan"))


@several
def expressions(a: Attack):
    """Contracts' expressions, with names, calls and numbers of any kind."""
    if "expressions" not in a.kept:
        a.kept["expressions"] = sorted({text for name in kernels.names()[::40]
                                        for text in kernels.get(name).row["needs"] + ["(n + 3) // 4"]})
    right = a.random.choice(a.kept["expressions"])
    text = a.random.choice(HOSTILE) if a.random.random() < .5 else a.misspelt(right)
    made = a.call("expression", said, lambda: Expression(text))
    if made is not None:
        a.call("expression", said,
               lambda: made(dict.fromkeys(made.names, a.random.choice((0, 1, 7, 2 ** 40, (1, 2))))))


def said(make):
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"contract: must be right: {error}") from None


# ---- The command line ----

def words(a: Attack, path: str) -> list:
    """A verb with what it takes; some of it misspelt, some left out, some twice."""
    where = a.random.choice((path, str(a.folder), "/nowhere", ""))
    ways = (["ptx", KERNELS[0], "--run", "--file", where], ["bench", "@" + where, "--repeat", "0"],
            ["bench", LINES[3], "--device", "numpy", "--repeat", "1", "--json"],
            ["ptx", KERNELS[0], "--text", "--target", "sm_80"], ["ptx", KERNELS[0], "--json"],
            ["ptx", KERNELS[0], "--run", "--line", LINES[1], "--target", "sm_75", "--seed", "1"],
            ["info", "--json" if a.random.random() < .02 else "--none"],      # which reads every image
            ["bench", LINES[3], "--device", "numpy", "--against", "torch", "--markdown"],
            ["ptx", a.misspelt(KERNELS[0])], ["explain", LINES[3], "--device", "h200", "--json"],
            ["explain", "@" + where, "--mode", "b"],
            ["tune", LINES[3], "--device", "numpy", "--dry-run", "--table", where])
    verb = a.random.choice(("info", "explain", "bench", "tune", "ptx"))
    found = list(a.random.choice([way for way in ways if way[0] == verb]))
    for _ in range(a.random.choice((0, 1, 1, 2))):
        at = a.random.randrange(len(found))
        way = a.random.random()
        found[at:at + 1] = ([a.misspelt(found[at])] if way < .6 else [] if way < .8
                            else [a.random.choice(("--json", "-1", "", "99999999999999999999", "ptx"))])
    return [w for w in found if "\x00" not in w]


def command_lines(a: Attack):
    """Files and words that the command line reads: an exit status and sentences."""
    path = a.folder / "problems.txt"
    path.write_bytes(bytes_of(a, ("\n".join(LINES) + "  # some\n").encode() * 3))
    given = words(a, str(path))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            if given and (verb := f"__main__.{given[0]}") in VERBS:
                a.drawn[verb] += 1
            a.call(" ".join(given), command_line.main, given)
        except SystemExit:                       # argparse has said what is wrong
            pass
