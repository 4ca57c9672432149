"""``pygraph``: build a graph of operations once, execute it many times."""
from __future__ import annotations

from itertools import count
from weakref import ref

import numpy as np

from ..dtypes import f32
from ..graph import Graph
from ..graph.text import digest
from ..given import shown, whole
from ..names import missing
from ..status import BadParam, CydnnError
from ..tensor import packed_strides
from .arrays import layout_of
from .attention import AttentionOperations
from .attention_fp8 import Attention8Operations
from .attention_mxfp8 import BlockScaledAttention
from .block_scaling import BlockScaleOperations
from .datatypes import compute_of, type_of, type_or_none
from .device_properties import device_properties
from .enums import data_type, member, scalar_type, tensor_reordering
from .executing import Executing
from .grouping import GroupedOperations
from .guide import GuideOperations
from .handle import Handle, get_handle
from .inference import Defaults, Inference, made_by
from .kernel_cache import kernel_cache as KernelCache
from .inspecting import Inspecting
from .later import Later
from .misfits import allowed
from .moving import MovingOperations
from .normalizing import Normalizing
from .operations import Operations
from .planning import Planning
from .pointwise import PointwiseOperations
from .random_numbers import RandomOperations
from .resampling import ResamplingOperations
from .stored import Stored
from .tensor import FREE, UNSET, tensor
from .tuning import Tuning
from .turning import TurningOperations

NOT_SET = data_type.NOT_SET


class pygraph(Operations, PointwiseOperations, AttentionOperations, Attention8Operations,
              BlockScaledAttention, MovingOperations, ResamplingOperations, RandomOperations, GuideOperations,
              GroupedOperations, BlockScaleOperations, TurningOperations, Normalizing, Later, Planning,
              Inspecting, Tuning, Executing, Stored):
    """A graph of operations that is built once and executed many times.

    ``io_data_type`` is the type of non-virtual tensors that set none, ``intermediate_data_type`` of virtual
    ones, ``compute_data_type`` of operations (default: f64 for f64 tensors, f32 for others); torch dtypes
    are taken too. ``handle`` names device and stream (None: one of its own). ``device_property`` stands for
    a device that need not be here; ``sm_count`` and ``sm_version`` make plans for fewer SMs or another
    compute capability. ``kernel_cache`` remembers plans. Plans serve any contents but one shape, and
    their launches are the same in a CUDA graph: the three flags change nothing.
    """

    def __init__(self, name="test_graph", io_data_type=NOT_SET, intermediate_data_type=NOT_SET,
                 compute_data_type=NOT_SET, handle=None, sm_count=None, sm_version=None, kernel_cache=None,
                 device_property=None, is_dynamic_shape_enabled=False, is_override_shape_enabled=False, *,
                 is_cuda_graph_replay_expected=False):
        if not isinstance(name, str):
            raise BadParam(f"pygraph: name must be a text; got {shown(name)}")
        for what, given, kind in (("kernel_cache", kernel_cache, KernelCache),
                                  ("device_property", device_property, device_properties)):
            if not isinstance(given, (kind, type(None))):
                raise BadParam(f"pygraph: {what} must be a {kind.__name__}; got {shown(given)}")
        self.name, self.kernel_cache, self.device_property = name, kernel_cache, device_property
        self.sm_count, self.sm_version = sm_count, sm_version
        self.types = [type_or_none(t) for t in (io_data_type, intermediate_data_type, compute_data_type)]
        self.defaults = Defaults(*self.types[:2], compute_of("pygraph", self.types[2]))
        self._handle = None if handle is None else get_handle(handle)
        self.owner, self._tensors, self.steps, self.misfits = object(), [], [], allowed()
        self._arrays: dict = {}                  # {id: (tensor, array)} of the arrays that operations read
        self.graph: Graph | None = None
        self.is_built = False
        self._no_plans()

    def __getattr__(self, name):                 # only what is not found comes here
        raise missing(f"{type(self).__name__!r} object", name, dir(type(self)))

    def __reduce__(self):
        raise TypeError(f"pickle: a graph belongs to its process; got the pygraph {self.name!r}: keep "
                        "g.serialize(), which deserialize of another reads")

    @property
    def own_handle(self):
        """The handle that was given, or the graph's own, on the device that is current when it is first
        needed."""
        if self._handle is None:
            self._handle = Handle()
        return self._handle

    # ---- Tensors ----

    def tensor(self, dim, stride=None, data_type=NOT_SET, is_virtual=False, is_pass_by_value=False,
               ragged_offset=None, reordering_type=tensor_reordering.NONE, name="", uid=UNSET,
               ragged_offset_multiplier=1, alignment_value=1):
        """An input. ``dim`` is logical (n, c, spatial…), ``stride`` in elements, row-major where it is
        None. A ``uid`` of -1 or None is none yet. ``alignment_value``, of which each value is said to be a
        multiple, changes nothing here."""
        t = tensor().set_alignment_value(alignment_value).set_dim(dim).set_data_type(data_type)
        t.set_is_virtual(is_virtual)
        t.set_stride(packed_strides(t.dim) if stride is None else stride)
        t.set_is_pass_by_value(is_pass_by_value).set_ragged_offset(ragged_offset).set_name(name)
        t.set_reordering_type(reordering_type).set_ragged_offset_multiplier(ragged_offset_multiplier)
        return self._free(t if uid is None or whole("tensor: uid", uid) == UNSET else t.set_uid(uid))

    def tensor_like(self, x, name="", is_virtual=None):
        """The attributes of another tensor but its uid and name, or the layout of an array (NumPy, torch,
        DLPack).

        An array on the host is passed by value; where the graph's device works on host memory, only one of
        one element is.
        """
        if isinstance(x, tensor):
            t = tensor().like(x).set_name(name)
            return self._free(t if is_virtual is None else t.set_is_virtual(is_virtual))
        found = layout_of(x)
        kind = NOT_SET if found.dtype is None else type_of(found.dtype)
        is_number = found.is_host and (np.prod(found.dims, dtype=int) == 1 or self._facts_kind() == "cuda")
        return self.tensor(found.dims or (1,), found.strides or (1,), kind, bool(is_virtual), is_number,
                           name=name)

    def _of_array(self, x, name: str) -> tensor:
        """The tensor that stands for an array which an operation was called with."""
        if id(x) not in self._arrays:            # the array is kept, and with it the id
            self._arrays[id(x)] = self.tensor_like(x, name), x
        return self._arrays[id(x)][0]

    def _facts_kind(self) -> str:
        """"cuda" where the graph's memory is not the host's."""
        if self.device_property is not None:
            return self.device_property.facts.kind
        device = self.own_handle.device
        return "cuda" if device.context is not None else "numpy"

    def tensor_scalar(self, value, scalar_type, name=""):
        """A number that the graph holds, of the type that goes with the value. COMPILE_TIME_CONST: for ever;
        RUNTIME_PARAM: unless the variant pack has another."""
        kind, number = scalar_of(value)
        way = member("tensor_scalar", "scalar_type", SCALAR_TYPE, scalar_type)
        t = tensor().set_dim([1]).set_stride([1]).set_data_type(kind).set_is_pass_by_value(True)
        return self._free(t.set_name(name)._set(value=number, is_constant=way is way.COMPILE_TIME_CONST))

    def _free(self, t: tensor) -> tensor:
        """A tensor of the caller's. One that is made when the graph is built belongs to the first graph that
        reads it."""
        if self.is_built:
            t.owner = FREE
            return t
        return self._added(t)

    def _added(self, t: tensor) -> tensor:
        if self.is_built:
            raise BadParam("pygraph: tensors and operations must be added before build_operation_graph; make "
                           "another graph")
        t.owner, t.graph, self.graph = self.owner, ref(self), None
        self._tensors.append(t)
        t.number = next(self._numbers)
        self._make_way(t)
        return t

    @property
    def _numbers(self):
        """Numbers that are no tensor's, from 1 past those that were given."""
        taken = {t.own_uid for t in self._tensors}
        first = 1 + max([t.number or 0 for t in self._tensors], default=0)
        return (i for i in count(first) if i not in taken)

    def _make_way(self, owner: tensor):
        """A tensor has a uid of its own now, and another number who had that."""
        if owner.own_uid is not None:
            owner.number = None
            for t in self._tensors:
                if t.number == owner.own_uid:
                    t.number = next(self._numbers)

    def seen(self, t: tensor):
        """What would stand for a result in the graph of the calls so far; None where these do not say it."""
        steps = made_by(self.steps, t)
        if self.is_built or not steps:
            return None
        try:
            return Inference(steps, self.defaults, self.name, is_part=True).found.get(t)
        except CydnnError:
            return None

    def query_tensor_attributes_of_uid(self, uid: int) -> tensor:
        """The tensor of a uid."""
        uid = whole("query_tensor_attributes_of_uid: uid", uid)
        found = next((t for t in self._tensors if t.get_uid() == uid), None)
        if found is None:
            known = sorted(t.get_uid() for t in self._tensors)
            raise BadParam(f"query_tensor_attributes_of_uid: uid must be one of {known}; "
                           f"got {shown(uid)}")
        return found

    # ---- From calls to a graph ----

    def validate(self):
        """Infer dims, strides and types of what is not set, check every rule. Raises BadParam."""
        if not self.is_built:
            for t in self._tensors:
                t.found = None
            self.graph = Inference(self.steps, self.defaults, self.name).graph

    def build_operation_graph(self):
        """As ``validate``; gives uids to the tensors that have none. From here on neither graph nor tensors
        change."""
        self.validate()
        for t in self._tensors:
            t.build()
        self.is_built = True
        if self.kernel_cache is not None:
            self.kernel_cache.is_finalized = True

    def _built_graph(self) -> Graph:
        if not self.is_built:
            self.build_operation_graph()
        return self.graph

    def _planned_for(self, handle: Handle, modes) -> "pygraph":
        """This graph, where it is built for such a device; else the same graph, built for it."""
        if self.device_property is not None or self.own_handle.device.facts == handle.device.facts:
            return self
        other = object.__new__(type(self))
        other.__dict__.update(vars(self))
        other._handle = handle
        other._no_plans()
        other.create_execution_plans(modes)
        other.build_plans()
        return other

    @property
    def constants(self) -> frozenset:
        """uids of the numbers that are fixed for ever."""
        return frozenset(t.key for t in self._tensors if t.is_constant)

    def key(self) -> int:
        """A number that says what the graph is, the same in every process; names take no part in it."""
        self.validate()
        return int(digest(self.graph)[:16], 16)


SCALAR_TYPE = scalar_type


def scalar_of(value) -> tuple:
    """(type, number) of a Python or NumPy number."""
    if isinstance(value, np.generic):
        found = layout_of(value)
        if found.dtype is not None:
            return type_of(found.dtype), value.item()
    if type(value) is float:
        return data_type.FLOAT, float(f32.round(np.float64(value)))
    if type(value) is int and -2 ** 63 <= value < 2 ** 63:
        return data_type.INT32 if -2 ** 31 <= value < 2 ** 31 else data_type.INT64, value
    raise BadParam(f"tensor_scalar: value must be a float, or an int of 64 bits; got {shown(value)}")
