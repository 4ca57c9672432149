"""Single calls of the library's own API and of pygraphs, and problem texts on their whole way."""
from __future__ import annotations

import inspect

import numpy as np

import cydnn
from cydnn import backend, bench, cudnn, device, dtypes, frontend, graph, kernels, ops, plan
from cydnn.frontend.tensor import tensor
from cydnn.layout import Layout

from .attack import Attack

LINES = ("conv_fprop n1c4h6w6 k4r3s3 pad1 f16 nhwc", "conv_wgrad n1c4h6w6 k4r3s3 groups=2",
         "softmax_fwd 8x64 f32", "softmax_fwd x=3x4:f16@5,1 align=4", "matmul 8x4 4x3 bf16",
         "pooling_fwd n1c2h4w4 window=2 stride=2 mode=max", "pointwise x=6x5:f32 b=1x5:f32 mode=add",
         "transform x=2x3x5x7:f32 y=2x3x5x7:f32@nhwc", "reduction x=4x5:f32 y=4x1:f32 mode=add",
         "lrn_fwd n1c4h6w6", "batch_norm_training n2c3h4w4 f32 mode=spatial", "dropout_fwd 8x8 f32 p=0.5",
         "rnn_fwd t2n3i4 bidirectional=1")
WORDS = """groups=0 groups=-1 align=0 align=-4 align=3 align=4 align=99999999999999999999 acc=f64 acc=zz pad9
           pad99999999999999999999 stride0 dil0 stride=2,2,2 f64 i8 bool nhwc x= x=none y=none x=1x2+3 x=@ x=:
           x=:f32 x=4x4:i8x4 w=1 mode= mode=max window= window=* window=1*99999999999 p=nan p=1e999 n0c0 0x0 5
           1x1x1x1x1x1x1x1x1x1 99999999999x99999999999 pre_pad=-1 x=1:f32@a x=2:f32@-1 x=zz:f32 hidden=0
           x=2:f32@99999999999999999999""".split()


def names(a: Attack):
    """Everything that takes one thing."""
    for _ in range(8):
        function = a.random.choice((
            dtypes.dtype, device.get, kernels.get, frontend.create_device_properties, frontend.create_handle,
            frontend.get_stream, ops.Problem.parse, plan.build, Layout.from_json,
            backend.number, cudnn.create, cudnn.destroy, cudnn.getErrorString, cudnn.getLastErrorString))
        a.call(function.__name__, function, a.any())


def descriptions(a: Attack):
    made = a.call("TensorDesc", cydnn.TensorDesc, *a.changed(["f32", (2, 3, 4, 4), (48, 16, 4, 1), 1]))
    if made is not None:
        a.call("str", str, made)
    a.call("packed", cydnn.TensorDesc.packed, *a.changed(["f32", (2, 3, 4, 4), "nhwc"]))
    a.call("Tensor", graph.Tensor, *a.changed([1, cydnn.TensorDesc.packed("f32", (2, 3)), "memory", 16]))
    a.call("Graph", cydnn.Graph, *a.changed([[], []]))
    a.call("Node", cydnn.Node, *a.changed([ops.Matmul(), dict(a=1, b=2, c=3), {}]))


def operations(a: Attack):
    kind = a.random.choice(list(ops.BY_NAME.values()))
    a.call(kind.name, kind, **{a.random.choice(list(kind.attributes())): a.any()})
    found = ops.Problem.parse(a.random.choice(LINES))
    operands = {**found.operands, a.random.choice([*found.operands, "zz"]): a.any()}
    a.call("Problem", ops.Problem, *a.changed([found.op, operands, 16]))
    a.call("Problem", ops.Problem, found.op, operands)


def ranks(a: Attack):
    """Operands of any rank and size; what is taken prints, parses back, is built and runs."""
    kind, given = a.random.choice(list(ops.BY_NAME.values())), {}
    for name in kind.operands():
        if a.random.random() < (.6 if name in kind.writes else .4 if name in kind.optional else 0):
            continue
        dims = [a.random.choice((0, 1, 1, 2, 3, 4)) for _ in range(a.random.randint(0, 5))]
        if dims and a.random.random() < .1:
            dims[0] = a.random.choice((2 ** 31 - 1, 2 ** 31, 2 ** 40))
        row = a.random.choice(("f32", "f16", "i8", "bool", "i64", "f8_e4m3"))
        one = cydnn.TensorDesc.packed(row, dims)
        given[name] = (one,) * a.random.randint(0, 2) if name in kind.variadic else one
    _through(a, a.call("Problem", ops.Problem, kind(), given))


def texts(a: Attack):
    line = a.random.choice(LINES)
    if a.random.random() < .5:
        line = a.misspelt(line)
    else:
        words = line.split()
        words.insert(a.random.randrange(1, len(words) + 1), a.random.choice(WORDS))
        line = " ".join(words)
    _through(a, a.call("Problem.parse", ops.Problem.parse, line))


def _through(a: Attack, problem):
    """The rest of a problem's way."""
    if problem is None:
        return
    if a.call("parse", ops.Problem.parse, a.call("str", str, problem)) != problem:
        a.wrong("a text that does not parse back", str(problem))
    a.call("flops", lambda: (problem.flops, problem.bytes))
    made = a.call("graph_of", bench.graph_of, problem)
    built = made and a.call("build", plan.build, made, a.random.choice(("numpy", "ptx:sm_80")))
    if built and built.device.name == "numpy" and sum(d.bytes for d in problem.descs) < 10 ** 5:
        memory = [np.zeros(max(slot.bytes, 8), np.uint8) for slot in built.slots]
        a.call("execute", built.execute, memory, np.zeros(built.workspace_bytes + 16, np.uint8))


def executes(a: Attack):
    made = bench.graph_of(ops.Problem.parse(a.random.choice(LINES)))
    a.call("build", plan.build, *a.changed([made, "numpy"]))
    built = plan.build(made, "numpy")
    memory = [np.zeros(max(slot.bytes, 8), np.uint8) for slot in built.slots]
    scalars = [default for _, default in built.scalars]
    scalars = a.any() if a.random.random() < .2 else a.changed(scalars)
    room = np.zeros(built.workspace_bytes + 16, np.uint8)
    a.call("execute", built.execute, memory, room, 0, scalars)
    a.call("execute", built.execute, a.random.choice((None, 5, "xy", [])), room)
    pack = a.random.choice((a.any(), dict(zip(built.layout.uids, memory))))
    a.call("run", built.run, pack, room, 0, scalars)


def graphs(a: Attack):
    """Methods of pygraphs in any order, then what is made of the graph."""
    g = frontend.pygraph(io_data_type=cydnn.data_type.FLOAT, intermediate_data_type=cydnn.data_type.FLOAT,
                         handle=a.front)
    tensors = [g.tensor([1, 2, 4, 4], [32, 16, 4, 1]), g.tensor([2, 2, 3, 3], [18, 9, 3, 1])]
    methods = [m for m in dir(g) if m[0] != "_" and inspect.ismethod(getattr(g, m))]
    for _ in range(a.random.randint(1, 4)):
        method = getattr(g, a.random.choice(methods))
        if method.__name__ in ("execute", "execute_plan_at_index"):
            continue
        made = a.call(method.__name__, method, **_arguments(a, method, tensors))
        tensors += [t.set_output(True) for t in (made if isinstance(made, list) else [made])
                    if isinstance(t, tensor)]
    setter = getattr(tensors[0], a.random.choice([m for m in dir(tensors[0]) if m.startswith("set_")]))
    a.call(setter.__name__, setter, *[a.any() for _ in inspect.signature(setter).parameters])
    a.call("tensor_like", g.tensor_like, a.any())
    a.call("tensor_scalar", g.tensor_scalar, a.any(), cydnn.scalar_type.RUNTIME_PARAM)
    option = a.random.choice("name io_data_type compute_data_type sm_count sm_version kernel_cache "
                             "device_property".split())
    a.call("pygraph", frontend.pygraph, handle=a.front, **{option: a.any()})
    for step in (g.validate, g.key, lambda: repr(g), lambda: g.build([cydnn.heur_mode.A])):
        a.call("pygraph", step)
    pack = a.random.choice(({}, [], None, {None: 1}, {"a": 2}, {1.5: 2}, {tensors[0]: object()}, a.any()))
    if g.chosen is not None:
        a.call("execute", g.execute, pack)


def _arguments(a: Attack, method, tensors) -> dict:
    found = {}
    for p in inspect.signature(method).parameters.values():
        if p.kind is p.POSITIONAL_OR_KEYWORD and (p.default is p.empty or a.random.random() < .4):
            found[p.name] = a.random.choice((*a.random.choices(tensors, k=2), [1, 1], a.any()))
    return found
