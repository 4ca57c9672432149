"""The functions as operations of JAX: in ``jax.jit`` they are calls of XLA's own, with their gradients.

``cydnn.jax.conv(x, w, padding=1)`` is ``cydnn.conv`` on arrays of JAX and on what stands for them under a
trace: ``jit``, ``grad``, ``vmap`` (one after the other), ``scan``, ``remat``. Options and numbers are fixed
when a program is traced. A compiled program launches on its own stream; nothing passes through the host.
Importing it imports jax.
"""
from __future__ import annotations

import hashlib
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial

try:
    import jax
    import jax.numpy as jnp
    from jax.custom_derivatives import SymbolicZero
    from jax.ffi import ffi_call, register_ffi_target
except ModuleNotFoundError as error:
    raise ImportError("cydnn.jax: the package jax must be installed, of version 0.5 or later; got: "
                      f"{error}") from None

import numpy as np

from . import device as devices
from ._core import CALLS, CHOSEN, targets
from .device.numpy import view
from .functional import FUNCTIONS, Function
from .functional.arrays import foreign_name, of_layout
from .functional.function import planned, results_of
from .functional.passes import DRAWING, plain, walked
from .given import shown
from .names import missing
from .status import BadParam, InternalError, NotSupported
from .tensor import TensorDesc, packed_strides, stride_order

TARGET = "cydnn"                                 # what XLA calls us
OF_ROWS = frozenset("attention matmul linear softmax log_softmax softmin layer_norm rms_norm".split())

for _platform, _capsule in targets().items():
    register_ffi_target(TARGET, _capsule, platform=_platform)


# ---- How arrays lie ----

_IS_LAST: ContextVar[bool] = ContextVar("channels_last", default=False)


@contextmanager
def channels_last():
    """Inside, images are asked of XLA, and given to it, with their channels innermost in memory, whatever is
    traced: a transpose to it and back costs nothing in a program whose arrays are (n, spatial…, c)."""
    token = _IS_LAST.set(True)
    try:
        yield
    finally:
        _IS_LAST.reset(token)


def _said(name: str, x, is_last: bool):
    """What an array says of itself: memory in logical order, or with channels innermost."""
    order = (0, *range(2, x.ndim), 1) if is_last and x.ndim in (4, 5) else tuple(range(x.ndim))
    packed = packed_strides([x.shape[a] for a in order])
    return of_layout(name, x.shape, [packed[order.index(a)] for a in range(x.ndim)], x.dtype)


# ---- A call of XLA ----

class Call:
    """A graph that a compiled program runs. ``key`` tells it from all others, in every process; ``chosen``:
    the device for the host's memory; ``given``: which arguments are handed over, of all that ``said`` has."""

    def __init__(self, key: str, traced: tuple, said, numbers, chosen: str | None):
        self.key, (self.trace, self.graph, self.values), self.numbers = key, traced, numbers
        used = {self.trace.sources.get(uid) for uid in self.graph.tensors}
        self.given = [i for i, s in enumerate(said) if s is not None and i in used]
        self.orders = [_dims_of(said[i].desc) for i in self.given]
        self.results = results_of(self.trace, self.graph, self.values)
        self.descs = [s and s.desc for s in said]
        self.chosen = chosen
        self._ready: dict = {}
        self.number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 1
        CALLS[self.number] = self.on

    def on(self, ordinal: int | None) -> tuple:
        """What runs on a GPU, or (None) in the host's memory: (its execute, the argument or ~ result of each
        slot, numbers, bytes of workspace, what allocates on the host)."""
        if ordinal not in self._ready:
            device = devices.get((self.chosen or "numpy") if ordinal is None else f"cuda:{ordinal}")
            plan, slots, numbers = planned(self.trace, self.graph, self.values, device)
            order = tuple([slot if slot < 0 else self.given.index(slot) for slot in slots])
            numbers = numbers and tuple([self.numbers[n] if is_given else n for is_given, n in numbers])
            execute = plan.executable.execute
            if device.name.startswith("ptx:"):   # an interpreter reads arrays, no addresses
                descs = [self.results[~slot].desc if slot < 0 else self.descs[slot] for slot in slots]
                execute = partial(_executed, execute, descs)
            self._ready[ordinal] = execute, order, numbers, plan.workspace_bytes, device.alloc
        return self._ready[ordinal]

    def __call__(self, arrays) -> list:
        """The results, of the arguments that are handed over."""
        shapes, layouts = zip(*[_shape(self.key, result) for result in self.results])
        run = ffi_call(TARGET, list(shapes), vmap_method="sequential", input_layouts=self.orders,
                       output_layouts=list(layouts))
        return list(run(*arrays, call=np.int64(self.number)))


def _executed(execute, descs, addresses, *rest):
    """Run a plan on the host's memory at addresses."""
    execute([view(desc, address) for desc, address in zip(descs, addresses)], *rest)


def _shape(key: str, result) -> tuple:
    """(what JAX calls a result, its dims from the outermost to the innermost)."""
    (desc, is_bool), name = result, key.partition(" ")[0]
    kind = np.dtype(bool if is_bool else getattr(jnp, foreign_name(desc.dtype)))
    if jax.dtypes.canonicalize_dtype(kind) != kind:
        raise BadParam(f"{name}: the result must be of a type that jax has turned on; got {kind}: set "
                       "jax_enable_x64, or give dtype")
    return jax.ShapeDtypeStruct(desc.dims, kind), _dims_of(desc)


def _dims_of(desc: TensorDesc) -> tuple:
    """The dims of memory without gaps from the outermost to the innermost; in their own order where that
    says as much."""
    own = tuple(range(desc.rank))
    return own if desc.is_packed() else stride_order(desc)


_calls: dict = {}                                # key -> the call


def _call(key: str, make) -> Call:
    """The call of a key, made once: compiled programs know it by its number."""
    found = _calls.get(key)
    if found is None:
        found = _calls.setdefault(key, make())
        if CALLS[found.number].__self__.key != key:
            raise InternalError(f"cydnn.jax: two calls must have two numbers; got {found.number} for both")
    return found


# ---- A function ----

class Bound:
    """A function with its options, and where and how it was called. ``present``: which arguments are arrays;
    ``numbers``: what stands in the place of others."""

    def __init__(self, function: Function, present: tuple, numbers: tuple, options: tuple):
        self.function, self.present, self.numbers, self.options = function, present, list(numbers), options
        self.chosen, self.is_last = CHOSEN.get(), _IS_LAST.get() and function.name not in OF_ROWS
        self.text = repr((present, numbers, plain(options), self.chosen))
        made = jax.custom_vjp(self.plain)
        made.defvjp(self.forward, self.backward, symbolic_zeros=True)
        self.call = jax.jit(made, inline=True)   # a call outside of traces is a compiled program, too

    def said(self, arrays) -> list:
        """What all arguments say of themselves."""
        found = [None] * len(self.function.arrays)
        for i, x in zip(self.present, arrays):
            found[i] = _said(f"{self.function.name}: {self.function.arrays[i]}", x, self.is_last)
        for i, (name, x) in enumerate(zip(self.function.arrays, self.numbers)):
            if found[i] is None:
                self.function.absent(name, x)
        return found

    def _traced(self, said, is_saving: bool) -> Call:
        def make():
            trace, values, _ = self.function.traced(said, self.numbers, self.options, is_saving)
            if trace.inplace:
                raise NotSupported(f"{self.function.name}: running_mean and running_var must be None in "
                                   "training, as arrays of jax do not change; got them: move them by the "
                                   "mean and variance of the batch")
            return Call(key, (trace, trace.finish(values), values), said, self.numbers, self.chosen)
        key = f"{self.function.name} {_row(said)} {self.text} {is_saving}"
        return _call(key, make)

    def run(self, arrays, is_saving: bool) -> list:
        call = self._traced(self.said(arrays), is_saving)
        return call([arrays[self.present.index(i)] for i in call.given])

    def plain(self, *arrays):
        found = self.run(arrays, False)
        return found[0] if len(found) == 1 else tuple(found)

    # ---- Its gradient ----

    def forward(self, *primals):
        """The result, and what the gradient of the arguments that have one reads."""
        arrays = [p.value for p in primals]
        wanted = tuple([i for i, p in zip(self.present, primals)
                        if p.perturbed and jnp.issubdtype(p.value.dtype, jnp.floating)])
        saves = self.function.saves
        found = self.run(arrays, bool(saves))
        results, saved = found[:len(found) - saves], found[len(found) - saves:]
        every = dict(zip(self.present, arrays))
        every |= {len(self.function.arrays) + i: x for i, x in enumerate([results[0], *saved])}
        walk = self._walked(every, results, wanted)
        ends = len(self.function.arrays) + 1 + saves
        kept = [every[i] for i in walk.given if i != ends]
        return results[0] if len(results) == 1 else tuple(results), (kept, Static((walk, ends, wanted)))

    def _walked(self, every: dict, results, wanted) -> Call:
        """The backward pass of the first result."""
        count = len(self.function.arrays) + 1 + self.function.saves
        of = lambda x: _said(self.function.name, x, self.is_last)
        said = [of(every[i]) if i in every else None for i in range(count)] + [of(results[0])]

        def make():
            trace, found, graph = walked(self.function, self.numbers, said, self.options, wanted)
            return Call(key, (trace, graph, found), said, self.numbers, self.chosen)
        key = f"{self.function.name}_backward {_row(said)} {self.text} {wanted}"
        return _call(key, make)

    def backward(self, residual, grads):
        kept, (walk, ends, wanted) = residual[0], residual[1].value
        grad = grads[0] if isinstance(grads, (tuple, list)) else grads
        if isinstance(grad, SymbolicZero) or not wanted:
            return (None,) * len(self.present)
        rest = iter(kept)
        found = dict(zip(wanted, walk([grad if i == ends else next(rest) for i in walk.given])))
        return tuple([found.get(i) for i in self.present])


@jax.tree_util.register_static
class Static:
    """What a gradient knows beside arrays."""

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return isinstance(other, Static) and self.value == other.value


def _row(said) -> list:
    return [s and (str(s.desc), s.is_bool) for s in said]


@lru_cache(maxsize=4096)
def _bound(function: Function, present, numbers, options, *context) -> Bound:
    return Bound(function, present, numbers, options)


def _array(name: str, x):
    """An argument as an array of JAX, or a trace of one."""
    if isinstance(x, (jax.Array, np.ndarray)):
        return jnp.asarray(x)
    raise BadParam(f"{name}: must be an array of jax; got {shown(x)}")


def _call_of(function: Function, *args, **kw):
    arrays, options, out, device, explain = function._bind(*args, **kw)
    name = function.name
    if out is not None or device is not None or explain:
        raise BadParam(f"{name}: out, device and explain must be left out, as XLA says where a program runs; "
                       f"got one: use cydnn.functional.{name}")
    given = dict(zip((*function.arrays, *function.options), (*arrays, *options)))
    share = given.get(DRAWING.get(name), 0)
    if share and given.get("training", True) and given.get("seed") is None:
        raise BadParam(f"{name}: seed must be given, as a program of jax is traced once; got None: give an "
                       "array of one whole number, another one for every call")
    numbers = tuple([x if isinstance(x, (int, float)) and not isinstance(x, bool) else None for x in arrays])
    present = tuple([i for i, x in enumerate(arrays) if x is not None and numbers[i] is None])
    options = tuple([tuple(v) if isinstance(v, list) else v for v in options])
    found = [_array(f"{name}: {function.arrays[i]}", arrays[i]) for i in present]
    if not found:
        return function(*args, **kw)             # says what it wants
    is_whole = name in ("sum", "prod") and found[0].dtype.kind in "biu"
    if is_whole and options[-1] is None and not jax.config.jax_enable_x64:
        options = (*options[:-1], "i32")         # the widest that there is
    return _bound(function, present, numbers, options, CHOSEN.get(), _IS_LAST.get()).call(*found)


def _caller(function: Function):
    def call(*args, **kw):
        return _call_of(function, *args, **kw)
    call.__name__ = call.__qualname__ = function.name
    call.__doc__, call.__signature__ = function.__doc__, function.signature
    return call


CALLERS = {name: _caller(function) for name, function in FUNCTIONS.items()}
__all__ = ["channels_last", *CALLERS]


def __getattr__(name):
    if name in CALLERS:
        return CALLERS[name]
    raise missing(f"module {__name__!r}", name, __all__)


def __dir__():
    return sorted(__all__)
