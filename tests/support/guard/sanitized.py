"""Kernels under compute-sanitizer: one process launches many (``-m support.guard.sanitized LIST SECONDS``),
its parent reads what the tool reports and goes on behind a kernel that ends or stops the process.
"""
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cydnn import bench, kernels, plan as plans
from cydnn.device.cuda import CudaDevice
from cydnn.status import CydnnError

from . import images
from ..draw.cases import cases

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
OPTIONS = ("--print-limit", "30", "--report-api-errors", "no")
PLACES = ("/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda/compute-sanitizer/compute-sanitizer")
SILENT = 90.0                                    # seconds without a word: it hangs
SHAPES = int(os.environ.get("CYDNN_SANITIZER_SHAPES", 1))        # of each kernel
SUMMARY = re.compile(r"(?:COMPUTE-SANITIZER|[A-Z]+ SUMMARY: (\d+) |[A-Z]+ SUMMARY)")


@dataclass
class Found:
    """Of a tool: kernels that ran to their end, and what it says: {(kernel, sentence): whole text}."""
    done: list = field(default_factory=list)
    findings: dict = field(default_factory=dict)
    runs: int = 0

    def say(self, kernel, sentence, text=""):
        self.findings.setdefault((kernel, sentence), text or sentence)


# ---- The process that launches ----

def chosen(name: str, facts) -> list:
    """A kernel's cases, the small ones first."""
    return sorted(cases(name, facts), key=lambda case: case.problem.flops + case.problem.bytes)[:SHAPES]


def launch(listed, seconds: float, device):
    """Run the kernels [name, sm] as long as there is time; a line before and behind each."""
    end = time.monotonic() + seconds
    for name, sm in listed:
        if time.monotonic() > end:
            break
        print("begin", name, sm, flush=True)
        place = images.as_if(device, sm)
        for case in chosen(name, place.facts):
            once(case, place)
        plans.forget()
        print("end", name, sm, flush=True)
    print("enough", flush=True)


def once(case, device):
    """Outputs are new memory, so that it is seen who reads them; what an op keeps is there."""
    made, op = bench.Case(case.problem, device, case.wish), case.problem.op
    fresh = {name: device.alloc(max(made.buffers[name].bytes, 1)) for name in op.writes
             if name in made.buffers and name not in op.keeps}
    made.buffers.update(fresh)
    made.pointers = tuple(int(made.buffers[name].ptr) for name in made.names)
    made()
    device.synchronize()


# ---- Its parent ----

def sanitizer() -> str | None:
    return shutil.which("compute-sanitizer") or next((p for p in PLACES if Path(p).exists()), None)


def read(text: str) -> tuple[list[str], int]:
    """(findings, each with its lines; how many the tool says there are) of a report."""
    findings, told, is_open = [], 0, False
    for line in text.splitlines():
        if not line.startswith("========="):
            continue
        rest = line.removeprefix("=========").rstrip()
        if not rest.strip():
            is_open = False
        elif summary := SUMMARY.match(rest.strip()):
            told, is_open = told + int(summary[1] or 0), False
        elif rest.startswith("  ") and is_open:
            findings[-1] += "\n" + rest.strip()
        else:
            findings.append(rest.strip())
            is_open = True
    return findings, told


@lru_cache(maxsize=None)
def known() -> frozenset:
    return frozenset(kernels.names())


def kernel_of(text: str) -> str:
    """The shipped kernel that a finding names."""
    return next((word for word in re.findall(r"\w+", text) if word in known()), "?")


def take(found: Found, report: str, running):
    """What a report says, the kernel named there or else that which ran."""
    findings, told = read(report)
    for text in findings:
        first = re.sub(r"0x[0-9a-f]+|\d+", "#", text.splitlines()[0])
        name = kernel_of(text)
        found.say(running[0] if name == "?" and running else name, first, text)
    if told and not findings:
        found.say(running[0] if running else "?", f"{told} findings that cannot be read", report[-2000:])
    if "SUMMARY" not in report:
        found.say(running[0] if running else "?", "a report without its end", report[-2000:])


def watched(command, folder: Path) -> tuple[list, str]:
    """(the words of each line that a process printed, how it ended). One that says nothing is ended."""
    place, last, size = folder / "said", time.monotonic(), 0
    with place.open("w") as out:
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT / "tests",
                                 env={**os.environ, "PYTHONPATH": path}, start_new_session=True)
        while child.poll() is None:
            time.sleep(0.2)
            if place.stat().st_size != size:
                last, size = time.monotonic(), place.stat().st_size
            if time.monotonic() - last > SILENT:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                return _lines(place), f"nothing was heard for {SILENT:.0f} s"
    return _lines(place), f"ended with {child.returncode}"


def _lines(place) -> list:
    return [line.split() for line in place.read_text(errors="replace").splitlines() if line.strip()]


def run(tool: str, listed, seconds: float, program=None) -> Found:
    """Kernels [name, sm] under a tool, as many as there is time for."""
    found, left, end = Found(), list(listed), time.monotonic() + seconds
    while left and (rest := end - time.monotonic()) > 1:
        with tempfile.TemporaryDirectory() as at:
            folder = Path(at)
            (folder / "list").write_text(json.dumps(left))
            lines, how = watched([
                sanitizer(), "--tool", tool, *OPTIONS, "--log-file", str(folder / "report"),
                *(program or (sys.executable, "-m", "support.guard.sanitized")), str(folder / "list"),
                str(rest)],
                folder)
            report = folder / "report"
            text = report.read_text(errors="replace") if report.exists() else ""
        begun = [(w[1], int(w[2])) for w in lines if w[0] == "begin" and len(w) == 3]
        done = [(w[1], int(w[2])) for w in lines if w[0] == "end" and len(w) == 3]
        found.runs += 1
        found.done += done
        is_whole = ["enough"] in lines
        running = begun[-1] if len(begun) > len(done) else None
        take(found, text, running)
        if is_whole:
            break
        said = " ".join(word for words in lines[-3:] for word in words)
        found.say(running[0] if running else "?", f"the process {how}", said[-1500:])
        if not begun:                            # nothing goes here
            break
        left = left[[tuple(each) for each in left].index(begun[-1]) + 1:]
    return found


if __name__ == "__main__":
    try:
        launch(json.loads(Path(sys.argv[1]).read_text()), float(sys.argv[2]), CudaDevice(0))
    except CydnnError as error:
        print("fail", str(error)[:1000], flush=True)
        os._exit(1)
