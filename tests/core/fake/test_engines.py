"""Every engine's plan on a driver that counts: what is asked of it, and what is refused before any launch.
CYDNN_PROBLEMS: problems for each engine; the first ones of the kernels' contracts."""
import itertools
import os

import pytest

from cydnn import engines, kernels, ops, plan
from cydnn.bench import graph_of
from cydnn.device.cuda import CudaDevice
from cydnn.engines import engines_for
from cydnn.graph import Match
from cydnn.heuristics import Wish
from cydnn.ops import Problem
from cydnn.status import BadParam, ExecutionFailed

from conftest import KERNEL, PTX, Fake, Graph
from support.check.sums import FRONTED
from support.draw import gpu_draws
from test_paths import ADDRESS, OF_EXECUTE

PROBLEMS = int(os.environ.get("CYDNN_PROBLEMS", 1))
STREAM, ROOM = 0x77, 1 << 31


@pytest.fixture(scope="module")
def gpus():
    """Two devices, whose kernels are texts with an entry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CudaDevice, "function",
                      lambda self, name, fuse=None, ways=(): self.context.load(PTX % name.encode(), name))
        yield CudaDevice(0), CudaDevice(1)


@pytest.fixture(scope="module")
def plans(gpus):
    """[(engine, plan)] of every engine that a contract's problem, or its own, is taken by."""
    lines = dict.fromkeys(line for name in kernels.names() for line in kernels.get(name).problems)
    found, left = [], dict.fromkeys(engines.TABLE, PROBLEMS)
    drawn = (problem for op in ops.OPS if any(left[e] for e in engines_for(op)[:-1])
             for problem in gpu_draws(op, "faults", 100))
    for problem in itertools.chain(map(Problem.parse, lines), drawn):
        takers = [e for e in engines_for(problem.op)[:-1] if left[e]]
        match = Match.single(graph_of(problem)) if takers else None
        for engine in takers:
            if engine.accepts(match, gpus[0].facts):
                left[engine] -= 1
                found.append((engine, plan.build(graph_of(problem), gpus[0], Wish(engines=(engine.index,)))))
    return found


@pytest.fixture(scope="module")
def memory():
    """memory(plan, ordinal): addresses on a device for its operands, and for its workspace; always others, as
    addresses that were seen are not asked about again."""
    at, end = zip(*[(place, place + ROOM) for place in (Fake().memory(ROOM, ordinal) for ordinal in (0, 1))])
    at = list(at)

    def take(made, ordinal=0):
        found = []
        for size in (*[operand.bytes for operand in made.layout.operands], made.workspace_bytes + 16):
            found.append(at[ordinal])
            at[ordinal] += (size + 255) // 256 * 256 + 256
        assert at[ordinal] < end[ordinal]
        return found[:-1], found[-1] if made.workspace_bytes else 0
    return take


def refused(fake, made, sentence, operands, *workspace):
    fake.reset()
    with pytest.raises(BadParam, match=sentence):
        made.executable.execute(tuple(operands), None, *workspace, STREAM)
    assert not any("Launch" in name or "Memset" in name for name in fake.called()), sentence
    assert fake.depth() <= 1


def test_plans_are_there_for_every_engine(plans):
    missing = {e.name for e in engines.TABLE} - {e.name for e, _ in plans}
    print(f"\n{len(plans)} plans of {len({e.name for e, _ in plans})} engines, "
          f"{sum(made.workspace_bytes > 0 for _, made in plans)} with a workspace; none: {sorted(missing)}")
    assert missing <= {"reference", *(engines.BY_INDEX[i].name for i in FRONTED)}        # those take graphs


def test_every_engine_asks_for_launches_only(fake, plans, memory):
    for engine, made in plans:
        operands, space = memory(made)
        made.execute(operands, space, STREAM)
        fake.reset()
        made.execute(operands, space, STREAM)
        called = fake.called()
        assert called.keys() <= OF_EXECUTE | ADDRESS and not fake.on_default(), (engine, called)
        assert any("Launch" in function or "Memset" in function for function in called), (engine, called)


def test_every_engine_s_launches_are_nodes_of_a_cuda_graph(fake, plans, memory):
    """Those that execute makes, with the same parameters; then with those of other memory."""
    for engine, made in plans:
        assert "supports_cuda_graph_native_api" in made.choice.notes
        graph, one, other = Graph(), memory(made), memory(made)
        assert made.populate(graph, *one) == made.executable.step_count == len(graph.kinds()), engine
        nodes = [graph.node(i) for i in range(len(graph.kinds()))]
        names = tuple([node.name.decode() for kind, node in nodes if kind == KERNEL])
        assert names == made.executable.kernels, engine
        for operands, space in (one, other):
            made.execute(operands, space, STREAM)
            last = fake.last()
            if (operands, space) == other:
                assert made.update(graph, operands, space) == len(graph.kinds())
            kind, node = graph.node(len(graph.kinds()) - 1)
            if kind == KERNEL:                   # of a cooperative one the driver knows how long the last is
                size = min(last.bytes, kernels.get(names[-1]).param_bytes)
                assert bytes(node.data[:size]) == bytes(last.data[:size]), engine
                assert (*node.grid, *node.block, *node.attributes[:4]) == (
                    *last.grid, *last.block, *last.attributes[:4]), engine
        graph.destroy()
    assert fake.depth() <= 1


def test_every_engine_refuses_a_workspace_that_cannot_be(fake, plans, memory):
    """NULL, one byte short, not aligned, of another device, of the host."""
    seen = set()
    for engine, made in plans:
        size, (operands, at), (_, there) = made.workspace_bytes, memory(made), memory(made, 1)
        if not size:
            continue
        seen.add(engine.name)
        for sentence, *space in (
                (f"must not be null, {size} bytes are needed", 0, size),
                (f"must have at least {size} bytes; got {size - 1}", at, size - 1),
                (r"must be aligned to \d+ bytes", at + 8, size),
                ("must be memory of cuda:0; got memory of another device", there, size),
                ("must be memory that cuda:0 can reach; got pageable host memory", 1 << 12, size)):
            refused(fake, made, f"^workspace: {sentence}", operands, *space)
    assert len(seen) > 40, seen


def test_every_engine_refuses_operands_of_another_device_and_null(fake, plans, memory):
    """The plan of cuda:0 on memory of cuda:1; one operand after the other, by its name."""
    for engine, made in plans:
        (here, space), (there, _) = memory(made), memory(made, 1)
        for i, operand in enumerate(made.layout.operands):
            if operand.bytes and not operand.is_remote:
                given, last = [*here[:i], there[i], *here[i + 1:]], (space, made.workspace_bytes)
                refused(fake, made, f"^{operand.name}: must be memory of cuda:0; got memory of another",
                        given, *last)
                given[i] = 0
                refused(fake, made, f"^{operand.name}: must not be null", given, *last)


def test_a_context_that_was_destroyed(fake, plans, memory):
    """By somebody else, as cuDevicePrimaryCtxReset does: named at the next call, and no driver call after."""
    made = plan.made(plans[0][1].choice, CudaDevice(0))
    operands, space = memory(made)
    fake.destroy(0)
    with pytest.raises(ExecutionFailed, match=r"\(709\): .*the context of cuda:0 is lost, start a new"):
        made.execute(operands, space, STREAM)
    fake.reset()
    with pytest.raises(ExecutionFailed, match="failed earlier: .*709"):
        made.execute(operands, space, STREAM)
    assert not fake.called()
