"""The backend table follows from the declarations; its numbers are those of the API."""
from __future__ import annotations

import pytest

from cydnn import dtypes
from cydnn.backend import OPERATIONS, number, words
from cydnn.backend.table import UNSET, _numbers, _operation
from cydnn.ops import OPS, ConvFprop, Pointwise
from cydnn.ops.attribute import choice
from cydnn.ops.op import Op
from cydnn.status import BadParam, InternalError


def test_every_declared_name_has_a_number():
    for op in OPS:
        assert (op.name in OPERATIONS) == bool(op.api)
    numbers = {r.api: r.number for r in OPERATIONS["conv_fprop"].rows}
    assert numbers["CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W"] == 703
    assert OPERATIONS["pointwise"].number == 13 and number("CUDNN_POINTWISE_RELU_FWD") == 100


def test_every_operand_of_a_described_operation_is_in_its_table():
    for name, row in OPERATIONS.items():
        assert set(row.op.operands()) <= {r.name for r in row.rows}, name
        assert len({r.number for r in row.rows}) == len(row.rows)


def test_every_pointwise_mode_of_the_api_is_a_mode():
    ours = {api for api, _ in words(Pointwise, "mode").values()}
    theirs = {n for n in _numbers() if n.startswith("CUDNN_POINTWISE_")}
    assert theirs - ours <= {"CUDNN_POINTWISE_ATAN2"} and ours <= theirs


def test_types_have_the_numbers_of_the_api():
    for t in dtypes.ALL:
        assert number(t.api) == t.enum
    assert words(ConvFprop, "compute")["f16"] == ("CUDNN_DATA_HALF", 2)


@pytest.mark.parametrize("op, name, types, most, is_required, default", [
    ("conv_fprop", "x", ("BACKEND_DESCRIPTOR",), 1, True, UNSET),
    ("conv_fprop", "alpha", ("FLOAT", "DOUBLE"), 1, False, 1.0),
    ("conv_fprop", "stride", ("INT64",), 8, False, 1),
    ("conv_fprop", "compute", ("DATA_TYPE",), 1, True, UNSET),
    ("pointwise", "b", ("BACKEND_DESCRIPTOR",), 1, False, UNSET),
    ("pointwise", "mode", ("POINTWISE_MODE",), 1, True, UNSET),
    ("pointwise", "nan", ("NAN_PROPOGATION",), 1, False, "CUDNN_PROPAGATE_NAN"),
    ("batch_norm_training", "epsilon", ("BACKEND_DESCRIPTOR",), 1, False, UNSET)])
def test_a_row_says_what_the_attribute_is(op, name, types, most, is_required, default):
    row = next(r for r in OPERATIONS[op].rows if r.name == name)
    assert (row.types, row.most, row.is_required, row.default) == (types, most, is_required, default)


def test_every_row_has_types_of_the_api_and_words():
    for row in (row for operation in OPERATIONS.values() for row in operation.rows):
        assert row.doc and all(number(f"CUDNN_TYPE_{name}") >= 0 for name in row.types), row
        assert row.default is UNSET or not row.is_required, row


def test_a_name_that_is_none_is_refused():
    with pytest.raises(BadParam, match="backend: name must be one of .*; got 'CUDNN_ATTR_NONSENSE'"):
        number("CUDNN_ATTR_NONSENSE")

    class Wrong(Op, reads="x", writes="y"):
        mode: str = choice("a", api="NO_SUCH_NAME")
        api = "MATMUL"

        def reference(self, x):
            return {"y": x}
    with pytest.raises(InternalError, match="wrong: CUDNN_ATTR_OPERATION_NONE must be an enumerant"):
        _operation(type("Wrong2", (Wrong,), dict(api_names=dict(x="OPERATION_NONE"), name="wrong")))
