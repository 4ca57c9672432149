"""Devices for tests, the ``gpu`` marker, and the GPU record that a run on a GPU leaves."""
from __future__ import annotations

import gc
import hashlib
import os
import sys
from collections import Counter

# A process per core is enough: NumPy's threads would wait for each other, spinning.
# The processes of xdist are started by one that has read this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["XDG_DATA_HOME"] = "/nowhere"           # what a user has measured is no part of a test
# Collecting its tests begins JAX, which takes three quarters of a GPU where nobody says this.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import pytest

from cydnn import device as devices, plan
from cydnn.ops import peer_reduction
from cydnn.status import CydnnError

from lab import repro, goals, record, sampling, witnesses
from support.guard import fills


def begin(config):
    """Called by the conftest.py of each folder of tests."""
    if not config.pluginmanager.is_registered(sys.modules[__name__]):
        config.pluginmanager.register(sys.modules[__name__], "lab.session")


def pytest_configure(config):
    gc.set_threshold(20_000, 50, 100)            # decoded kernels are many objects, none of them garbage
    sampling.begin()
    config.pluginmanager.register(witnesses.Witnesses(), "witnesses")
    config.pluginmanager.register(repro.Again(), "again")
    fills.install()
    peer_reduction.PATIENCE_S = 2                # tests call for peers that never come, too
    record.install()


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
    """Calls on a GPU are made twice, between zones of two fills (support/guard/fills.py)."""
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
    """Shares are drawn; a run for the GPU record takes what is stale. Where there is no GPU its tests are
    collected, and left out: thousands of skips take half a minute."""
    gpu = _gpu() if any(item.get_closest_marker("gpu") for item in items) else None
    if record.GOALS in os.environ:
        assert gpu, "a run for the GPU record needs cuda:0, which could not be had"
        kept = record.wanted(items, gpu.facts.name)
    else:
        drawn = sampling.kept(items)
        kept = [item for item in items if item in drawn and (gpu or not item.get_closest_marker("gpu"))]
    left_out = set(items) - set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept


WORKER = os.environ.get("PYTEST_XDIST_WORKER")


@pytest.fixture
def family_counts(request):
    """A dict for the record, {what: {problems, engine_runs …}}: a case's whole numbers are added up."""
    counts, sums = {}, Counter()
    yield counts
    for each in counts.values():
        sums.update({key: value for key, value in each.items() if isinstance(value, int)})
    request.node.user_properties.append(("counts", dict(sums)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """No plan of an earlier test serves a case of the record: what it covers would not be seen."""
    if record.PART in os.environ and item.get_closest_marker("gpu"):
        plan.forget()
        record.seen()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    if record.PART in os.environ:
        item.user_properties.append(("covers", record.seen()))


_phases: dict = {}                               # test -> its reports so far


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """A case of the record is kept as soon as it is done. A process that has lost its GPU ends, and another
    takes its place: what it would still run would fail in no time, and the others' tests with it."""
    phases = _phases.setdefault(report.nodeid, [])
    phases.append(report)
    if report.when not in ("teardown", "???"):   # "???": its process is gone
        return
    del _phases[report.nodeid]
    gpu = devices._devices.get("cuda:0")
    if WORKER and gpu is not None and gpu.context.lost:
        print(f"{report.nodeid}: the context is lost, another process goes on", file=sys.__stderr__,
              flush=True)
        os._exit(1)
    if record.PART in os.environ and not WORKER:
        _keep(report.nodeid, phases)


def _keep(test, phases):
    facts, told = _gpu().facts, dict(phases[-1].user_properties)
    outcome = next((kind for kind in ("failed", "skipped") if any(p.outcome == kind for p in phases)),
                   "passed")
    record.keep(record.case(goals.goal_of(test), test, outcome, sum(p.duration for p in phases),
                            told.get("covers", ()), told.get("counts", {}), facts.name,
                            f"CUDA {facts.driver // 1000}.{facts.driver % 1000 // 10}", _said(phases)))


def _said(phases) -> str:
    """The sentence of the first failure; the run may be ended before it is printed."""
    crashes = [getattr(phase.longrepr, "reprcrash", None) for phase in phases if phase.outcome == "failed"]
    return next((crash.message[:1000] for crash in crashes if crash is not None), "")


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """Say what was drawn, and what the records cover."""
    without = () if _gpu() else ("tests of a GPU are left out: there is no CUDA device",)
    for line in (sampling.words(), *without, *record.staleness()):
        terminalreporter.write_line(line)
