"""The GPU record: what ran on which device, and the hash of the sources it covered,
so that a stale record can be said."""
from __future__ import annotations

import hashlib
import json
from pathlib import Path

from cydnn import kernels

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests" / "records"
COVERED = ("kernels_src/**/*.cu", "kernels_src/**/*.cuh", "cydnn/**/*.py", "cydnn/*.pyx", "cydnn/*.pxd")


def covered_hash() -> str:
    """One hash over the sources that a GPU run covers."""
    digest = hashlib.sha256()
    for path in sorted({p for pattern in COVERED for p in ROOT.glob(pattern) if "_ptx" not in p.parts}):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def fold(families: dict) -> tuple[dict, dict]:
    """The families ``bits/<kernel>`` as one row of sums, and the others."""
    rows = [row for name, row in families.items() if name.startswith("bits/")]
    sums = {"kernels": len(rows), **{k: sum(row[k] for row in rows) for k in rows[0]}} if rows else {}
    return sums, {name: row for name, row in families.items() if not name.startswith("bits/")}


def write(device: str, driver: str, families: dict, passed: int, failed: int) -> Path:
    """Write tests/records/<device>.json. ``bits``: kernels and cases by how they compare with
    the interpreter (support/bits.py)."""
    bits, families = fold(families)
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{device.lower().replace(' ', '-')}.json"
    total = {k: sum(f.get(k, 0) for f in families.values())
             for k in ("problems", "engine_runs", "wrong", "kernels", "images")} if families else {}
    total["kernels_shipped"] = len(kernels.names())
    total["images_shipped"] = sum(len(kernels.get(name).images) for name in kernels.names())
    path.write_text(json.dumps(dict(device=device, driver=driver, covered_sha256=covered_hash(),
                                    tests_passed=passed, tests_failed=failed, total=total, bits=bits,
                                    families=dict(sorted(families.items()))), indent=1) + "\n")
    return path


def staleness() -> list[str]:
    """One sentence for each record: what it covered, and whether the sources have changed since."""
    now, lines = covered_hash(), []
    for path in sorted(RECORDS.glob("*.json")):
        record = json.loads(path.read_text())
        state = ("covers these sources" if record["covered_sha256"] == now
                 else "is STALE: the sources have changed since; run `make test` on a GPU")
        lines.append(f"GPU record {path.stem}: {record['tests_passed']} passed, "
                     f"{record['tests_failed']} failed, {record['total'].get('problems', 0)} problems, "
                     + ", ".join(f"{what} run: {record['total'].get(what, 0)} "
                                 f"of {record['total'].get(what + '_shipped', 0)}"
                                 for what in ("kernels", "images"))
                     + f"; it {state}")
    return lines or ["GPU record: none; run `make test` on a GPU machine"]
