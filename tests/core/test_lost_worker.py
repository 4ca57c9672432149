"""A test process that loses its GPU is replaced, and the record has every case (tests/conftest.py)."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = '''
import ctypes, pytest

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("number", range(12))
def test_one(number, gpu, family_counts):
    family_counts[f"some/{number}"] = dict(problems=1)
    if number == 3:
        ctypes.CDLL("libcuda.so.1").fake_last_for_ever(700)
        gpu.synchronize()
    gpu.alloc(16)
'''


def test_others_go_on(driver, tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "CYDNN_"))}
    loaded = f"{env.get('LD_PRELOAD', '')} {driver}".strip()         # behind a sanitizer's
    env |= dict(LD_PRELOAD=loaded, CYDNN_RECORD=str(tmp_path / "part.jsonl"),
                PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "tests")]))
    words = ["-q", "-p", "lab.session", "-p", "no:cacheprovider", "-n", "1", "-o", "markers=gpu"]
    ran = subprocess.run([sys.executable, "-m", "pytest", *words, "--rootdir", str(tmp_path), "test_some.py"],
                         cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in (tmp_path / "part.jsonl").read_text().splitlines()]
    cases = {case["test"]: case for case in lines}
    failed = [test for test, case in cases.items() if case["outcome"] == "failed"]
    assert failed == ["test_some.py::test_one[3]"], ran.stdout[-3000:] + ran.stderr[-2000:]
    assert len(cases) == 12 and all(case["counts"] == dict(problems=1) for case in cases.values()
                                    if case["outcome"] == "passed")
