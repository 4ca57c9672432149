"""Devices for tests, the ``gpu`` marker, and the GPU record that a run on a GPU leaves."""
from __future__ import annotations

import gc
import hashlib
import json
import os
import sys
from pathlib import Path

# A process per core is enough: NumPy's threads would wait for each other, spinning.
# The processes of xdist are started by one that has read this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

from cydnn import device as devices, plan
from cydnn.status import CydnnError

from support import again, fills, record, share, witnesses


def pytest_configure(config):
    gc.set_threshold(20_000, 50, 100)            # decoded kernels are many objects, none of them garbage
    share.begin()
    config.pluginmanager.register(witnesses.Witnesses(), "witnesses")
    config.pluginmanager.register(again.Again(), "again")
    fills.install()


def _gpu():
    try:
        return devices.get("cuda:0")
    except CydnnError:
        return None


def pytest_make_parametrize_id(val, argname):
    """Long texts are named by their hash: what pytest makes of them depends on its version."""
    if isinstance(val, (str, bytes)) and len(val) > 100:
        data = val.encode() if isinstance(val, str) else val
        return f"{argname}-{hashlib.sha256(data).hexdigest()[:8]}"


@pytest.fixture(scope="session")
def numpy_device():
    return devices.get("numpy")


@pytest.fixture(scope="session")
def gpu():
    """The first CUDA device; tests that ask for it carry ``@pytest.mark.gpu``."""
    device = _gpu()
    if device is None:
        pytest.skip("needs a CUDA device")
    return device


@pytest.fixture
def hopper(gpu):
    """The same, where it runs the code of sm_90a."""
    if gpu.facts.sm != 90:
        pytest.skip("the tile program is of sm_90a")
    return gpu


@pytest.fixture
def between_zones(monkeypatch):
    """Calls on a GPU are made twice, between zones of two fills (support/fills.py)."""
    plan.forget()
    fills.on_gpus(monkeypatch)
    yield
    plan.forget()


@pytest.fixture(scope="module", autouse=True)
def only_what_is_new():
    """The garbage collector does not go through what earlier files have left, again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    """Shares are drawn. Where there is no GPU its tests are collected, and left out: thousands of skips take
    half a minute."""
    kept = share.kept(items)
    if any(item.get_closest_marker("gpu") for item in kept) and _gpu() is None:
        kept = {item for item in kept if not item.get_closest_marker("gpu")}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.fixture(scope="session")
def family_counts():
    """A dict for the record: family -> {problems, engine_runs, wrong, engines} and, where
    they are counted, kernels."""
    return _counts()


_families: dict = {}                             # of this process


def _counts() -> dict:
    if place := os.environ.get(record.PART):     # those of processes that ended early
        for path in Path(place).parent.glob(f"{Path(place).name}.gw*") if not WORKER else ():
            _families.update(json.loads(path.read_text()))
    return _families


WORKER = os.environ.get("PYTEST_XDIST_WORKER")


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """What a process has counted is kept behind each test, as it may end by any of them. One that has lost
    its GPU ends, and another takes its place: what it would still run would fail in no time, and the
    others' tests with it."""
    if not WORKER or report.when != "teardown":
        return
    if place := os.environ.get(record.PART):
        Path(f"{place}.{WORKER}").write_text(json.dumps(_families))
    gpu = devices._devices.get("cuda:0")
    if gpu is not None and gpu.context.lost:
        print(f"{report.nodeid}: the context is lost, another process goes on", file=sys.__stderr__,
              flush=True)
        os._exit(1)


def pytest_sessionfinish(session, exitstatus):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cydnn_families"] = json.dumps(_counts())


def pytest_testnodedown(node, error):
    _families.update(json.loads(getattr(node, "workeroutput", {}).get("cydnn_families", "{}")))


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """Write the record after a run on a GPU; say what the records cover."""
    families, gpu = _counts(), _gpu()
    if gpu is not None and (families or record.PART in os.environ):
        stats, driver = terminalreporter.stats, gpu.facts.driver
        failed = dict.fromkeys(r.nodeid for r in (*stats.get("failed", ()), *stats.get("error", ())))
        found = record.part(gpu.facts.name, f"CUDA {driver // 1000}.{driver % 1000 // 10}", families,
                            len(stats.get("passed", ())), len(failed), len(stats.get("skipped", ())),
                            failed)
        terminalreporter.write_line(record.keep(found))
    without = () if gpu else ("tests of a GPU are left out: there is no CUDA device",)
    for line in (share.words(), *without, *record.staleness()):
        terminalreporter.write_line(line)
