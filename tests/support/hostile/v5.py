"""Sequences of the v5 functions: descriptors and handles created, set, asked, used, copied and destroyed in
any order, used after they are destroyed, in place of others, and changed while a call looks at them.

What must hold of each call: with a descriptor that is destroyed or of another kind it is refused; where it is
refused, no descriptor and no memory has changed; two questions in a row have one answer.
"""
from __future__ import annotations

import copy
import inspect
import pickle
import re

import numpy as np

from cydnn import cudnn
from cydnn.legacy.arguments import FUNCTIONS, KINDS

from .attack import Attack
from .values import Reentrant

KIND_OF = (("handle", "library handle"), ("activationDesc", "activation descriptor"),
           ("filterDesc", "filter descriptor"), ("wDesc", "filter descriptor"),
           ("linLayerMatDesc", "filter descriptor"), ("linLayerBiasDesc", "filter descriptor"),
           ("convDesc", "convolution descriptor"), ("poolingDesc", "pooling descriptor"),
           ("normDesc", "LRN descriptor"), ("lrnDesc", "LRN descriptor"),
           ("opTensorDesc", "op tensor descriptor"), ("dropoutDesc", "dropout descriptor"),
           ("rnnDesc", "recurrent network descriptor"), ("stDesc", "spatial transformer descriptor"),
           ("Desc", "tensor descriptor"))
SET = {                                          # kind: what sets one, and arguments that do
    "tensor descriptor": ("setTensor4dDescriptor", (0, 0, 1, 2, 4, 4), (0, 0, 2, 2, 4, 4), (1, 2, 1, 2, 4, 4),
                          (0, 2, 2, 2, 4, 4), (0, 0, 1, 2, 1, 1)),
    "filter descriptor": ("setFilter4dDescriptor", (0, 0, 2, 2, 3, 3), (2, 0, 2, 2, 3, 3),
                          (0, 1, 2, 2, 1, 1)),
    "convolution descriptor": ("setConvolution2dDescriptor", (1, 1, 1, 1, 1, 1, 1), (0, 0, 2, 2, 1, 1, 0)),
    "pooling descriptor": ("setPooling2dDescriptor", (0, 0, 3, 3, 1, 1, 1, 1), (1, 1, 2, 2, 0, 0, 2, 2)),
    "activation descriptor": ("setActivationDescriptor", (1, 0, 0.0), (3, 1, 6.0)),
    "LRN descriptor": ("setLRNDescriptor", (5, 1e-4, .75, 2.0), (1, 1.0, .75, 1.0)),
    "op tensor descriptor": ("setOpTensorDescriptor", (0, 0, 0), (3, 0, 1)),
    "spatial transformer descriptor": ("setSpatialTransformerNdDescriptor", (0, 0, 4, (2, 2, 4, 4)))}
MEMORY = re.compile("data|space|states|grid|theta|means?$|temp|mean$|variance|result|saved|buffer"
                    "|bn(scale|bias)$|d?[a-cwxyh][xy]?|hx|cx|hy|cy", re.I)
STEPS = ("set", "set", "get", "use", "use", "use", "use", "misuse", "destroy", "make", "twin", "stream")
CALLS = {name: (function, list(inspect.signature(function).parameters))
         for name, (function, _) in FUNCTIONS.items()}
USES = sorted({n for n, (_, p) in CALLS.items() if "handle" in p} - {"destroy", "setStream", "getStream"})
FINDS = {n for n in USES if n.startswith("find")}              # they time every algorithm


def kind_of(parameter: str) -> str:
    return next((kind for end, kind in KIND_OF if parameter.endswith(end)), "")


def verb(word: str, kind: str) -> str:
    """What creates or destroys one of a kind."""
    return word if kind == "library handle" else word + KINDS[kind].type.__name__


def made(a: Attack, kind: str):
    given = ["numpy"] if kind == "library handle" else []
    return a.call("create", getattr(cudnn, verb("create", kind)), *given)


class Desk:
    """The objects of one sequence, alive and destroyed, and the memory that its calls are given."""

    def __init__(self, a: Attack):
        self.a, self.things, self.memory, self.is_alone = a, [], [], True
        self.handle = a.handle if a.random.random() < .8 else cudnn.create("numpy")
        for kind in (*SET, "tensor descriptor", "dropout descriptor", "recurrent network descriptor"):
            self.make(kind)

    def make(self, kind=None):
        kind = kind or self.a.random.choice(list(KINDS))
        thing = made(self.a, kind)
        self.things.append((kind, thing))
        if self.a.random.random() < .8:
            self.set(kind, thing)

    def set(self, kind, thing):
        if kind in SET:
            name, *rows = SET[kind]
            self.a.call(name, getattr(cudnn, name), thing, *self.a.random.choice(rows))
        elif kind == "dropout descriptor":
            room = np.zeros(cudnn.dropoutGetStatesSize(self.a.handle), np.uint8)
            self.a.call(kind, cudnn.setDropoutDescriptor, thing, self.handle, .5, room, room.nbytes, 7)
        elif kind == "recurrent network descriptor":
            dropouts = (d for k, d in self.things if k == "dropout descriptor" and not d.is_destroyed)
            dropout = next(dropouts, None)
            if dropout is not None:
                mode = self.a.random.randrange(4)
                self.a.call(kind, cudnn.setRNNDescriptor, thing, 4, 1, dropout, 0, 0, mode, 0)

    def one(self, kind: str):
        """One of a kind that lives, else a new one."""
        alive = [t for k, t in self.things if k == kind and not t.is_destroyed]
        return self.a.random.choice(alive) if alive else made(self.a, kind)

    def wrong(self, kind: str):
        """One that is destroyed or of another kind, or its number."""
        found = [t for k, t in self.things if (k != kind or t.is_destroyed) and t is not self.a.handle]
        if not found:
            return object()
        thing = self.a.random.choice(found)
        return thing if self.a.random.random() < .7 else int(thing)

    def room(self) -> np.ndarray:
        self.memory.append(np.zeros(4096, np.float32))
        return self.memory[-1]

    def state(self) -> list:
        return [(t.kind, t.fields, t.is_destroyed, t.held() if hasattr(t, "held") else ())
                for _, t in self.things if not isinstance(t, cudnn.Handle)]


# ---- Arguments ----

def argument(desk: Desk, name: str, parameter: str):
    """One that would do, by its name."""
    kind, word, draw = kind_of(parameter), parameter.lower(), desk.a.random
    if parameter == "handle":
        return desk.handle
    if name.startswith(("RNN", "getRNNW", "getRNNT")) and parameter in ("xDesc", "yDesc", "dxDesc", "dyDesc"):
        return [desk.one("tensor descriptor")] * draw.choice((1, 2))
    if kind:
        return desk.one(kind)
    if word in ("alpha", "beta", "alpha1", "alpha2", "epsilon") or "alpha" in word or "beta" in word:
        return draw.choice((1.0, 0.0, .5))
    if "bytes" in word:
        return 1 << 14
    if MEMORY.fullmatch(word) or MEMORY.search(word) and len(word) > 2:
        return desk.room()
    if word.endswith("a") and "mode" not in word:
        return draw.choice(((2, 2, 4, 4), (32, 16, 4, 1), (1, 1), (3, 3, 3, 3)))
    return draw.choice((4, 3)) if word.startswith(("nbdims", "arraylength")) else draw.choice((0, 1, 2, 3))


def hostile(desk: Desk, parameter: str):
    """Something else in an argument's place. No address is made up: memory that is not there is the caller's
    fault."""
    a = desk.a
    if a.random.random() < .15:
        return Reentrant(lambda: destroyed(desk) if a.random.random() < .7 else desk.make())
    found = a.any()
    is_number = hasattr(found, "__index__") and not isinstance(found, np.ndarray)
    if is_number and (MEMORY.search(parameter) or "ize" in parameter or "tream" in parameter):
        return a.random.choice((None, 2 ** 64, -1, 10 ** 400, "x", 1.5))
    return found


def call(desk: Desk, name: str, *, is_wrong=False, is_hostile=False):
    """A function with what would do; with a descriptor that would not; with something else."""
    a, (function, parameters) = desk.a, CALLS[name]
    desk.memory = []
    given = [argument(desk, name, p) for p in parameters]
    described = [i for i, p in enumerate(parameters) if kind_of(p)]
    if is_wrong and described:
        i = a.random.choice(described)
        given[i] = desk.wrong(kind_of(parameters[i]))
    if is_hostile and parameters:
        i = a.random.randrange(len(given))
        given[i] = hostile(desk, parameters[i])
    is_calm = not any(isinstance(x, Reentrant) for x in given)
    before = desk.state()
    found = a.call(name, function, *given)
    if is_wrong and described and not is_hostile and not a.refused:
        a.wrong(f"{name} takes what is destroyed or of another kind", repr(given))
    if a.refused and is_calm:
        if desk.is_alone and desk.state() != before:
            a.wrong(f"{name} is refused and has changed a descriptor", repr(given))
        if any(m.any() for m in desk.memory):
            a.wrong(f"{name} is refused and has written", repr(given))
    return found


# ---- Steps ----

def destroyed(desk: Desk):
    """One of the things is destroyed, by itself or by its number; a second time is refused."""
    a = desk.a
    kind, thing = a.random.choice(desk.things)
    destroy = getattr(cudnn, verb("destroy", kind))
    is_dead = thing.is_destroyed
    a.call(destroy.__name__, destroy, int(thing) if a.random.random() < .3 else thing)
    if a.refused != is_dead and desk.is_alone:
        a.wrong(f"{destroy.__name__} of one that is {'destroyed' if is_dead else 'alive'}", repr(thing))


def twin(desk: Desk):
    """Copies, pickles, comparisons and texts of things in any state."""
    a = desk.a
    (_, one), (_, other) = a.random.choice(desk.things), a.random.choice(desk.things)
    way = a.random.choice((copy.copy, copy.deepcopy, repr, hash, int, lambda x: x == other,
                           lambda x: {x: 1}[x],
                           lambda x: pickle.loads(pickle.dumps(x))))
    made = a.call("copy", way, one)
    if desk.is_alone and type(made) is type(one) and made != one:
        a.wrong("a copy that is another", repr(one))


def step(desk: Desk, what: str):
    a = desk.a
    if what == "make":
        desk.make()
    elif what == "destroy":
        destroyed(desk)
    elif what == "twin":
        twin(desk)
    elif what == "stream":
        a.call("setStream", cudnn.setStream, a.either(.3, desk.handle), a.either(.5, 0))
    elif what in ("set", "get"):
        name = a.random.choice([n for n in CALLS if n.startswith((what, "derive")) and n not in USES])
        call(desk, name, is_hostile=a.random.random() < .5, is_wrong=a.random.random() < .2)
        kind = kind_of(CALLS[name][1][0]) if CALLS[name][1] else ""
        if kind and a.random.random() < .5:
            desk.set(kind, desk.one(kind))
    else:
        names = USES if a.random.random() < .02 else [n for n in USES if n not in FINDS]
        call(desk, a.random.choice(names), is_wrong=what == "misuse", is_hostile=a.random.random() < .3)


def descriptors(a: Attack):
    """A sequence."""
    desk = Desk(a)
    for _ in range(a.random.randint(4, 24)):
        step(desk, a.random.choice(STEPS))
        if desk.handle.is_destroyed:
            desk.handle = a.handle
    as_before(a)


def as_before(a: Attack):
    """The library computes what it did before."""
    x, y = np.linspace(-1, 1, 32, dtype=np.float32), np.zeros(32, np.float32)
    desc, relu = KINDS["tensor descriptor"].create(), KINDS["activation descriptor"].create()
    cudnn.setTensor4dDescriptor(desc, 0, 0, 1, 2, 4, 4)
    cudnn.setActivationDescriptor(relu, 1, 0, 0.0)
    a.call("setStream", cudnn.setStream, a.handle, 0)
    a.call("activationForward", cudnn.activationForward, a.handle, relu, 1.0, desc, x, 0.0, desc, y)
    if (y != np.maximum(x, 0)).any():
        a.wrong("another result after a sequence", "activationForward")
