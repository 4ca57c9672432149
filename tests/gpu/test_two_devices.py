"""Two GPUs in one process (support/two_devices.py): on a machine with two."""
from __future__ import annotations

import pytest

from cydnn import device as devices, plan as plans
from cydnn.status import CydnnError
from support.guard import two_devices
from support.check.streams import ALONE
from support.draw.of_engine import some

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def second(gpu):
    try:
        return devices.get("cuda:1")
    except CydnnError:
        pytest.skip("needs a second CUDA device")


@pytest.mark.parametrize("engine", ALONE, ids=str)
@pytest.mark.parametrize("way", ["0 to 1", "1 to 0"])
def test_memory_of_another_device(engine, way, gpu, second, family_counts):
    here, there = (gpu, second) if way == "0 to 1" else (second, gpu)
    problem, = some(engine, here.facts, 1)
    wrong = (two_devices.refused(problem, engine, here, there)
             + two_devices.apart(problem, engine, here, there))
    plans.forget()
    family_counts[f"elsewhere/{engine} {way}"] = dict(problems=1, engine_runs=4, wrong=len(wrong))
    assert not wrong, f"{problem}:\n" + "\n".join(wrong)
