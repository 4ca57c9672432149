"""Launch attributes: by cuLaunchKernelEx, and only where there are some; what is said of them."""
import pytest

from cydnn import _core, device
from cydnn.status import ExecutionFailed, NotSupported
from cydnn.steps import Launch

from support.draw import handmade

CASES = [
    (dict(cluster=(2, 1, 1)), (2, 1, 1, 0, 0), "cluster=2x1x1"),
    (dict(cooperative=True), (0, 0, 0, 1, 0), "cooperative"),
    (dict(dependent=True), (0, 0, 0, 0, 1), "dependent"),
    (dict(cluster=(1, 2, 2), cooperative=True, dependent=True), (1, 2, 2, 1, 1),
     "cluster=1x2x2 cooperative dependent"),
]


@pytest.fixture
def made(context, kernel):
    def make(**attributes):
        tape = _core.Tape(context, [], [7])
        tape.launch(kernel(), (4, 2, 6), (64,), 1000, bytes(16), [], [(8, "i64", 0)], **attributes)
        return tape
    return make


@pytest.fixture
def log():
    seen = []
    _core.log_launches(lambda *launch: seen.append(launch))
    yield seen
    _core.log_launches(None)


@pytest.mark.parametrize("attributes, want, words", CASES, ids=[words for _, _, words in CASES])
def test_attributes_reach_the_driver_and_the_log(fake, made, log, attributes, want, words):
    made(**attributes).execute((), None, None, 0, 99)
    last = fake.last()
    assert (fake.count("cuLaunchKernelEx"), fake.count("cuLaunchKernel")) == (1, 0)
    assert tuple(last.attributes) == want and log == [("k", (4, 2, 6), (64, 1, 1), 1000, words)]
    assert (last.name, tuple(last.grid), tuple(last.block), last.smem, last.stream, last.bytes) == (
        b"k", (4, 2, 6), (64, 1, 1), 1000, 99, 16)
    assert bytes(last.data[8:16]) == (7).to_bytes(8, "little")


def test_a_launch_without_attributes_is_a_plain_one(fake, made):
    tape = made(cluster=None, cooperative=False, dependent=False)
    tape.execute(())
    assert (fake.count("cuLaunchKernelEx"), fake.count("cuLaunchKernel")) == (0, 1)
    assert tuple(fake.last().attributes) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("status, error", [(1, ExecutionFailed), (720, NotSupported), (912, NotSupported)])
def test_a_refused_launch_names_its_attributes(fake, made, status, error):
    tape = made(cluster=(4, 1, 1), cooperative=True)
    fake.fail("cuLaunchKernelEx", 1, status)
    with pytest.raises(error, match=rf"^cuLaunchKernelEx: .*\({status}\).*; kernel k with cluster=4x1x1"):
        tape.execute(())
    tape.execute(())


@pytest.mark.parametrize("cluster, sentence", [
    ((3, 1, 1), r"k: grid must be a multiple of the cluster \(3, 1, 1\); got \(4, 2, 6\)"),
    ((4, 2, 2), r"k: cluster must have 1..8 blocks; got \(4, 2, 2\)"),
    ((0, 1, 1), r"k: cluster must have 1..8 blocks; got \(0, 1, 1\)"),
    ((1, 16, 1), r"k: cluster must be within \(8, 8, 8\); got \(1, 16, 1\)"),
])
def test_an_impossible_cluster_is_refused_when_it_is_added(made, cluster, sentence):
    with pytest.raises(NotSupported, match=sentence):
        made(cluster=cluster)


def test_a_contract_s_attributes_are_those_of_the_launch(fake, tmp_path):
    text = ".version 8.0\n.target sm_90\n.visible .entry pair(\n)\n{ ret; }\n"
    contract = dict(grid=["2 * rows", 1, 1], cluster=[2, 1, 1], dependent=True)
    with handmade.installed(tmp_path, pair=(["int rows"], text, contract)):
        tape = device.get("cuda:0").compile(handmade.plan([], [Launch("pair", dict(rows=3))], written=()))
    tape.execute(())
    assert tuple(fake.last().attributes) == (2, 1, 1, 0, 1) and fake.last().grid[0] == 6
