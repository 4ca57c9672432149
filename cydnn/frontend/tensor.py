"""Tensors of a pygraph."""
from __future__ import annotations

import json

from ..tensor import TensorDesc
from .enums import data_type, row_of


class tensor:
    """A tensor of a pygraph. Every setter returns the tensor, so calls chain."""

    def __init__(self, dim=(), stride=(), data_type=data_type.NOT_SET, is_virtual=False, is_pass_by_value=False, name="", uid=0):
        self._dim, self._stride = tuple(map(int, dim)), tuple(map(int, stride))
        self._dtype, self._virtual, self._by_value = row_of(data_type), is_virtual, is_pass_by_value
        self._name, self._uid = name, max(int(uid), 0)

    def set_output(self, value: bool):
        """An output is not virtual: the caller gives memory for it."""
        self._virtual = not value
        return self

    def get_dim(self):
        return list(self._dim)

    def set_dim(self, dim):
        self._dim = tuple(map(int, dim))
        return self

    def get_stride(self):
        return list(self._stride)

    def set_stride(self, stride):
        self._stride = tuple(map(int, stride))
        return self

    def get_data_type(self):
        return data_type(self._dtype.name) if self._dtype else data_type.NOT_SET

    def set_data_type(self, value):
        self._dtype = row_of(value)
        return self

    def get_name(self):
        return self._name

    def set_name(self, name):
        self._name = str(name)
        return self

    def get_uid(self):
        return self._uid

    def set_uid(self, uid):
        self._uid = int(uid)
        return self

    def get_is_virtual(self):
        return self._virtual

    def set_is_virtual(self, value):
        self._virtual = bool(value)
        return self

    def get_is_pass_by_value(self):
        return self._by_value

    def set_is_pass_by_value(self, value):
        self._by_value = bool(value)
        return self

    def __repr__(self):
        return json.dumps(dict(uid=self._uid, name=self._name, dim=self._dim, stride=self._stride,
                               data_type=self._dtype.name if self._dtype else None, is_virtual=self._virtual))

    def _desc(self) -> TensorDesc:
        return TensorDesc(self._dtype, self._dim, self._stride, uid=self._uid, name=self._name, is_virtual=self._virtual,
                          is_by_value=self._by_value)
