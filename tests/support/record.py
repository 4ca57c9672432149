"""The GPU record: what ran on which device, and the hash of the sources it covered, so that a stale record
can be said. Parts of it, made by runs of one goal each, are put together."""
from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from cydnn import kernels

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests" / "records"
COVERED = ("cydnn/**/*.py", "cydnn/*.pyx", "cydnn/*.pxd")
WORDS = ("about", "source_sha256")              # of a kernel: what its image does not depend on
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
FOLDED = ("bits", "adjoint", "repeats", "delayed", "replayed", "large", "elsewhere",
          *TOOLS)                                # kinds kept as one row of sums
PART = "CYDNN_RECORD"                            # where a part goes, in place of the record
TOTALS = ("problems", "engine_runs", "wrong", "kernels", "images")


def covered_hash() -> str:
    """One hash over what a GPU run covers: the images and contracts of all kernels, and the library."""
    digest, manifest = hashlib.sha256(), json.loads((ROOT / "ptx" / "manifest.json").read_text())
    for name, row in sorted({**manifest["functions"], **manifest["kernels"]}.items()):
        facts = {key: value for key, value in row.items() if key not in WORDS}
        digest.update(f"{name} {json.dumps(facts, sort_keys=True)}".encode() + b"\0")
    for path in sorted({p for pattern in COVERED for p in ROOT.glob(pattern) if "_ptx" not in p.parts}):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def folded(families: dict) -> dict:
    """The families ``<kind>/<name>`` of each folded kind as one row: sums, and how many names there are."""
    found = {name: row for name, row in families.items() if name.partition("/")[0] not in FOLDED}
    for kind in FOLDED:
        rows = {name: row for name, row in families.items() if name.startswith(f"{kind}/")}
        if rows:
            keys = [k for k, v in next(iter(rows.values())).items() if isinstance(v, int)]
            sums = {k: sum(row[k] for row in rows.values()) for k in keys}
            found[kind] = {"kernels" if kind == "bits" else "names": len(rows), **sums}
    return found


def part(device: str, driver: str, families: dict, passed: int, failed: int, skipped: int = 0,
         failures=()) -> dict:
    """What one run found, as a record's parts are kept."""
    return dict(device=device, driver=driver, covered_sha256=covered_hash(), passed=passed, failed=failed,
                skipped=skipped, failures=list(failures), families=folded(families))


def joined(parts: dict) -> dict:
    """The record of parts {goal: part}, all of one device and one state of the sources."""
    first, families, goals = next(iter(parts.values())), {}, {}
    for goal, found in parts.items():
        families.update(found["families"])
        goals[goal] = {k: v for k, v in found.items()
                       if k not in ("device", "driver", "covered_sha256", "families")}
    bits = families.pop("bits", {})
    total = {k: sum(f.get(k, 0) for f in families.values()) for k in TOTALS}
    total["kernels_shipped"] = len(kernels.names())
    total["images_shipped"] = sum(len(kernels.get(name).images) for name in kernels.names())
    return dict(device=first["device"], driver=first["driver"], covered_sha256=first["covered_sha256"],
                tests_passed=sum(g["passed"] for g in goals.values()),
                tests_failed=sum(g["failed"] for g in goals.values()), total=total, bits=bits,
                goals=goals, families=dict(sorted(families.items())))


def write(found: dict) -> Path:
    """Write tests/records/<device>.json."""
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{found['device'].lower().replace(' ', '-')}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path


def keep(found: dict) -> str:
    """A part goes where CYDNN_RECORD says; else it is the record. What was written, for people."""
    if place := os.environ.get(PART):
        Path(place).write_text(json.dumps(found) + "\n")
        return f"part of the GPU record written: {place}"
    return f"GPU record written: {write(joined(dict(all=found)))}"


def staleness() -> list[str]:
    """One sentence for each record: what it covered, and whether the sources have changed since."""
    now, lines = covered_hash(), []
    for path in sorted(RECORDS.glob("*.json")):
        record = json.loads(path.read_text())
        state = ("covers these sources" if record["covered_sha256"] == now
                 else "is STALE: the sources have changed since; run `tools/gpu_record.py` on a GPU")
        lines.append(f"GPU record {path.stem}: {record['tests_passed']} passed, "
                     f"{record['tests_failed']} failed, {record['total'].get('problems', 0)} problems, "
                     + ", ".join(f"{what} run: {record['total'].get(what, 0)} "
                                 f"of {record['total'].get(what + '_shipped', 0)}"
                                 for what in ("kernels", "images"))
                     + f"; it {state}")
    return lines or ["GPU record: none; run `tools/gpu_record.py` on a GPU machine"]
