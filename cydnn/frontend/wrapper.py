"""``Graph``: a graph written in a ``with`` block on arrays themselves, built when the block ends, called
like a function."""
from __future__ import annotations

import inspect
from collections import Counter
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..dtypes import ML_DTYPES, DType
from ..given import flag, reason, several, shown, text
from ..status import BadParam, CydnnError
from .arrays import is_array
from .datatypes import _cudnn_to_torch_data_type, _is_torch_tensor
from .enums import heur_mode
from .handle import Handle, create_handle, current, get_handle, set_stream
from .inspecting import Inspecting
from .planning import Planning
from .pygraph import pygraph
from .stored import Stored
from .tensor import tensor
from .tuning import Tuning

ASKED = frozenset(("query_tensor_attributes_of_uid", *vars(Inspecting), *vars(Planning), *vars(Stored),
                   *vars(Tuning)))               # what else is a method makes an operation
BUILT_BY_ITSELF = (
    "build", "build_operation_graph", "build_plan_at_index", "build_plans", "check_support",
    "create_execution_plan", "create_execution_plans", "deselect_behavior_notes", "deselect_engines",
                   "deselect_numeric_notes",
    "deselect_workspace_greater_than", "execute", "execute_plan_at_index", "get_behavior_notes",
    "get_behavior_notes_for_plan_at_index", "get_engine_count", "get_execution_plan_count",
    "get_knobs_for_engine", "get_plan_name_at_index", "key", "populate_cuda_graph", "select_behavior_notes",
                   "select_numeric_notes",
    "update_cuda_graph", "validate")
_Methods = pygraph if TYPE_CHECKING else object  # for editors: what __getattr__ answers
_auto: dict = {}                                 # device that torch is at -> the handle that "auto" means


class Graph(_Methods):
    """Inside the block, methods of pygraph take arrays as well as tensors; when it ends, everything is built.

    ``inputs`` and ``outputs`` (names, tensors, arrays, uids) set the order for positional calls.
    ``heuristics``: the modes, [A, FALLBACK] by default. ``workspace_alloc=False``: each call is given
    ``workspace``. ``handle``: of create_handle, "auto" for one of the process on torch's current stream, or
    None: each call is given ``handle``; for one of another device plans are made at the first call with it.
    The rest is for pygraph. Results are torch tensors on a GPU and where a call is given one, else NumPy
    arrays; bf16 and f8 are those of ml_dtypes.
    """

    def __init__(self, *, handle=None, inputs=None, outputs=None, heuristics=None, workspace_alloc=True,
                 **pygraph_kwargs):
        if heuristics is not None and not isinstance(heuristics, heur_mode):
            heuristics = several("Graph: heuristics", heuristics, "heur_mode")
        for name, value in dict(inputs=inputs, outputs=outputs).items():
            if value is not None and not isinstance(value, (list, tuple)):
                raise BadParam(f"Graph: {name} must be a list; got {shown(value)}")
        self._handle, self._options, self._is_lent = handle, pygraph_kwargs, not flag(
            "Graph: workspace_alloc", workspace_alloc)
        self._modes = heuristics or (heur_mode.A, heur_mode.FALLBACK)
        self._order = inputs or [], outputs or []
        self._graph: pygraph | None = None
        self._tensor_of: dict = {}               # id of an array -> (tensor, the array, which keeps its id)
        self._inputs, self._outputs = {}, {}     # name -> tensor
        self._free: list[tensor] = []            # made by the user
        self._counts, self._names = {}, set()
        self._is_ready, self._called = False, None
        self._refused: str | None = None         # the first refusal in the block
        self._ended: str | None = None           # the error that the block ended with
        self._planned: dict = {}                 # device -> (graph with plans for it, workspace)

    def __enter__(self):
        if self._graph is not None or self._ended is not None:
            raise BadParam("Graph: its block must be entered once; got a second time")
        known = {} if self._handle is None or _is_auto(self._handle) else dict(handle=self._handle)
        self._graph = pygraph(**known, **self._options)
        return self

    def __exit__(self, kind, error, traceback):
        if self._graph is None:
            raise BadParam("Graph: its block must be entered before it ends")
        if kind is not None:
            self._graph, self._ended = None, reason(error)
            return False
        try:
            with self._told():
                self._graph.build(self._modes)
        except CydnnError as found:
            self._ended = reason(found)
            raise
        self._is_ready = True
        self._at(self._graph.own_handle)
        if any(self._order):
            self.set_io_tuples(*self._order)
        return False

    @contextmanager
    def _told(self):
        """An error says what was refused in the block before it."""
        try:
            yield
        except CydnnError as error:
            if self._refused is not None:
                error.add_info(f"refused before it: {self._refused}")
            self._refused = self._refused or reason(error)
            raise

    def _at(self, at: Handle) -> tuple:
        """(graph with plans for the device of a handle, workspace there)."""
        if at.device not in self._planned:
            graph = self._graph._planned_for(at, self._modes)
            size = (graph.get_workspace_size(),)
            self._planned[at.device] = graph, None if self._is_lent else empty(at.device, False, size, (1,))
        return self._planned[at.device]

    def __repr__(self):
        return repr(self._graph)

    def __reduce__(self):
        raise TypeError("pickle: a graph belongs to its process; got a Graph: keep serialize() of it, which "
                        "deserialize of a pygraph reads")

    # ---- Inside the block ----

    def __getattr__(self, name):
        graph = self.__dict__.get("_graph")
        if name.startswith("_") or graph is None:
            ended = self.__dict__.get("_ended")
            why = f"its block ended with {ended}" if ended else "its block must be entered first"
            raise AttributeError(f"Graph has no attribute {name}" + ("" if graph else f"; {why}"))
        if name in BUILT_BY_ITSELF:
            raise CydnnError(f"Graph: {name} must not be called, as the block builds the graph itself")
        found = getattr(graph, name)
        if name in ASKED or not inspect.ismethod(found):
            return found
        if name in ("tensor", "tensor_like", "tensor_scalar"):
            return lambda *args, **kw: self._made(found(*args, **kw))
        return lambda *args, **kw: self._operation(name, found, list(args), kw)

    def _made(self, t):
        self._free.append(t)
        return t

    def _operation(self, method, call, args, kw):
        """Call a method with tensors in place of arrays; remember what it reads and gives by name."""
        number, inputs = self._counts.get(method, 0), {}
        node = text(f"{method}: name", kw.setdefault("name", f"{method}.{number}"))
        if node in self._names:
            raise BadParam(f"Graph: names of operations must differ; got {node} twice")
        with self._told():
            args = [self._argument(f"{node}::{i}", value, inputs) for i, value in enumerate(args)]
            kw = {key: self._argument(f"{node}::{key}", value, inputs) for key, value in kw.items()}
            made = call(*args, **kw)
        self._counts[method] = number + 1        # only now: what was refused leaves nothing behind
        self._names.add(node)
        self._inputs.update(inputs)
        for i, t in enumerate(made if isinstance(made, (list, tuple)) else [made]):
            if isinstance(t, tensor):
                self._outputs[t.get_name() or f"{node}::{i}"] = t
        return made

    def _argument(self, name, value, inputs: dict):
        """An argument, with tensors in place of arrays, inside tuples too; ``inputs`` gets them by name."""
        if isinstance(value, tuple):
            return tuple([self._argument(f"{name}::{i}", v, inputs) for i, v in enumerate(value)])
        if is_array(value) and not isinstance(value, (np.generic, tensor)):
            if id(value) not in self._tensor_of:
                self._tensor_of[id(value)] = self._graph.tensor_like(value), value
            value = self._tensor_of[id(value)][0]
        if isinstance(value, tensor):
            inputs[name] = value
        return value

    # ---- Afterwards ----

    def set_io_tuples(self, inputs, outputs):
        """The order of positional arguments and results: names, tensors, uids, or the arrays the graph was
        written on. Together they are all tensors that are not virtual."""
        for what, value in (("inputs", inputs), ("outputs", outputs)):
            if not isinstance(value, (list, tuple)):
                raise BadParam(f"Graph: {what} must be a list; got {shown(value)}")
        if not self._is_ready:
            self._order = inputs, outputs
            return
        found = [self._found("input", x, self._inputs) for x in inputs]
        results = [self._found("output", x, self._outputs) for x in outputs]
        named = Counter((*found, *results))
        for x, t in zip((*inputs, *outputs), (*found, *results)):
            if named[t] > 1:
                raise BadParam(f"Graph: inputs and outputs must be named once; got {shown(x)} twice or more")
        for t in found:
            if t.get_is_virtual():
                raise BadParam(f"Graph: inputs must not be virtual; got {t.get_name()}")
        for name, t in {**self._inputs, **self._outputs}.items():
            if t not in named and not t.get_is_virtual() and t.value is None:
                raise BadParam("Graph: every tensor that is not virtual must be an input or an output; "
                               f"got neither for {name}")
        self._called = found, results

    def _found(self, what, x, named: dict) -> tensor:
        """The tensor that is meant."""
        if isinstance(x, str):
            t = named.get(x) or next((t for t in named.values() if t.get_name() == x), None)
        elif isinstance(x, int):
            t = next((t for t in named.values() if t.get_uid() == x), None)
        elif isinstance(x, tensor):
            t = x if any(x is t for t in (*named.values(), *self._free)) else None
        else:
            t = self._tensor_of.get(id(x), (None,))[0]
        if t is None:
            got = x if isinstance(x, str) else shown(x) if isinstance(x, int) else type(x).__name__
            raise BadParam(f"Graph: {what} must be one of {', '.join(named)}; got {got}")
        return t

    def __call__(self, *args, handle=None, workspace=None):
        """Execute: a dict of arrays by name, tensor or uid, which comes back with the results that it
        lacked; or arrays in the order of ``set_io_tuples``, which gives one array or a tuple."""
        if self._ended is not None:
            raise CydnnError(f"Graph: its block must end without an error; got {self._ended}")
        if not self._is_ready:
            raise CydnnError("Graph: its block must end before it is called")
        is_dict = len(args) == 1 and isinstance(args[0], dict)
        if not is_dict and self._called is None:
            raise BadParam("Graph: positional arguments must be put in order by set_io_tuples first, or by "
                           "inputs and outputs of Graph; got none: a dict by name needs no order")
        if not is_dict and len(args) != len(self._called[0]):
            raise BadParam(f"Graph: arguments must be {len(self._called[0])}; got {len(args)}")
        handle = self._handle if handle is None else handle
        handle = auto_handle() if _is_auto(handle) else handle
        if handle is None:
            raise CydnnError("Graph: handle must be given, to the call or to the graph; got None: "
                             'Graph(handle="auto") takes one of the process')
        if workspace is None and self._is_lent:
            raise CydnnError("Graph: workspace must be given, as workspace_alloc is False; got None: Need to "
                             "specify workspace in the call")
        at = get_handle(handle)
        graph, space = self._at(at)
        given = args[0].values() if is_dict else args
        make = partial(empty_like, at.device, any(map(_is_torch_tensor, given)))
        pack, result = self._by_name(args[0], make) if is_dict else self._by_place(args, make)
        graph.execute(pack, space if workspace is None else workspace, handle=at)
        return result

    def _by_place(self, args, make) -> tuple:
        inputs, outputs = self._called
        results = tuple([make(t) for t in outputs])
        pack = {t.get_uid(): x for t, x in zip((*inputs, *outputs), (*args, *results))}
        return pack, results[0] if len(results) == 1 else results

    def _by_name(self, given: dict, make) -> tuple:
        pack, missing = {}, []
        for name, t in (*self._inputs.items(), *self._outputs.items()):
            uid = t.get_uid()
            if t.get_is_virtual() or uid in pack or t.value is not None:
                continue
            value = next((given[k] for k in (name, t, t.get_name(), uid) if k in given), None)
            if value is not None:
                pack[uid] = value
            elif any(t is made for made in self._outputs.values()):
                if name in self._outputs:
                    pack[uid] = given[name] = make(t)
            else:
                missing.append((name, uid))
        lost = [name for name, uid in missing if uid not in pack]
        if lost:
            raise CydnnError(f"Graph: the dict must hold the inputs {', '.join(lost)}; got "
                             f"{', '.join(map(str, given))}")
        return pack, given


def _is_auto(handle) -> bool:
    return isinstance(handle, str) and handle == "auto"


def auto_handle() -> int:
    """The process's handle of the device that torch is at, on torch's current stream."""
    place = current()
    if place not in _auto:
        _auto[place] = create_handle()
    if place is not None:
        import torch
        set_stream(_auto[place], torch.cuda.current_stream())
    return _auto[place]


def empty_like(device, is_torch: bool, t: tensor):
    """Memory for a tensor."""
    return empty(device, is_torch, tuple(t.get_dim()), tuple(t.get_stride()), t)


def empty(device, is_torch: bool, dims, strides, t: tensor | None = None):
    """Memory of a device as a torch tensor, or as a NumPy array where it is not wanted and the device works
    on the host's; bytes for no tensor. A boolean is one byte."""
    is_gpu = device.context is not None
    if is_gpu or is_torch:
        import torch
        kind = torch.uint8 if t is None else _cudnn_to_torch_data_type(t.get_data_type())
        if kind is None:
            raise BadParam(f"Graph: torch has no type for {t.get_name()}; got {t.get_data_type()}: give its "
                           f"memory")
        return torch.empty_strided(dims, strides, device=device.name if is_gpu else "cpu", dtype=kind)
    size = np.dtype(np.uint8) if t is None else numpy_type(t.found.dtype)
    count = 1 + sum((d - 1) * s for d, s in zip(dims, strides)) if prod(dims) else 0
    return np.lib.stride_tricks.as_strided(np.empty(count, size), dims, [s * size.itemsize for s in strides])


def numpy_type(row: DType) -> np.dtype:
    """The type of arrays whose elements are values of a type."""
    if row.name in ML_DTYPES:
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, ML_DTYPES[row.name]))
    return np.dtype(bool) if row.kind == "bool" else row.numpy
