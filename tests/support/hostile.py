"""Calls with arguments that nobody should give: what may come out is a result, or an exception of the
library's own, a TypeError or a ValueError, whose sentence names function and argument.

    python -m support.hostile --calls 1000000 --seed 7        # from tests/
"""
from __future__ import annotations

import argparse
import faulthandler
import inspect
import json
import random
import re
import resource
import sys
import time
import traceback
import warnings
from collections import Counter

import numpy as np

import cydnn
from cydnn import bench, cudnn, device, dtypes, frontend, graph, kernels, ops, plan
from cydnn.frontend.tensor import tensor
from cydnn.given import shown
from cydnn.legacy.arguments import FUNCTIONS
from cydnn.status import CydnnError

LONGEST = 20                                     # seconds of a call; beyond it hangs
MOST_KIB = 512 << 10                             # that one call may add to the most memory that was in use
PYTHON = re.compile(r"\S+\(\) (missing|got|takes)|<enum .* cannot extend")      # its own sentence on a call
SENTENCE = re.compile(r"\S+: (.* )?(must|takes) ", re.S)


class Named:
    name, value, dtype = "f16", (), None


def values() -> list:
    """Arguments of all kinds, few of which any function takes."""
    numbers = [0, 1, -1, 2, 3, 1.9, -0.0, 1e308, float("nan"), float("inf"), -float("inf"), 2 ** 31, 2 ** 32,
               2 ** 53 + 1, 2 ** 63, -2 ** 63, 2 ** 64, -2 ** 64, 10 ** 400, 1 << 20000, True, False, 1j]
    texts = ["", " ", "f32", ",f16", "i4,i4", "(2,)f4", "int(", "\x00", "\ud800", "日本", "²", "1" * 5000,
             "cuda:99999999999999999999", "cuda:-1", "cuda:²", "ptx:sm_²", "ptx:sm_99999999999", b"",
             b"f32"]
    lists = [[], (), {}, set(), [1], [1.9], [None], ["a"], [1, 2], (1, 2, 3, 4), [2 ** 70] * 4, [10 ** 400],
             [0] * 4, [-1, -1], [1] * 9, [1] * 100, {"a": 1}, {1, 2}, [[1, 2], [3]], ((1,), (2,)), range(3)]
    others = [None, object(), Named(), Named, int, len, Ellipsis, NotImplemented, slice(3), Exception("x"),
              np.float32(1.5), np.int64(3), np.bool_(True), np.zeros(3), np.zeros((2, 3)), np.zeros(0),
              np.array(1.5), np.dtype("f4"), np.dtype("f4,f4")]
    return numbers + texts + lists + others


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


class Attack:
    """Calls of one seed. ``foreign``: {what came out and where: an example}; ``counts``: calls by target."""

    def __init__(self, seed: int):
        self.random, self.values, self.foreign, self.counts = random.Random(seed), values(), {}, Counter()
        self.stored = None                       # (bytes of a plan, text of a graph)
        self.front = frontend.create_handle("numpy")
        self.handle = cudnn.create("numpy")
        self.descriptors = _descriptors()

    # ---- Means ----

    def any(self):
        return self.random.choice(self.values)

    def changed(self, args) -> list:
        """Arguments, of which one or two are something else, or have an element that is."""
        args = list(args)
        for _ in range(self.random.choice((1, 1, 2)) if args else 0):
            i = self.random.randrange(len(args))
            if isinstance(args[i], (list, tuple)) and args[i] and self.random.random() < .5:
                inner = list(args[i])
                inner[self.random.randrange(len(inner))] = self.any()
                args[i] = inner
            else:
                args[i] = self.any()
        return args

    def misspelt(self, text: str) -> str:
        """A text with a few other characters."""
        found = list(text)
        for _ in range(self.random.randint(1, 3)):
            at, way = self.random.randrange(len(found) + 1), self.random.random()
            one = self.random.choice("0123456789-+*=,:@x.nchwkrs_ \x00é²٣ef_[]{}\"")
            found[at:at + (way > .4)] = [one] if way < .7 else []
        return "".join(found)

    def call(self, called: str, function, /, *args, **kw):
        """The result, or None. An exception that may not come out is remembered."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        faulthandler.dump_traceback_later(LONGEST, exit=True, file=sys.__stderr__)
        try:
            return function(*args, **kw)
        except Exception as error:
            self.judge(called, error, args, kw)
        finally:
            faulthandler.cancel_dump_traceback_later()
            if (more := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) > MOST_KIB:
                self.wrong(f"{called}: {more >> 10} MiB of memory", " ".join(map(shown, args)))

    def judge(self, name, error, args, kw):
        is_own = isinstance(error, CydnnError) or type(error) in (TypeError, ValueError)
        text = str(error)
        if isinstance(error, CydnnError) or is_own and (PYTHON.match(text) or SENTENCE.match(text)):
            return
        place = [f for f in traceback.extract_tb(error.__traceback__) if "cydnn" in f.filename][-1:]
        where = "".join(f" at {f.filename.rpartition('cydnn/')[2]}:{f.lineno}" for f in place)
        self.wrong(f"{type(error).__name__}: {text[:60]}{where}", f"{name} {', '.join(map(shown, args))} "
                   + " ".join(f"{k}={shown(v)}" for k, v in kw.items()))

    def wrong(self, what: str, example: str):
        self.foreign.setdefault(what, example)

    def run(self, calls: int):
        """So many calls of the targets in turn."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for i in range(calls):
                target = TARGETS[i % len(TARGETS)]
                self.counts[target.__name__] += 1
                target(self)
        return self


def _descriptors() -> dict:
    """One of each kind, set, by how the names of arguments end."""
    x, w, conv, pool = (cudnn.createTensorDescriptor(), cudnn.createFilterDescriptor(),
                        cudnn.createConvolutionDescriptor(), cudnn.createPoolingDescriptor())
    cudnn.setTensor4dDescriptor(x, 0, 0, 1, 2, 4, 4)
    cudnn.setFilter4dDescriptor(w, 0, 0, 2, 2, 3, 3)
    cudnn.setConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, 1)
    cudnn.setPooling2dDescriptor(pool, 0, 0, 3, 3, 1, 1, 1, 1)
    return dict(wDesc=w, dwDesc=w, filterDesc=w, convDesc=conv, poolingDesc=pool, Desc=x)


# -- What is called ------------------------------------------------------------------------------------------

def names(a: Attack):
    """Everything that takes one thing."""
    function = a.random.choice((dtypes.dtype, device.get, kernels.get, frontend.create_device_properties,
                                frontend.create_handle, ops.Problem.parse, frontend.get_stream,
                                cudnn.create, cudnn.getErrorString, cudnn.getLastErrorString))
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


def files(a: Attack):
    """Plans and graphs that were written down, with another byte or another entry."""
    a.stored = a.stored or _stored(a)
    plan_bytes, text = a.stored
    one = bytearray(plan_bytes)
    one[a.random.randrange(len(one))] = a.random.choice(b'0123456789-"[]{},:.ex \x00\xff')
    for data in (list(one), a.misspelt(text), _other_entry(a, text),
                 _other_entry(a, plan_bytes.decode()).encode()):
        g = frontend.pygraph(handle=a.front)
        a.call("deserialize", g.deserialize, data)
        for step in (g.validate, g.key, lambda: repr(g)):
            a.call("deserialize", step)


def _stored(a: Attack) -> tuple:
    g = frontend.pygraph(io_data_type=cydnn.data_type.FLOAT, intermediate_data_type=cydnn.data_type.FLOAT,
                         handle=a.front)
    x, w = g.tensor([1, 2, 4, 4], [32, 16, 4, 1]), g.tensor([2, 2, 3, 3], [18, 9, 3, 1])
    number = g.tensor_scalar(2.0, cydnn.scalar_type.RUNTIME_PARAM)
    g.relu(g.add(g.conv_fprop(x, w, padding=[1, 1], stride=[1, 1], dilation=[1, 1]), number)).set_output(True)
    g.build([cydnn.heur_mode.A])
    return bytes(g.serialize()), repr(g)


def _other_entry(a: Attack, text: str) -> str:
    row = json.loads(text)
    places = []
    def walk(x):
        for key in (x if isinstance(x, dict) else range(len(x))):
            places.append((x, key))
            if isinstance(x[key], (dict, list)):
                walk(x[key])
    walk(row)
    inside, key = a.random.choice(places)
    if a.random.random() < .2:
        del inside[key]
    else:
        inside[key] = a.random.choice([v for v in a.values if _is_json(v)])
    return json.dumps(row)


def _is_json(value) -> bool:
    try:
        return bool(json.dumps(value)) and not (isinstance(value, int) and abs(value) > 10 ** 500)
    except (TypeError, ValueError):
        return False


def functions(a: Attack):
    """The v5 functions. No address is made up: memory that is not there is the caller's fault."""
    name = a.random.choice(sorted(set(FUNCTIONS) - {"create", "destroy"}))
    function = FUNCTIONS[name][0]
    parameters = list(inspect.signature(function).parameters)
    right = [_right(a, p) for p in parameters]
    given = a.changed(right)
    for i, (good, bad) in enumerate(zip(right, given)):
        if bad is good:
            continue
        may_be_memory = not isinstance(good, (int, float, tuple)) or "ize" in parameters[i]
        is_address = may_be_memory and hasattr(bad, "__index__")
        if is_address and not isinstance(bad, (np.ndarray, np.generic)):
            given[i] = a.random.choice((None, 2 ** 64, -1, 10 ** 400, "x", 1.5))
    a.call(name, function, *given)


def _right(a: Attack, parameter: str):
    """An argument that would do, by its name."""
    word = parameter.lower()
    found = next((d for end, d in a.descriptors.items() if parameter.endswith(end)), None)
    if word == "handle" or found is not None:
        return a.handle if word == "handle" else found
    if word in ("alpha", "beta", "alpha1", "alpha2"):
        return 1.0
    if "bytes" in word or "size" in word:
        return 1 << 14
    if re.search("data|space|states|grid|theta|bn|temp|mean|result|saved|buffer|ptr|estimated", word) or (
            re.fullmatch("d?[a-cwxyh][xy]?", word)):
        return np.zeros(4096, np.float32)
    return (2, 2, 4, 4) if word.endswith("a") else a.random.choice((0, 1, 2, 3))


TARGETS = (names, descriptions, operations, ranks, texts, executes, graphs, files, functions)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10 ** 5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    done = Attack(args.seed).run(args.calls)
    print(f"seed {args.seed}: {args.calls} rounds, {len(done.foreign)} kinds of foreign exceptions")
    for what, example in done.foreign.items():
        print(ascii(what), ascii(example), sep="\n    ")
    return 1 if done.foreign else 0


if __name__ == "__main__":
    raise SystemExit(main())
