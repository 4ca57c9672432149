"""Tensors of a pygraph: what the caller says of them, and what was found out when the graph was checked."""
from __future__ import annotations

import json

from .. import graph
from ..given import brief, flag, shown, whole, wholes
from ..status import BadParam
from .datatypes import storage_of, type_of, type_or_none
from .enums import data_type, member, tensor_reordering
from .fours import in_numbers

UNSET = -1                                       # the uid of ``pygraph.tensor`` that means: none yet
FIELDS = ("data_type", "dim", "stride", "uid", "name", "is_virtual", "is_pass_by_value", "reordering_type",
          "alignment", "ragged_offset", "ragged_offset_multiplier", "vector_count", "vector_dimension",
          "value", "is_constant")

FREE = object()                                  # the owner of a tensor that the next graph may take


class tensor:
    """A tensor of a pygraph. Every setter returns the tensor, so calls chain.

    What is not set is found out when the graph is validated, or when it is asked for; what was set wins. A
    dim or a stride of () is not set, a uid of None neither: 0 and negative numbers are uids like others. A
    tensor of a graph has a ``number`` from the beginning, which is its uid unless another is set; it gets
    another number where that is set elsewhere.
    """

    def __init__(self):
        self.data_type, self.name = data_type.NOT_SET, ""
        self.own_dim, self.own_stride, self.own_uid = (), (), None       # that are set
        self.number, self.graph = None, lambda: None                     # since it is of a graph
        self.is_virtual, self.is_pass_by_value = False, False
        self.reordering_type, self.alignment, self.ragged_offset = tensor_reordering.NONE, 16, None
        self.alignment_value = 1
        self.ragged_offset_multiplier, self.vector_count, self.vector_dimension = 1, 1, -1
        self.value, self.is_constant = None, False       # of a scalar: its number, and whether it may change
        self.owner = None                        # what all tensors of a graph share
        self.found: graph.Tensor | None = None   # since the graph was validated
        self.key: int | None = None              # what it is called in a variant pack: the uid, set or found
        self.is_built = False                    # an operation graph depends on it
        self.is_transposed = False               # the graph has its last two dims exchanged
        self.pairs: int | None = None            # the dim of which the graph has two in a byte

    def __reduce__(self):
        raise TypeError(f"pickle: a tensor belongs to its graph; got {self.name or 'one'!r}: keep "
                        "serialize() of the graph")

    def _set(self, **fields):
        """Set fields, while no operation graph depends on them."""
        for name, value in fields.items():
            if not self.is_built:
                setattr(self, name, value)
            elif self._now(name) != value:
                raise BadParam(f"tensor {self.label}: must be set before build_operation_graph; got {name} "
                               f"{value}")
        return self

    def _now(self, name: str):
        """What a field is, set or found."""
        found = dict(data_type=self.get_data_type(), dim=tuple(self.get_dim()),
                     stride=tuple(self.get_stride()),
                     uid=self.get_uid())
        return found[name] if name in found else getattr(self, name)

    @property
    def label(self) -> str:
        """What errors call it."""
        return brief(self.name) or ("without a name" if self.own_uid is None else f"uid {self.own_uid}")

    def like(self, other: "tensor"):
        """The fields of another tensor, set or found, but uid and name."""
        return self._set(**{f: other._now(f) for f in FIELDS if f not in ("uid", "name")})

    # ---- What the package has ----

    def set_output(self, value: bool):
        """An output is not virtual: the caller gives memory for it."""
        return self._set(is_virtual=not flag(f"tensor {self.label}: output", value))

    def get_is_virtual(self) -> bool:
        return self.is_virtual

    def set_is_virtual(self, value: bool):
        return self._set(is_virtual=flag(f"tensor {self.label}: is_virtual", value))

    def get_is_pass_by_value(self) -> bool:
        return self.is_pass_by_value

    def set_is_pass_by_value(self, value: bool):
        return self._set(is_pass_by_value=flag(f"tensor {self.label}: is_pass_by_value", value))

    def get_name(self) -> str:
        return self.name

    def set_name(self, name: str):
        if not isinstance(name, str):
            raise BadParam(f"tensor: name must be a text; got {shown(name)}")
        return self._set(name=name)

    def get_data_type(self) -> data_type:
        if self.data_type is data_type.NOT_SET and self.found is not None:
            if self.pairs is not None:
                return data_type.FP4_E2M1
            return type_of(self.found.dtype, self.found.desc.vector)
        return self.data_type

    def set_data_type(self, data_type):
        return self._set(data_type=type_or_none(data_type))

    def get_dim(self) -> list:
        """Set, or as far as the calls so far say it."""
        return list(self.own_dim or self._seen("dims"))

    def _seen(self, what: str) -> tuple:
        """Dims or strides that were found; those that follow from the calls so far."""
        graph = self.graph()
        found = self.found if self.found is not None or graph is None else graph.seen(self)
        if found is None:
            return ()
        numbers = self.turned(getattr(found, what))
        return numbers if self.pairs is None else in_numbers(self.pairs, what, numbers)

    dim = property(get_dim, lambda self, value: setattr(self, "own_dim", tuple(value)))

    def set_dim(self, dim):
        return self._set(dim=wholes(f"tensor {self.label}: dim", dim))

    def get_stride(self) -> list:
        """Set, or as far as the calls so far say it."""
        return list(self.own_stride or self._seen("strides"))

    stride = property(get_stride, lambda self, value: setattr(self, "own_stride", tuple(value)))

    def set_stride(self, stride):
        return self._set(stride=wholes(f"tensor {self.label}: stride", stride))

    def get_uid(self) -> int:
        """Set, or the number that its graph gave it; 0 of one without a graph."""
        return self.key if self.key is not None else self.number or 0

    def set_uid(self, uid: int):
        self._set(uid=whole("tensor: uid", uid))
        if not self.is_built:
            self.key, graph = self.own_uid, self.graph()
            if graph is not None:
                graph._make_way(self)
        return self

    uid = property(get_uid, lambda self, value: setattr(self, "own_uid", value))

    def get_reordering_type(self) -> tensor_reordering:
        return self.reordering_type

    def set_reordering_type(self, value: tensor_reordering):
        kind = tensor_reordering.NONE if value is None else value
        return self._set(reordering_type=member("tensor", "reordering_type", tensor_reordering, kind))

    def set_ragged_offset(self, offset: "tensor | None"):
        """The tensor that says where each batch begins."""
        if offset is not None and not isinstance(offset, tensor):
            raise BadParam(f"tensor {self.label}: ragged_offset must be a tensor of the graph; got "
                           f"{type(offset).__name__}")
        return self._set(ragged_offset=offset)

    def get_ragged_offset_multiplier(self) -> int:
        return self.ragged_offset_multiplier

    def set_ragged_offset_multiplier(self, value: int):
        """Elements that a number of the ragged offsets stands for: 1, or those of a token where they count
        tokens, so that one tensor of summed lengths serves q, k, v and o."""
        number = whole(f"tensor {self.label}: ragged_offset_multiplier", value)
        if number < 1:
            raise BadParam(f"tensor {self.label}: ragged_offset_multiplier must be >= 1; got {shown(value)}")
        return self._set(ragged_offset_multiplier=number)

    def get_alignment(self) -> int:
        return self.alignment

    def set_alignment(self, value: int):
        """Bytes that its pointers are a multiple of."""
        return self._set(alignment=whole(f"tensor {self.label}: alignment", value))

    def set_alignment_value(self, value: int):
        """What each of its values is said to be a multiple of; changes nothing here."""
        if whole("tensor: alignment_value", value) < 1:
            raise BadParam(f"tensor: alignment_value must be >= 1; got {shown(value)}")
        return self._set(alignment_value=int(value))

    uid_assigned = property(lambda self: self.own_uid is not None)
    dim_assigned = property(lambda self: bool(self.own_dim))
    stride_assigned = property(lambda self: bool(self.own_stride))
    pass_by_value = property(lambda self: self.value, doc="The number of a scalar that the graph holds.")

    def get_vector_count(self) -> int:
        return self.vector_count

    def get_vector_dimension(self) -> int:
        return self.vector_dimension

    def set_vector_count_and_dimension(self, count: int, dimension: int):
        """``count`` neighbours in ``dimension`` are one unit; dim and stride count units."""
        where = f"tensor {self.label}: vector_"
        return self._set(vector_count=whole(f"{where}count", count),
                         vector_dimension=whole(f"{where}dimension", dimension))

    def get_has_compile_time_constant(self) -> bool:
        return self.is_constant

    def __repr__(self):
        return json.dumps(self.row())

    def row(self) -> dict:
        """The tensor as lists, numbers and strings."""
        row = dict(name=self.name, uid=self.get_uid(), data_type=self.get_data_type().name,
                   dim=self.get_dim(), stride=self.get_stride(), is_virtual=self.is_virtual,
                   is_pass_by_value=self.is_pass_by_value, reordering_type=self.reordering_type.name,
                   alignment=self.alignment)
        if self.vector_count != 1:
            row |= dict(vector_count=self.vector_count, vector_dimension=self.vector_dimension)
        if self.ragged_offset is not None:
            row |= dict(ragged_offset_uid=self.ragged_offset.get_uid())
        if self.ragged_offset_multiplier != 1:
            row |= dict(ragged_offset_multiplier=self.ragged_offset_multiplier)
        return row | (dict(value=self.value, is_constant=self.is_constant) if self.value is not None else {})

    # ---- For the rooms below ----

    def build(self):
        """From now on nothing changes, and it has the uid that was found."""
        self.key, self.is_built = self.found.uid if self.found is not None else self.own_uid, True

    def turned(self, numbers: tuple) -> tuple:
        """Dims or strides of the caller's as the graph has them, or the other way round."""
        return exchanged(numbers) if self.is_transposed else numbers

    @property
    def dims_set(self) -> tuple:
        """(dims, strides) that are set, as the graph has them."""
        return self.turned(self.own_dim), self.turned(self.own_stride)

    @property
    def kind(self) -> str:
        return "virtual" if self.is_virtual else "value" if self.is_pass_by_value else "memory"

    def storage(self, default: data_type) -> tuple:
        """(type, neighbours that are one unit); ``default``: the type when none is set."""
        where = f"tensor {self.label}"
        row, units = storage_of(where, self.data_type if self.data_type is not data_type.NOT_SET else default)
        if self.vector_count == 1 or units == self.vector_count:
            return row, units
        if units != 1:
            raise BadParam(f"{where}: vector_count must be {units}, that of its type; got "
                           f"{self.vector_count}")
        if self.vector_dimension != 1:
            raise BadParam(f"{where}: vector_dimension must be 1, the channels; got {self.vector_dimension}")
        return row, self.vector_count


def exchanged(numbers) -> tuple:
    """Dims or strides with the last two exchanged."""
    return (*numbers[:-2], *numbers[:-3:-1])
