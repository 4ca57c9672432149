"""Other processes: forked while threads build, and errors on their way through a pool."""
import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from cydnn import bench, cudnn, device, kernels, plan
from cydnn.bench import trial
from cydnn.device.ptx import Finding
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from cydnn.status import BadParam, CydnnError, NotSupported

FORKS = int(os.environ.get("CYDNN_FORKS", 20))
PATIENCE = 30                                    # seconds for a child; one that hangs does so for ever


def build(line, where="numpy"):
    return plan.build(bench.graph_of(Problem.parse(line)), where)


def child_works(handle):
    """What a child does: build and run on both devices, and on a handle of its parent."""
    for where in ("numpy", "ptx:sm_80"):
        p = build("scale_tensor 5x7 f32", where)
        buffer = device.get(where).alloc(140)
        device.get(where).copy_in(buffer.ptr, np.ones(35, np.float32))
        p.execute([int(buffer.ptr)], scalars=[2.0])
    build("softmax_fwd 61x3 f16")
    desc, x = cudnn.createTensorDescriptor(), np.ones(4, np.float32)
    cudnn.setTensor4dDescriptor(desc, 0, 0, 1, 1, 2, 2)
    with handle.turns:
        cudnn.scaleTensor(handle, desc, x, 3.0)
    assert x.tolist() == [3.0] * 4


def status_of(pid) -> int | None:
    """The exit status of a child; None when it hangs."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_process_that_builds_works():
    """Four threads build all the time; every child builds too. CYDNN_FORKS: how many."""
    stop, handle, found = threading.Event(), cudnn.create("numpy"), []

    def builds(k):
        for i in range(10 ** 9):
            if stop.is_set():
                return
            with handle.turns:
                build(f"softmax_fwd {k + 1}x{i % 5000 + 2} f32", ("numpy", "ptx:sm_80")[k % 2])

    threads = [threading.Thread(target=builds, args=(k,), daemon=True) for k in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            time.sleep(.01)
            pid = os.fork()
            if not pid:
                try:
                    child_works(handle)
                    os._exit(0)
                except BaseException:
                    os._exit(3)
            found.append(status_of(pid))
    finally:
        stop.set()
    assert found == [0] * FORKS


IMPORTING = """
import os, sys, threading, time
begun = threading.Event()

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "{module}":
            begun.set()
            time.sleep(.5)

def work():
    {work}

sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=work)
thread.start()
begun.wait()
pid = os.fork()
if not pid:
    work()
    os._exit(0)
thread.join()
end = time.monotonic() + {patience}
while not os.waitpid(pid, os.WNOHANG)[0]:
    if time.monotonic() > end:
        os.kill(pid, 9)
        sys.exit("the child hangs")
    time.sleep(.01)
"""


@pytest.mark.parametrize("module, work", [
    ("cydnn.device.ptx.check", "from cydnn import device; device.get('ptx:sm_80')"),
    ("cydnn.frontend.pygraph", "import cydnn; cydnn.pygraph"),
    ("cydnn.graph.text", "import cydnn; cydnn.frontend.pygraph(handle='numpy')")])
def test_a_fork_waits_for_what_is_imported(module, work):
    """The child found a module half imported, and its lock held by a thread that is not there."""
    text = IMPORTING.format(module=module, work=work, patience=PATIENCE)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True,
                          timeout=4 * PATIENCE)
    assert done.returncode == 0 and not done.stderr, done.stderr


def refusal():
    with pytest.raises(NotSupported) as found:
        plan.build(bench.graph_of(Problem.parse("softmax_fwd 4x8 f32")), "ptx:sm_80", Wish(engines=(999999,)))
    found.value.add_info("while it was tried")
    return found.value


def finding():
    name = "transform_transpose_f32_f32"
    text = kernels.get(name).image_for(80).text().decode().replace("bar.sync", "// bar.sync")
    where = device.get("ptx:sm_80").__class__("sm_80")
    where.replaced[name] = text
    case = trial.cases(name, where.facts)[0]
    plan.forget()
    try:
        with pytest.raises(Finding) as found:
            bench.Case(case.problem, where, case.wish)()
        return found.value
    finally:
        plan.forget()


@pytest.mark.parametrize("make", [refusal, finding, lambda: BadParam("f: x must be 1; got 2", x=2)])
@pytest.mark.parametrize("way", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_an_error_stays_what_it_is(make, way):
    error = make()
    again = way(error)
    assert type(again) is type(error) and str(again) == str(error) and again.args == error.args
    assert again.facts.keys() == error.facts.keys() and again.infos == error.infos
    for name, value in error.facts.items():
        assert str(again.facts[name]) == str(value)
    assert getattr(again, "kind", None) == getattr(error, "kind", None)


def test_every_class_of_errors_survives():
    def below(kind):
        return [kind, *(k for sub in kind.__subclasses__() for k in below(sub))]
    for kind in below(CydnnError):
        error = kind.__new__(kind, "said")
        CydnnError.__init__(error, "said", reasons=[("e", "why")])
        assert pickle.loads(pickle.dumps(error)).facts["reasons"] == [("e", "why")], kind


def _raise(make):
    raise make()


def test_a_pool_hands_errors_on():
    """A finding used to break the pool, and its parent waited for ever."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        with pytest.raises(Finding, match="race") as found:
            pool.submit(_raise, finding).result(timeout=600)
        assert found.value.kind == "race" and found.value.facts["kernel"]
        with pytest.raises(NotSupported) as found:
            pool.submit(_raise, refusal).result(timeout=600)
        assert found.value.infos == ["while it was tried"]
