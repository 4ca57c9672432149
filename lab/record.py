"""The GPU record: which test ran on which device, and the hash of what it covered.

A *case* is one test of one goal (tools/gpu_record.py). It covers the kernel sources that it launched, and the
files of the engines and operations of its plans. Cases of one function that cover the same are one row of
benchmarks/records/<device>.json. A row is stale when what it covers has changed; another file makes none so.
"""
from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections import Counter
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path

from cydnn import kernels
from cydnn.device.cuda import CudaDevice
from cydnn.engines import Engine
from cydnn.kernels import seal
from cydnn.ops import Op

from .goals import goal_of

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records"
WORDS = ("about", "source_sha256")              # of a kernel: what its image does not depend on
PART = "CYDNN_RECORD"                            # the file that gets a line for each case
GOALS = "CYDNN_RECORD_GOALS"                     # whose cases are run
GENERAL = (Engine, Op)                           # the base classes are no engine's and no operation's own
TOTALS = ("problems", "engine_runs", "wrong", "kernels", "images")
COUNTED = ("passed", "failed", "skipped")


# ---- What a case covers ----

@lru_cache(maxsize=None)
def files_of(cls) -> frozenset:
    """The files, from the root, of a class of cydnn, of those it is made from, and of what these share with
    their family and with the tile programs."""
    own = [c for c in cls.__mro__ if c.__module__.startswith("cydnn.") and c not in GENERAL]
    found, todo = set(), {c.__module__ for c in own}
    while todo:
        module = todo.pop()
        found.add(module)
        todo |= _shared(module) - found
    return frozenset(str(Path(sys.modules[module].__file__).relative_to(ROOT)) for module in found)


@lru_cache(maxsize=None)
def _shared(module: str) -> set:
    """The modules of its family and of the tile programs that a module of an engine imports from."""
    if not module.startswith("cydnn.engines."):
        return set()
    tree, package = ast.parse(Path(sys.modules[module].__file__).read_text()), module.rpartition(".")[0]
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    names = {resolve_name("." * node.level + ".".join(filter(None, (node.module, more))), package)
             for node in found for more in ("", *(alias.name for alias in node.names))}
    mine = ("cydnn.engines.tile.", f"{package}.") if package != "cydnn.engines" else ()
    return {name for name in names if name.startswith(mine) and name in sys.modules
            and not hasattr(sys.modules[name], "__path__")}


def covers(layout) -> set:
    """The kernel sources, engines and operations of a layout: files from the root."""
    launched = {step.kernel for step in layout.steps if hasattr(step, "kernel")}
    found = {f"kernels_src/{kernels.get(name).source}" for name in launched}
    if not hasattr(layout, "choice"):            # steps by hand
        return found
    found |= {f for engine in layout.choice.engines for f in files_of(type(engine))}
    return found.union(*(files_of(type(node.op)) for node in layout.graph.nodes))


_seen: set = set()                               # by the case that is running


def install():
    """Note what every plan compiled for a GPU covers."""
    compiled = CudaDevice.compile

    def compile(self, layout):
        _seen.update(covers(layout))
        return compiled(self, layout)
    CudaDevice.compile = compile


def note(files):
    """The running case covers these, too: what runs in another process is not seen."""
    _seen.update(files)


def seen() -> list:
    """What was covered since this was asked last."""
    found = sorted(_seen)
    _seen.clear()
    return found


def _kernels_of(manifest) -> dict:
    """{source: its kernels' rows, without words and where an image lies}."""
    seal.unfold(manifest)
    found: dict = {}
    for name, row in sorted({**manifest["functions"], **manifest["kernels"]}.items()):
        images = {target: image["sha256"] for target, image in row["images"].items()}
        facts = {key: value for key, value in row.items() if key not in WORDS}
        found.setdefault(f"kernels_src/{row['source']}", []).append((name, facts | {"images": images}))
    return found


@lru_cache(maxsize=None)
def hashes() -> dict:
    """{file: hash of what it is now}; of a kernel source its images and contracts."""
    digest = lambda data: hashlib.sha256(data).hexdigest()
    found = {source: digest(json.dumps(rows, sort_keys=True).encode()) for source, rows in
             _kernels_of(json.loads((ROOT / "ptx" / "manifest.json").read_text())).items()}
    for path in (ROOT / "cydnn").rglob("*.py"):
        found[str(path.relative_to(ROOT))] = digest(path.read_bytes())
    return found


def hash_of(files) -> str:
    known = hashes()
    return hashlib.sha256("".join(known.get(f, "gone") for f in files).encode()).hexdigest()[:16]


# ---- Cases, rows ----

def case(goal: str, test: str, outcome: str, seconds: float, files, counts, device: str, driver: str,
         said="") -> dict:
    """One line of a part. ``test``: file::function[parameters]; ``counts``: whole numbers to be added up;
    ``said``: why it failed, which no record keeps."""
    return dict(device=device, driver=driver, goal=goal, test=test, outcome=outcome, said=said,
                seconds=round(seconds, 2), covers=list(files), sha256=hash_of(files),
                counts={k: v for k, v in counts.items() if isinstance(v, int)})


def keep(found: dict):
    """Append a case to the part that CYDNN_RECORD names, if it names one."""
    if place := os.environ.get(PART):
        with open(place, "a") as part:
            part.write(json.dumps(found) + "\n")


def rows_of(cases) -> list:
    """Cases as rows: those of one function that cover the same, in the same state, are one."""
    rows: dict = {}
    for c in cases:
        function, _, parameters = c["test"].partition("[")
        row = rows.setdefault((c["goal"], function, tuple(c["covers"]), c["sha256"]), dict(
            goal=c["goal"], test=function, cases=[], failures=[], seconds=0.0, counts=Counter(),
            covers=c["covers"], sha256=c["sha256"], **dict.fromkeys(COUNTED, 0)))
        row["cases"].append(parameters.removesuffix("]"))
        row["failures"] += row["cases"][-1:] if c["outcome"] == "failed" else []
        row[c["outcome"]] += 1
        row["seconds"] += c["seconds"]
        row["counts"].update(c["counts"])
    return [{**row, "counts": dict(row["counts"]), "seconds": round(row["seconds"], 1)}
            for _, row in sorted(rows.items())]


def text(found: dict) -> str:
    """A record as it is written: a line for each row."""
    rows = ",\n".join(json.dumps(row, sort_keys=True) for row in found["rows"])
    head = json.dumps({key: value for key, value in found.items() if key != "rows"})
    return f'{head[:-1]}, "rows": [\n{rows}\n]}}\n'


def path_of(device: str) -> Path:
    return RECORDS / f"{device.lower().replace(' ', '-')}.json"


def read(path: Path) -> dict:
    return json.loads(path.read_text()) if path.exists() else dict(rows=[])


def merged(old: dict, cases: list) -> dict:
    """A record with the rows of these cases in the place of what it had of the same functions and
    parameters. A row of which only some cases ran again keeps the others, without their figures."""
    fresh = rows_of({(c["goal"], c["test"]): c for c in cases}.values())
    ran = {(row["goal"], row["test"], one) for row in fresh for one in row["cases"]}
    kept = []
    for row in old["rows"]:
        left = [one for one in row["cases"] if (row["goal"], row["test"], one) not in ran]
        if len(left) == len(row["cases"]):
            kept.append(row)
        elif left:
            share = len(left) / len(row["cases"])
            kept.append({**row, "cases": left, "passed": len(left), "failed": 0, "skipped": 0, "failures": [],
                         "seconds": round(row["seconds"] * share, 1), "counts": {}})
    rows = sorted(kept + fresh, key=lambda r: (r["goal"], r["test"], r["covers"]))
    return dict(device=cases[-1]["device"], driver=cases[-1]["driver"], rows=rows)


def is_stale(row) -> bool:
    """What it covers has changed, or a case of it failed."""
    return row["sha256"] != hash_of(row["covers"]) or bool(row["failed"])


def known(found: dict) -> set:
    """The tests that need not run again."""
    return {f"{row['test']}[{one}]" if one else row["test"]
            for row in found["rows"] if not is_stale(row) for one in row["cases"]}


def seconds_of(found: dict) -> dict:
    """{function: seconds that one of its cases took}."""
    took, cases = Counter(), Counter()
    for row in found["rows"]:
        took[row["test"]] += row["seconds"]
        cases[row["test"]] += len(row["cases"])
    return {test: took[test] / cases[test] for test in took}


def wanted(items, device: str) -> list:
    """The collected tests of the goals that are wanted, without those whose row on this device is of these
    sources; the cheapest first, dealt out so that each worker begins with its cheapest."""
    goals, found = os.environ[GOALS].split(), read(path_of(device))
    old = set() if os.environ.get("CYDNN_RECORD_WHOLE") == "1" else known(found)
    left = [item for item in items if goal_of(item.nodeid) in goals and item.nodeid not in old
            and item.get_closest_marker("gpu") and not item.get_closest_marker("timing")]
    cost = seconds_of(found)
    left.sort(key=lambda item: cost.get(item.nodeid.partition("[")[0], 1.0))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    return [item for first in range(workers) for item in left[first::workers]]


def summary(found: dict) -> dict:
    """The sums of a record, its rows, and the files that made rows stale."""
    rows, now = found["rows"], hashes()
    total = Counter({key: sum(row[key] for row in rows) for key in COUNTED})
    for row in rows:
        total.update({k: v for k, v in row["counts"].items() if k in TOTALS})
    stale = [row for row in rows if is_stale(row)]
    return dict(total, rows=len(rows), stale=len(stale),
                gone=sorted({f for row in stale for f in row["covers"] if f not in now}))


def staleness() -> list[str]:
    """One sentence for each record: what it covers, and how much of it is of other sources."""
    lines = []
    for path in sorted(RECORDS.glob("*.json")):
        s = summary(read(path))
        state = (f"{s['stale']} rows are STALE: run `tools/gpu_record.py` on a GPU" if s["stale"]
                 else "all of these sources")
        lines.append(f"GPU record {path.stem}: {s['passed']} passed, {s['failed']} failed, "
                     f"{s.get('problems', 0)} problems, {s.get('images', 0)} images; "
                     f"{s['rows']} rows, {state}")
    return lines or ["GPU record: none; run `tools/gpu_record.py` on a GPU machine"]
