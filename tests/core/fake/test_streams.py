"""What support/check/streams.py and captured.py ask of a driver, and that they see what is wrong. This driver
computes nothing: a run here copies an input to an output."""
import numpy as np
import pytest

from cydnn import device
from cydnn.engines import BY_INDEX
from cydnn.device.cuda import CudaDevice
from cydnn.ops import Problem
from cydnn.status import CydnnError
from support.check import captured, streams

from conftest import PTX, Fake

PROBLEM = Problem.parse("transform x=2x3x4x5:f32 y=2x3x4x5:f32")
TRANSFORM = next(e for e in BY_INDEX.values() if e.name == "transform_any")


@pytest.fixture
def gpu(fake, monkeypatch):
    monkeypatch.setattr(CudaDevice, "function",
                        lambda self, name, fuse=None, ways=(): self.context.load(PTX % name.encode(), name))
    return device.get("cuda:0")


@pytest.fixture
def copying(monkeypatch):
    """copying(faulty): a run copies; that of number ``faulty`` does not."""
    def make(faulty=None):
        runs = [0]

        def execute(self, stream):
            self.case.plan.execute(self.case.pointers, int(self.case.workspace.ptr), stream=stream)
            if runs[0] != faulty:
                self.device.context.copy(self.outs[0][0], self.ins[0][0], self.outs[0][1], stream)
            runs[0] += 1
        monkeypatch.setattr(streams.Runs, "execute", execute)
    return make


def quiet(number):
    """No load."""


@pytest.mark.parametrize("faulty", [None, 7])
def test_repeats(gpu, copying, faulty):
    copying(faulty)
    both, stream = streams.places(PROBLEM, TRANSFORM, gpu), streams.stream_of(gpu)
    load = streams.Load(gpu, ["softmax_fwd 8x16 f32"], 1 << 12)
    assert streams.repeated(both, load, stream, 20) == ([] if faulty is None else [faulty])


def test_repeats_in_parts(gpu, copying, monkeypatch):
    copying(13)
    monkeypatch.setattr(streams, "ROOM", 4 * 480)
    both = streams.places(PROBLEM, TRANSFORM, gpu)
    assert streams.repeated(both, quiet, streams.stream_of(gpu), 18) == [13]


@pytest.mark.parametrize("faulty", [None, 4 + 5])
def test_a_late_producer(gpu, copying, faulty):
    """Two runs in either place give what is wanted, then one for each time."""
    copying(faulty)
    both, spin = streams.places(PROBLEM, TRANSFORM, gpu), streams.spinner(gpu, 5.0)
    wrong, tells = streams.delayed(both, spin, 8)
    assert tells and wrong == ([] if faulty is None else [5])


@pytest.mark.parametrize("way", [lambda gpu, both: streams.repeated(both, quiet, streams.stream_of(gpu), 8),
                                 lambda gpu, both: streams.delayed(both, streams.spinner(gpu, 5.0), 8)[0]],
                         ids=["repeated", "delayed"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_byte_beside_is_told(gpu, copying, way, place):
    """One that is written behind y, in either place."""
    copying()
    both = streams.places(PROBLEM, TRANSFORM, gpu)
    at, size = both[place].outs[0]
    gpu.memset(at + size, 7, 1)
    assert way(gpu, both) == ["1 bytes written beside y"]


def test_the_spinning_kernel_is_told_how_long(gpu):
    spin = streams.spinner(gpu, 5.0)
    spin(streams.stream_of(gpu))
    launch = Fake().last()
    assert launch.name == b"spin" and bytes(launch.data[:8]) == (5_000_000).to_bytes(8, "little")
    assert tuple(launch.grid) == tuple(launch.block) == (1, 1, 1) and launch.bytes == 8


def test_replays(gpu, fake, copying, monkeypatch):
    """Copies are no part of a graph here: a replay that does nothing is seen, one that copies is right."""
    copying()
    stream = streams.stream_of(gpu)
    wrong, tells = captured.replayed(PROBLEM, TRANSFORM, gpu, stream, 10)
    assert tells and wrong == list(range(10))
    assert {n: fake.count(n) for n in ("cuStreamBeginCapture_v2", "cuGraphLaunch", "cuGraphExecUpdate_v2",
                                       "cuGraphExecDestroy", "cuGraphDestroy")} == dict(
        cuStreamBeginCapture_v2=2, cuGraphLaunch=10, cuGraphExecUpdate_v2=1, cuGraphExecDestroy=1,
        cuGraphDestroy=2)
    works, capture = [], captured.Recorded._capture
    monkeypatch.setattr(captured.Recorded, "_capture",
                        lambda self, work: (works.append(work), capture(self, work)))
    monkeypatch.setattr(captured.Recorded, "launch", lambda self: works[-1]())
    assert captured.replayed(PROBLEM, TRANSFORM, gpu, stream, 10) == ([], True)


def test_native_nodes_are_replayed(gpu, fake, copying):
    """Made once and updated once; kernels of this driver do nothing, which is seen."""
    copying()
    wrong, tells = captured.replayed(PROBLEM, TRANSFORM, gpu, streams.stream_of(gpu), 10, True)
    assert tells and wrong == list(range(10))
    assert {n: fake.count(n) for n in ("cuStreamBeginCapture_v2", "cuGraphAddKernelNode_v2", "cuGraphDestroy",
                                       "cuGraphKernelNodeSetParams_v2", "cuGraphExecUpdate_v2")} == dict(
        cuStreamBeginCapture_v2=0, cuGraphAddKernelNode_v2=1, cuGraphDestroy=1,
        cuGraphKernelNodeSetParams_v2=1, cuGraphExecUpdate_v2=1)


def test_cooperative_launches_are_captured(gpu, fake):
    """A driver takes none whose parameters are one block."""
    grid = next(e for e in BY_INDEX.values() if e.name == "softmax_fwd_grid")
    captured.replayed(Problem.parse("softmax_fwd 1x524285 f16"), grid, gpu, streams.stream_of(gpu), 2)
    assert fake.count("cuGraphLaunch") == 2 and fake.count("cuLaunchKernelEx")


def test_work_that_waits_cannot_be_captured(gpu, fake):
    with pytest.raises(CydnnError, match=r"\(900\)"):
        captured.Recorded(gpu, streams.stream_of(gpu), gpu.synchronize)
    gpu.synchronize()                            # the capture has ended
    assert fake.count("cuStreamEndCapture") == 1 and fake.depth() <= 1


def test_the_inputs_of_two_sets_differ(gpu):
    runs = streams.Runs(PROBLEM, TRANSFORM, gpu)
    (at, size), = runs.ins
    seen = []
    for which in (0, 1):
        runs.give(which, 0)
        seen.append(gpu.copy_out(at, np.empty(size, np.uint8)))
    assert (seen[0] != seen[1]).mean() > 0.5
