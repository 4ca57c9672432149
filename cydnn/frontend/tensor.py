"""Tensors of a pygraph."""
from __future__ import annotations

import json

from ..status import BadParam
from ..tensor import TensorDesc
from .enums import data_type, row_of


class tensor:
    """A tensor of a pygraph. Every setter returns the tensor, so calls chain."""

    def __init__(self, dim=(), stride=(), data_type=data_type.NOT_SET, is_virtual=False, is_pass_by_value=False, name="", uid=0):
        self._dim, self._stride = tuple(map(int, dim)), tuple(map(int, stride))
        self._dtype, self._virtual, self._by_value = row_of(data_type), is_virtual, is_pass_by_value
        self._name, self._uid, self._is_built = name, max(int(uid), 0), False

    def _set(self, field: str, value):
        """Set a field, while no graph that was built depends on it."""
        if self._is_built and getattr(self, field) != value:
            raise BadParam(f"tensor {self._name or self._uid}: must be set before build_operation_graph; got {field[1:]} {value}")
        setattr(self, field, value)
        return self

    def set_output(self, value: bool):
        """An output is not virtual: the caller gives memory for it."""
        return self._set("_virtual", not value)

    def get_dim(self):
        return list(self._dim)

    def set_dim(self, dim):
        return self._set("_dim", tuple(map(int, dim)))

    def get_stride(self):
        return list(self._stride)

    def set_stride(self, stride):
        return self._set("_stride", tuple(map(int, stride)))

    def get_data_type(self):
        return data_type(self._dtype.name) if self._dtype else data_type.NOT_SET

    def set_data_type(self, value):
        return self._set("_dtype", row_of(value))

    def get_name(self):
        return self._name

    def set_name(self, name):
        return self._set("_name", str(name))

    def get_uid(self):
        return self._uid

    def set_uid(self, uid):
        return self._set("_uid", int(uid))

    def get_is_virtual(self):
        return self._virtual

    def set_is_virtual(self, value):
        return self._set("_virtual", bool(value))

    def get_is_pass_by_value(self):
        return self._by_value

    def set_is_pass_by_value(self, value):
        return self._set("_by_value", bool(value))

    def __repr__(self):
        return json.dumps(dict(uid=self._uid, name=self._name, dim=self._dim, stride=self._stride,
                               data_type=self._dtype.name if self._dtype else None, is_virtual=self._virtual))

    def _desc(self) -> TensorDesc:
        return TensorDesc(self._dtype, self._dim, self._stride, uid=self._uid, name=self._name, is_virtual=self._virtual,
                          is_by_value=self._by_value)
