"""How processes end that have used a GPU: with handles alive, with a driver that is gone, forked, spawned.
What several processes and threads do with one cache, and what happens where nothing can be written. Each in a
process of its own, on the fake driver."""
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cydnn.device import assembled
from support.guard import threads

ROOT = Path(__file__).parents[2]
PROCESSES = 16
ALIVE = '''
import atexit, ctypes, sys, threading, time
fake = ctypes.CDLL(sys.argv[1])
sys.path.insert(0, "tests/core/fake")
atexit.register(lambda: [call() for call in calls.paths.values()])
from cydnn import _core, cudnn as c, device
from paths import Calls

def nothing_on(*what):
    pass

calls, local = Calls(), threading.local()
calls.run()
cycle = [Calls(1), _core.Stream(calls.place.context), _core.Event(calls.place.context)]
cycle.append(cycle)
local.handle, sys.modules["sys"].kept = c.create("cuda:0"), [_core.Buffer(calls.place.context, 64)]

class Late:
    """Used when modules are taken apart."""
    def __init__(self):
        self.execute, self.destroy, self.handle = calls.paths["tape"], c.destroy, c.create("cuda:0")
    def __del__(self):
        try:
            self.execute(), self.destroy(self.handle)
        except Exception as error:
            if not self.is_gone:
                raise

late = Late()
late.is_gone = sys.argv[2] != "works"
'''
RUNS = '''                                     # for ever: then what it uses is not taken apart
running = threading.Event()

def work():
    while True:
        calls.paths["v5 softmaxForward"](), running.set()

threading.Thread(target=work, daemon=True).start()
running.wait()
'''
SILENT = "threading.excepthook = nothing_on\natexit._clear()\n"         # what the program itself would say
ENDS = {
    "works": "",
    "gone": SILENT + "atexit.register(lambda: fake.fake_last_for_ever(4))\n",
    "lost": RUNS + SILENT + "fake.fake_last_for_ever(700)\n",
}


def run(code, *args, **env):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CYDNN_")}
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.run([sys.executable, "-c", code, *map(str, args)], cwd=ROOT, capture_output=True,
                          text=True, timeout=600, env={**kept, "PYTHONPATH": path, **env})


@pytest.mark.parametrize("end", ENDS)
def test_a_process_ends_without_a_word(driver, end):
    """Handles in modules, cycles, thread locals and threads that still run; calls at exit and later."""
    out = run(ALIVE + ENDS[end] + "print('end', flush=True)", driver, end)
    assert (out.returncode, out.stdout, out.stderr) == (0, "end\n", "")


FORKS = '''
import ctypes, multiprocessing, os, sys
fake = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else os.environ["FAKE"])
sys.path.insert(0, "tests/core/fake")
import numpy as np
from cydnn import _core, cudnn as c, device
from cydnn.status import CydnnError
from paths import Calls

def on_numpy():
    x, y = np.ones(4, np.float32), np.empty(4, np.float32)
    handle, desc = c.create("numpy"), c.createTensorDescriptor()
    c.setTensor4dDescriptor(desc, 0, 0, 1, 4, 1, 1)
    c.softmaxForward(handle, 1, 0, 1.0, desc, x, 0.0, desc, y)
    assert (y == .25).all()

calls = Calls()
calls.run()
fake.fake_reset()
books = [fake.fake_live(kind) for kind in (b"contexts", b"modules", b"streams", b"events", b"blocks")]
for _ in range(3):
    child = os.fork()
    if not child:
        gpu = [*calls.paths.values(), lambda: c.create(device.get("cuda:1")), calls.place.synchronize,
               lambda: calls.place.alloc(16), _core.device_count]
        for call in gpu:
            try:
                call()
                print("works", call)
            except CydnnError as error:
                if "process was forked after CUDA was initialised: start it with spawn" not in str(error):
                    print(type(error), error)
        on_numpy()
        sys.exit(7)                              # as children of multiprocessing end
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 7
calls.run(), calls.place.synchronize()
assert books == [fake.fake_live(kind) for kind in (b"contexts", b"modules", b"streams", b"events", b"blocks")]
print("end", flush=True)
'''


def test_a_forked_child_is_told_and_its_parent_works_on(driver):
    """Every path, and the NumPy device beside; a child ends as any Python does."""
    out = run(FORKS, driver)
    assert (out.returncode, out.stdout, out.stderr) == (0, "end\n", "")


SPAWN = '''
import ctypes, multiprocessing, os, sys
fake = ctypes.CDLL(os.environ["FAKE"])
sys.path.insert(0, "tests/core/fake")
from paths import Calls

def child(number):
    calls = Calls(number % 2)
    calls.run()
    return calls.place.name

if __name__ == "__main__":
    Calls().run()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(child, range(2)), flush=True)
'''


def test_spawned_children_of_a_process_that_uses_a_gpu_work(driver, tmp_path):
    script = tmp_path / "spawns.py"
    script.write_text(SPAWN)
    out = run(f"import runpy, sys; sys.argv = [{str(script)!r}]; runpy.run_path({str(script)!r}, "
              "run_name='__main__')", FAKE=str(driver))
    assert (out.returncode, out.stdout, out.stderr) == (0, "['cuda:0', 'cuda:1']\n", "")


# -- One cache, many processes; nothing that can be written --------------------------------------------------

def keep_and_find(number):
    """What one of many does with one entry; the codes that it saw."""
    text, seen = b"one text", set()
    for _ in range(20):
        assembled.keep(text, 80, bytes([number]) * 5000)
        found = assembled.find(text, 80)
        seen.add(None if found is None else (len(found), len(set(found))))
    return seen


def test_processes_and_threads_race_for_one_entry_of_the_cache(tmp_path, monkeypatch):
    """Each finds a whole one, from the first time on; nothing else is left."""
    monkeypatch.setenv("CYDNN_CACHE", str(tmp_path / "new" / "folder"))
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        assert set().union(*pool.map(keep_and_find, range(PROCESSES), chunksize=1)) == {(5000, 1)}
    found = []
    assert threads.together(lambda number: found.append(keep_and_find(number)), PROCESSES) == []
    assert set().union(*found) == {(5000, 1)} and len(list((tmp_path / "new" / "folder").iterdir())) == 1


QUIET = '''
import ctypes, sys
fake = ctypes.CDLL(sys.argv[1])
sys.path.insert(0, "tests/core/fake")
from paths import Calls
Calls().run(2)
print("end", flush=True)
'''


@pytest.mark.parametrize("home, log, words", [
    ("/dev/null/home", "/dev/full", "No space left on device"),
    ("/proc/1", "/proc/none/cydnn.log", "No such file or directory")], ids=("full disk", "no folder"))
def test_where_nothing_can_be_written_everything_works_and_one_line_says_so(driver, home, log, words):
    """No home for a cache, no file for a log."""
    out = run(QUIET, driver, HOME=home, XDG_CACHE_HOME="", CYDNN_LOG="3", CYDNN_LOG_FILE=log)
    assert (out.returncode, out.stdout) == (0, "end\n"), out.stderr
    assert out.stderr.count("RuntimeWarning: CYDNN_LOG_FILE: no more lines are written: ") == 1
    assert words in out.stderr and out.stderr.count("\n") <= 2, out.stderr
