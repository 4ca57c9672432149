"""Interpreters where address space is short, and copies of them that are asked for."""
from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

from cydnn import device, plan
from cydnn.bench import graph_of
from cydnn.ops import Problem

LIMITED = """
import resource
from cydnn.device.ptx import PtxDevice
from cydnn.status import AllocFailed
held = PtxDevice("sm_80")
resource.setrlimit(resource.RLIMIT_AS, (400 << 20,) * 2)
for _ in range(2):
    try:
        PtxDevice("sm_80")
    except AllocFailed as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
def test_too_little_address_space_is_the_librarys_error():
    said = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=120)
    assert said.stdout.count("device: an interpreter must have 67108864 bytes of address space; got "
                             "Cannot allocate memory: free other devices") == 2, said.stderr


@pytest.mark.parametrize("take", [copy.deepcopy, pickle.dumps])
def test_what_belongs_to_a_process_is_not_copied(take):
    place = device.get("ptx:sm_80")
    built = plan.build(graph_of(Problem.parse("softmax_fwd 4x16 f32")), place)
    for one, said in ((place, r"a device belongs to its process; got PtxDevice\(ptx:sm_80\): name it"),
                      (place.arena, "the memory of a device belongs to its process"),
                      (built, "a plan belongs to its process; got one of softmax_fwd x=4x16:f32")):
        with pytest.raises(TypeError, match=f"^pickle: {said}"):
            take(one)
