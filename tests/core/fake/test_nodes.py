"""Tapes as nodes of a CUDA graph: the chain that is made, other pointers, graphs that are not a tape's."""
import struct

import pytest

import cydnn.frontend as cudnn
from cydnn import _core
from cydnn.device.cuda import CudaDevice
from cydnn.status import BadParam
from conftest import KERNEL, MEMSET, PTX, Graph, library

SLOTS = [("x", 64, 16, False, False), ("bias", 64, 4, False, True), ("y", 64, 16, True, False)]


@pytest.fixture
def graph(context):
    found = Graph()
    yield found
    found.destroy()


@pytest.fixture
def tape(context, kernel):
    """A memset, a kernel that adds up its parameters, and one with every attribute."""
    tape = _core.Tape(context, SLOTS, [1.0], 64, [(2, 0)])
    tape.memset(2, 8, 16, 0x5A)
    tape.launch(kernel("sum_k"), (4, 2), (128,), 0, bytes(40), [(0, 2, 0), (8, 0, 16), (16, -1, 0)],
                [(24, "f64", 0)])
    tape.launch(kernel("wide"), 8, 32, 1024, bytes(264), [(0, 0, 0), (8, 1, 4)], params=(0, 8),
                cluster=(2, 1, 1), cooperative=True, dependent=True)
    return tape


def buffers(context):
    return [_core.Buffer(context, 64) for _ in range(4)]


def words(launch, count=4):
    return struct.unpack(f"<{count}Q", bytes(launch.data[:8 * count]))


def test_a_node_for_each_step_in_a_chain(context, tape, graph):
    x, bias, y, space = buffers(context)
    assert _core.populate(tape, graph, (x, bias, y), None, space, 64) == 3
    assert graph.kinds() == [MEMSET, KERNEL, KERNEL]
    one, wide = graph.node(1)[1], graph.node(2)[1]
    assert (one.name, tuple(one.grid), tuple(one.block)) == (b"sum_k", (4, 2, 1), (128, 1, 1))
    assert words(one)[:3] == (y.ptr, x.ptr + 16, space.ptr) and one.bytes == 40
    assert struct.unpack("<d", bytes(one.data[24:32])) == (1.0,)
    assert words(wide, 2) == (x.ptr, bias.ptr + 4) and wide.smem == 1024
    assert tuple(wide.attributes) == (2, 1, 1, 1, 0)         # an edge is what a dependent launch waits for


def test_what_runs_is_what_execute_runs(context, tape, graph):
    x, bias, y, space = buffers(context)
    found = bytearray(64)
    context.memset(y, 0, 64)
    tape.execute((x, bias, y), (2.0,), space, 64)
    context.copy_out(found, y)
    context.memset(y, 0, 64)
    _core.populate(tape, int(graph), (x, bias, y), (2.0,), space, 64)
    graph.run(context)
    replayed = bytearray(64)
    context.copy_out(replayed, y)
    assert replayed == found and any(found[:8]) and found[8:24] == b"\x5a" * 16


def test_an_update_gives_other_pointers_and_numbers(fake, context, tape, graph):
    first, (x, bias, y, space) = buffers(context), buffers(context)
    _core.populate(tape, graph, first[:3], None, first[3], 64)
    assert _core.update(tape, graph, (x, bias, y), (3.5,), space, 64) == 3
    assert words(graph.node(1)[1])[:3] == (y.ptr, x.ptr + 16, space.ptr)
    assert struct.unpack("<d", bytes(graph.node(1)[1].data[24:32])) == (3.5,)
    assert words(graph.node(2)[1], 2) == (x.ptr, bias.ptr + 4)
    graph.run(context)
    found = bytearray(64)
    context.copy_out(found, y)
    assert found[8:24] == b"\x5a" * 16 and fake.depth() <= 1


def test_what_execute_refuses_is_refused(fake, context, tape, graph):
    x, bias, y, space = buffers(context)
    for call in (_core.populate, _core.update):
        for given, sentence in ((((0, bias, y), None, space, 64), "x: must not be null; got 0"),
                                (((x, bias, y), None, space, 8), "workspace: must have at least 64 bytes"),
                                (((x, bias), None, space, 64), r"pointers: must be 3 \(x, bias, y\); got 2"),
                                (((x, bias, y), (), space, 64), "scalars")):
            with pytest.raises(BadParam, match=sentence):
                call(tape, graph, *given)
    assert graph.kinds() == [] and fake.depth() <= 1


def test_numbers_without_a_default_must_be_given(context, kernel, graph):
    tape = _core.Tape(context, [("y", 16, 16, True, False)], [None])
    tape.launch(kernel(), 1, 32, 0, bytes(16), [(0, 0, 0)], [(8, "f32", 0)])
    with pytest.raises(BadParam, match="must be given"):
        _core.populate(tape, graph, buffers(context)[:1])


def test_graphs_that_are_not_the_tape_s(fake, context, kernel, tape, graph):
    given = (buffers(context)[:3], None, _core.Buffer(context, 64), 64)
    with pytest.raises(BadParam, match="populated from this plan, a chain of 3 nodes; got one of 0 nodes"):
        _core.update(tape, graph, *given)
    _core.populate(tape, graph, *given)
    with pytest.raises(BadParam, match="cuda_graph: must be empty to be populated; got one of 3 nodes"):
        _core.populate(tape, graph, *given)
    for other, why in ((["sum_k", "sum_k", "wide"], "node 1 is of another kind"),
                       ([None, "other", "wide"], "node 2 is not the kernel sum_k"),
                       ([None, "sum_k"], "one of 2 nodes")):
        theirs = _core.Tape(context, SLOTS, [], 64)
        for name in other:
            theirs.launch(kernel(name), 1, 32, 0, bytes(8)) if name else theirs.memset(2, 0, 8, 1)
        foreign = Graph()
        _core.populate(theirs, foreign, given[0], None, *given[2:])
        before = [bytes(foreign.node(i)[1].data) for i in range(len(other))]
        with pytest.raises(BadParam, match=f"a chain of 3 nodes; got .*{why}") as error:
            _core.update(tape, foreign, *given)
        assert error.value.status9 == 2011       # CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH
        assert before == [bytes(foreign.node(i)[1].data) for i in range(len(other))]
        foreign.destroy()
    library.fake_fork(graph.handle)
    with pytest.raises(BadParam, match="got one whose node 1 has 2 behind it"):
        _core.update(tape, graph, *given)
    assert fake.depth() <= 1


def test_a_graph_that_is_destroyed_is_told(context, tape):
    graph, given = Graph(), (buffers(context)[:3], None, _core.Buffer(context, 64), 64)
    _core.populate(tape, graph, *given)
    graph.destroy()
    for call in (_core.populate, _core.update):
        with pytest.raises(BadParam, match="must be a CUDA graph that was not destroyed; the driver says cu"):
            call(tape, graph, *given)


@pytest.mark.parametrize("graph", [None, 0, -1, "5", 1.5, True, 1 << 64, object()])
def test_what_is_no_graph(context, tape, graph):
    for call in (_core.populate, _core.update):
        with pytest.raises(BadParam, match="cuda_graph: must be a CUgraph, or its address; got"):
            call(tape, graph, ())


def test_a_memset_of_an_absent_operand_is_no_node(context, kernel, graph):
    tape = _core.Tape(context, [("x", 64, 16, True, True), ("y", 64, 16, True, False)])
    tape.memset(0, 0, 8, 1), tape.memset(1, 0, 8, 2)
    x, y, *_ = buffers(context)
    assert _core.populate(tape, graph, (None, y)) == 1 == _core.update(tape, graph, (None, y))
    with pytest.raises(BadParam, match="a chain of 2 nodes; got one of 1 nodes"):
        _core.update(tape, graph, (x, y))


def test_a_tape_without_steps(context, graph):
    tape = _core.Tape(context, [])
    assert _core.populate(tape, graph, ()) == 0 == _core.update(tape, graph, ())


def test_a_text_is_assembled(context):
    text = b".version 7.0\n.visible .entry k(\n)\n{ ret; }\n"
    assert _core.assemble(context, text) == text + b"// assembled"


# ---- pygraph ----

@pytest.fixture
def masked(fake, monkeypatch):
    """scale * x, and where that is positive, in packed booleans; its tensors' uids are 1 to 4."""
    monkeypatch.setattr(CudaDevice, "function",
                        lambda self, name, fuse=None, ways=(): self.context.load(PTX % name.encode(), name))
    kinds = cudnn.data_type
    g = cudnn.pygraph(io_data_type=kinds.FLOAT, compute_data_type=kinds.FLOAT, handle="cuda:0")
    x = g.tensor([2, 64], [64, 1], uid=1)
    scale = g.tensor([1, 1], [1, 1], is_pass_by_value=True, uid=2)
    y = g.mul(x, scale).set_output(True).set_uid(3)
    g.cmp_gt(y, x).set_output(True).set_uid(4).set_data_type(kinds.BOOLEAN)
    g.build([cudnn.heur_mode.A])
    return g


def test_a_pygraph_becomes_nodes(context, masked, graph):
    memory = [_core.Buffer(context, 1024) for _ in range(6)]
    packs = [{1: m[0], 2: number, 3: m[1], 4: m[2]} for m, number in ((memory, 2.0), (memory[3:], 3.0))]
    space = _core.Buffer(context, max(masked.get_workspace_size(), 1))
    count = masked.populate_cuda_graph(None, packs[0], space, graph)
    assert count == masked.plan.executable.step_count == len(graph.kinds())
    for pack in packs:
        assert masked.update_cuda_graph(None, pack, space.ptr, graph) == count
        data = bytes(graph.node(0)[1].data)
        assert struct.pack("<Q", pack[1].ptr) in data and struct.pack("<f", pack[2]) in data
    flat = {**packs[0], 4: Booleans(memory[2].ptr)}
    with pytest.raises(BadParam, match="cuda_graph: booleans must be packed, eight in a byte; got an array"):
        masked.populate_cuda_graph(None, flat, space, graph)
    with pytest.raises(BadParam, match="the variant pack must hold"):
        masked.update_cuda_graph(None, {1: 0}, space, graph)


class Booleans:
    """An array of the GPU with one boolean a byte."""

    def __init__(self, address):
        self.__cuda_array_interface__ = dict(shape=(2, 64), typestr="|b1", data=(address, False), version=3)
