"""Descriptors of the backend API: one class for all kinds."""
from __future__ import annotations

import re
from typing import Any

from ..given import shown, whole
from ..status import BadParam, CydnnError, NotInitialized, NotSupported
from .attributes import UNSET, Attr
from .constants import Constant, constant, enumerations, member
from .kinds import BY_NUMBER, KINDS, DescriptorKind
from .types import TYPES

SAID = {                                         # of a finalized descriptor, for people
    "TENSOR": lambda made: f"uid {made.uid} {made}", "OPERATIONGRAPH": lambda made: str(made.graph),
    "ENGINE": lambda made: f"{made.index}: {made.choice.name}", "ENGINECFG": lambda made: made.name,
    "ENGINEHEUR": lambda made: f"{len(made)} configurations",
    "EXECUTION_PLAN": lambda made: made.layout.choice.name,
    "VARIANT_PACK": lambda made: f"uids {' '.join(map(str, made.buffers))}",
    "DEVICEPROP": repr, "KERNEL_CACHE": lambda made: "choices"}
ROOMS = re.compile(r"(?:(tensor|graph|build|pygraph|create_\w+): )?")    # that a sentence begins with
ATTRIBUTES = "cudnnBackendAttributeName_t"


class Descriptor:
    """A backend descriptor: ``set`` attributes, ``finalize``, then ``get`` them and use it in others.

    An error leaves a descriptor as it was: it can be mended and finalized again. ``made`` is what a finalized
    descriptor stands for (a graph.Tensor, a Node, a Graph, a Choice, an ExecutionPlan …).
    Spec: graph API, Backend Descriptor Types.
    """
    __slots__ = ("kind", "values", "found", "made", "is_finalized", "is_destroyed", "__weakref__")

    def __init__(self, kind):
        self.kind: DescriptorKind = kind if isinstance(kind, DescriptorKind) else kind_of(kind)
        self.values: dict = {}                   # name of an attribute: list of its elements
        self.found: dict = {}                    # what finalizing finds: lists, or functions that make them
        self.made: Any = None
        self.is_finalized, self.is_destroyed = False, False

    # ---- Set, finalize, get ----

    def set(self, attribute, values, type=None, count=None) -> Descriptor:
        """Set an attribute to one value, or to a list of them. ``attribute``: CUDNN_ATTR_…, its number or
        its name. ``type``: CUDNN_TYPE_…; None: the attribute's own. ``count``: how many of ``values``;
        None: all. Returns the descriptor. Raises BadParam; NotInitialized once it is finalized."""
        where = f"set({self.kind.name})"
        if self.is_finalized:
            raise NotInitialized(f"{where}: the descriptor must not be finalized; got {self}")
        attr = self.attribute(where, attribute)
        where = f"{where}: {attr.name}"
        if attr.access == "get":
            raise BadParam(f"{where} must not be set: finalize finds it", attribute=attr.name)
        self._of_type(where, attr, type)
        elements = self._elements(where, attr, values, count)
        self.values[attr.name] = [self._read(where, attr, one) for one in elements]
        return self

    def finalize(self) -> Descriptor:
        """Check all attributes; from now on they do not change. Returns the descriptor. Raises BadParam with
        what is set, what is missing and the next step; NotSupported for what no engine takes."""
        if self.is_finalized:
            return self
        where = f"finalize({self.kind.name})"
        missing = [a for a in self.kind.attributes.values() if a.is_required and a.name not in self.values]
        if missing:
            error = BadParam(f"{where}: {_short(missing[0])} must be set; got none",
                             attribute=missing[0].name)
            self._explain(error, missing)
            raise error
        found: dict = {}
        try:
            self.made = self.kind.make(self, found)
        except (BadParam, NotSupported) as error:
            said = error.args[0]
            told = error if said.startswith(where) else error.within(where, ROOMS.match(said)[1] or "")
            self._explain(told)
            raise told from None
        self.found, self.is_finalized = found, True
        return self

    def get(self, attribute, type=None, count=None) -> list:
        """The elements of an attribute of a finalized descriptor, at most ``count``. Raises BadParam,
        NotInitialized where it is not finalized."""
        where = f"get({self.kind.name})"
        if not self.is_finalized:
            raise NotInitialized(f"{where}: the descriptor must be finalized; got {self}",
                                 status9="BAD_PARAM_NOT_FINALIZED")
        attr = self.attribute(where, attribute)
        self._of_type(f"{where}: {attr.name}", attr, type)
        values = self.value(attr.name, list=True)
        most = len(values) if count is None else whole(f"{where}: count", count)
        return list(values[:max(most, 0)])

    def value(self, name: str, list=False):
        """The value of an attribute: set, found, or its default; None where it has none."""
        attr = self.kind.attributes[name]
        values = self.values.get(name)
        if values is None and name in self.found:
            if callable(self.found[name]):       # made when it is asked for
                self.found[name] = self.found[name]()
            values = self.found[name]
        if values is None:
            if attr.default is not UNSET:
                return [attr.default] if list else attr.default
            values = []
        return values if list or attr.most > 1 else values[0] if values else None

    # ---- What errors and people are told ----

    def attribute(self, where: str, attribute) -> Attr:
        """The row of an attribute of this descriptor. Raises BadParam."""
        name = attribute
        if isinstance(name, str):
            name = name if name.startswith("CUDNN_") else f"CUDNN_ATTR_{name}"
            name = constant(name)
        found = member(f"{where}: the attribute", ATTRIBUTES, name) if _is_attribute(name) else None
        row = None if found is None else self.kind.attributes.get(found.name.removeprefix("CUDNN_ATTR_"))
        if row is None:
            raise BadParam(f"{where}: the attribute must be one of {' '.join(self.kind.attributes)}; "
                           f"got {shown(attribute)}")
        return row

    def _of_type(self, where, attr: Attr, type):
        if type is None:
            return
        given = member(f"{where}: its type", "cudnnBackendAttributeType_t", type)
        if given.name.removeprefix("CUDNN_TYPE_") not in attr.types:
            is_uid = attr.name.endswith("UNIQUE_ID")
            hint = " (a text label is a tensor's name, in the front end)" if is_uid else ""
            raise BadParam(f"{where}: its type must be {attr.expects}{hint}; got {given.name}",
                           attribute=attr.name, status9="BAD_PARAM_ATTRIBUTE_TYPE")

    def _elements(self, where, attr: Attr, values, count) -> list:
        many = _is_list(values, attr.types[0])
        elements = list(values) if many else [values]
        if count is not None:
            number = whole(f"{where}: the count", count)
            if not 0 <= number <= len(elements) and attr.types[0] != "CHAR":
                raise BadParam(f"{where}: the count must be at most {len(elements)}, the elements given; "
                               f"got {number}", status9="BAD_PARAM_SIZE_INSUFFICIENT")
            elements = elements if attr.types[0] == "CHAR" else elements[:number]
        if not attr.least <= len(elements) <= attr.most:
            hint = f"; did you mean {len(elements)}?" if attr.name.endswith("SPATIAL_DIMS") else ""
            about = f" ({attr.doc})" if attr.doc and hint else ""
            raise BadParam(f"{where} must have {attr.count} elements{about}; got {len(elements)} elements "
                           f"{shown(elements)}{hint}", attribute=attr.name,
                           status9="BAD_PARAM_SIZE_INSUFFICIENT")
        return elements

    def _read(self, where, attr: Attr, value):
        if attr.types[0] == "BACKEND_DESCRIPTOR":
            return self._other(where, attr, value)
        if attr.name.endswith("UNIQUE_ID") and isinstance(value, str):
            raise BadParam(f"{where} must be a whole number of 64 bits; got {shown(value)}: a text label is "
                           "a tensor's name in the front end", attribute=attr.name)
        found = TYPES[attr.types[0]].read(where, value)
        if attr.range and not attr.lo <= found <= (found if attr.hi is None else attr.hi):
            raise BadParam(f"{where} must be {attr.range}; got {shown(found)}", attribute=attr.name,
                           status9="BAD_PARAM_OUT_OF_BOUND")
        return found

    def _other(self, where, attr: Attr, value):
        """A finalized descriptor of the kinds that an attribute takes."""
        wanted = " or ".join(attr.of)
        kind = value.kind.name if isinstance(value, Descriptor) else ""
        if kind not in attr.of and not (kind.startswith("OPERATION_") and "OPERATION" in attr.of):
            raise BadParam(f"{where} must be a descriptor of kind {wanted}; got {shown(value)}",
                           attribute=attr.name, status9="BAD_PARAM_DESCRIPTOR_TYPE")
        if value.is_destroyed:
            raise BadParam(f"{where} must not be destroyed; got {shown(value)}", attribute=attr.name)
        if not value.is_finalized:
            raise BadParam(f"{where} must be finalized; got {value}: call finalize on it first",
                           attribute=attr.name, status9="BAD_PARAM_NOT_FINALIZED")
        return value

    def _explain(self, error: CydnnError, missing=()):
        """What is set, what is missing and what to do, as further lines of an error."""
        if self.values:
            error.add_info(f"set:     {self._settings()}")
        if missing:
            error.add_info("missing: " + ", ".join(_short(attr) for attr in missing))
            attr = missing[0]
            error.add_info(f"next:    cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_{attr.name}, "
                           f"{attr.expects}, 1, …)")

    def describe(self) -> str:
        """Every attribute: its value, or that it is missing or may be set; its type and what it means."""
        lines = [f"{self.kind.name}{'' if self.is_finalized else ' (not finalized)'}"]
        for attr in self.kind.attributes.values():
            if attr.access == "get" and not self.is_finalized:
                said = "(found by finalize)"
            elif attr.name in self.values or self.is_finalized and self.value(attr.name, list=True):
                said = _said(self.value(attr.name, list=True))
            else:
                said = "MISSING" if attr.is_required else "(not set)" if attr.default is UNSET \
                    else f"{attr.default!r} (default)"
            lines.append(f"  {attr.name:45} {said}    {attr.expects}, {attr.count}"
                         + (f", {attr.range}" if attr.range else "") + (f": {attr.doc}" if attr.doc else ""))
        return "\n".join(lines)

    def __repr__(self):
        state = " destroyed" if self.is_destroyed else "" if self.is_finalized else " not finalized"
        return f"<{self.kind.name}{state}: {self}>"

    def __str__(self):
        if self.made is not None and self.kind.name in SAID:
            return SAID[self.kind.name](self.made)
        return self._settings() or "empty"

    def _settings(self) -> str:
        return ", ".join(f"{_short(self.kind.attributes[n])}={_said(v)}" for n, v in self.values.items())

    def __reduce__(self):
        raise TypeError(f"pickle: a descriptor belongs to its process; got {self.kind.name}")


def kind_of(type) -> DescriptorKind:
    """The kind of CUDNN_BACKEND_…_DESCRIPTOR, its number or its name without these. Raises BadParam, and
    NotSupported for kinds that are not there yet."""
    is_short = isinstance(type, str) and not type.startswith("CUDNN")
    name = f"CUDNN_BACKEND_{type}_DESCRIPTOR" if is_short else type
    found: Constant = member("create: the type", "cudnnBackendDescriptorType_t", name)
    if int(found) not in BY_NUMBER:
        raise NotSupported(f"create: the type must be one of {' '.join(KINDS)}; got {found!r}, which has no "
                           "operation yet")
    return BY_NUMBER[int(found)]


def _is_attribute(value) -> bool:
    known = enumerations()[ATTRIBUTES]
    return isinstance(value, Constant) and value.enum == ATTRIBUTES or type(value) is int and value in known


def _is_list(values, type_: str) -> bool:
    """Several elements. An array is one where elements are addresses, a pair where they are fractions."""
    if isinstance(values, (list, range)) or isinstance(values, tuple) and type_ != "FRACTION":
        return True
    if type_ in ("VOID_PTR", "CHAR", "HANDLE") or isinstance(values, (str, bytes, dict, tuple)):
        return False
    return hasattr(values, "__len__") and hasattr(values, "__getitem__") and getattr(values, "shape", 1) != ()


def _short(attr: Attr) -> str:
    return attr.name.removeprefix("OPERATION_")


def _said(values: list) -> str:
    one = lambda v: f"({v})" if isinstance(v, Descriptor) else shown(v)
    end = " …]" if len(values) > 8 else "]"
    text = one(values[0]) if len(values) == 1 else f"[{', '.join(map(one, values[:8]))}{end}"
    return text if len(text) <= 160 else text[:160] + "…"
