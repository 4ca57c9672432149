"""support/guard/sanitized.py without a GPU: reports are read; what ends, hangs or fails is gone on behind."""
from __future__ import annotations

import stat
import sys

import pytest

from cydnn import kernels
from support.guard import images, sanitized

KERNEL, OTHER = "softmax_fwd_warp_f32_8", "softmax_fwd_warp_f16_8"
MEMCHECK = f"""========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at {KERNEL}+0x1b0
=========     by thread (3,0,0) in block (0,0,0)
=========     Access to 0x7f5c1ba00200 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f5c1ba00000 of size 512 bytes
=========         Host Frame: cuLaunchKernel [0x1] in libcuda.so.1
=========
words of the program itself
========= Invalid __global__ write of size 4 bytes
=========     at {KERNEL}+0x1b0
=========     by thread (4,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = f"""========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at {KERNEL}+0xa0
=========     and Read access at {KERNEL}+0x110 [64 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
TOOL = """#!{python}
import pathlib, subprocess, sys
at = sys.argv.index("--log-file")
ended = subprocess.run(sys.argv[at + 2:]).returncode
pathlib.Path(sys.argv[at + 1]).write_text({report!r})
sys.exit(ended)
"""
PROGRAM = """
import json, os, sys, time
for name, sm in json.load(open(sys.argv[1])):
    print("begin", name, sm, flush=True)
    {fault}
    print("end", name, sm, flush=True)
print("enough", flush=True)
"""
LISTED = [(KERNEL, 90), (OTHER, 90), (KERNEL, 80)]


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """tool(report, fault): a sanitizer that reports this, and a program with that fault."""
    def make(report, fault="pass"):
        path, program = tmp_path / "sanitizer", tmp_path / "program.py"
        path.write_text(TOOL.format(python=sys.executable, report=report))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        program.write_text(PROGRAM.format(fault=fault))
        monkeypatch.setattr(sanitized, "sanitizer", lambda: str(path))
        return sanitized.run("memcheck", LISTED, 60, (sys.executable, str(program)))
    return make


def test_reports_are_read():
    findings, told = sanitized.read(MEMCHECK)
    first = [text.splitlines()[0] for text in findings]
    assert told == 2 and first == ["Invalid __global__ write of size 4 bytes"] * 2
    assert "nearest allocation" in findings[0] and sanitized.kernel_of(findings[0]) == KERNEL
    (race,), told = sanitized.read(RACECHECK)
    assert told == 1 and "64 hazards" in race and sanitized.kernel_of(race) == KERNEL
    assert sanitized.read(CLEAN) == ([], 0)
    assert sanitized.read("========= Internal Sanitizer Error: x\n")[0] == ["Internal Sanitizer Error: x"]


def test_a_run_without_findings(tool):
    found = tool(CLEAN)
    assert (found.done, found.findings, found.runs) == (LISTED, {}, 1)


@pytest.mark.parametrize("report", [MEMCHECK, RACECHECK])
def test_findings_are_of_kernels_and_each_is_said_once(tool, report):
    found = tool(report)
    assert found.done == LISTED and [kernel for kernel, _ in found.findings] == [KERNEL]


@pytest.mark.parametrize("report, sentence", [
    ("", "a report without its end"),
    ("========= ERROR SUMMARY: 3 errors\n", "3 findings that cannot be read")])
def test_reports_that_are_none(tool, report, sentence):
    assert sentence in [said for _, said in tool(report).findings]


def test_a_kernel_that_ends_the_process(tool):
    """It is named, and those behind it run."""
    found = tool(CLEAN, f"if name == '{OTHER}': print('fail', 'it broke', flush=True); os._exit(1)")
    assert found.done == [(KERNEL, 90), (KERNEL, 80)] and found.runs == 2
    (said, text), = found.findings.items()
    assert said == (OTHER, "the process ended with 1") and "fail it broke" in text


def test_a_kernel_that_hangs(tool, monkeypatch):
    monkeypatch.setattr(sanitized, "SILENT", 2.0)
    found = tool(CLEAN, f"if name == '{OTHER}': time.sleep(60)")
    assert found.done == [(KERNEL, 90), (KERNEL, 80)]
    assert (OTHER, "the process nothing was heard for 2 s") in found.findings


def test_a_tool_that_does_not_start(tool, monkeypatch):
    monkeypatch.setattr(sanitized, "OPTIONS", ("--log-file",))       # so that it ends at once
    found = tool(CLEAN)
    assert found.done == [] and found.runs == 1
    assert {kernel for kernel, _ in found.findings} == {"?"} and len(found.findings) == 2


def test_every_image_is_listed_once():
    every = images.every()
    assert len(set(every)) == len(every)
    assert len(every) == sum(len(kernels.get(name).images) for name in kernels.names())
