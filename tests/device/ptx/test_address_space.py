"""Interpreters where address space is short, and copies of them that are asked for."""
from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys

import pytest

from cydnn import device, plan
from cydnn.bench import graph_of
from cydnn.ops import Problem

LIMITED = """
import resource
import numpy as np
from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device.ptx import PtxDevice
from cydnn.engines.conv import wgrad_simt
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from cydnn.status import AllocFailed

held = PtxDevice("sm_80")
wish = Wish(engines=(wgrad_simt.ConvWgradAtomic.index,))
adds = plan.build(graph_of(Problem.parse("conv_wgrad n1c8h4w4 k8r1s1 f32")), held, wish)
arrays = [np.ones(slot.dims, np.float32) for slot in adds.slots]
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20),) * 2)
for ask in (PtxDevice, PtxDevice, lambda: adds.execute(arrays)):         # whose trace is mapped when it runs
    try:
        ask()
    except AllocFailed as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
def test_too_little_address_space_is_the_librarys_error():
    said = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=120)
    refused = re.findall("device: an interpreter must have [0-9]+ bytes of address space; "
                         "got Cannot allocate memory: free other devices", said.stdout)
    assert len(refused) == 3, said.stderr


@pytest.mark.parametrize("take", [copy.deepcopy, pickle.dumps])
def test_what_belongs_to_a_process_is_not_copied(take):
    place = device.get("ptx:sm_80")
    built = plan.build(graph_of(Problem.parse("softmax_fwd 4x16 f32")), place)
    for one, said in ((place, r"a device belongs to its process; got PtxDevice\(ptx:sm_80\): name it"),
                      (place.arena, "the memory of a device belongs to its process"),
                      (built, "a plan belongs to its process; got one of softmax_fwd x=4x16:f32")):
        with pytest.raises(TypeError, match=f"^pickle: {said}"):
            take(one)
