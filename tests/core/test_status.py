"""The exceptions: what their text holds, and that they survive a trip to another process."""
import copy
import pickle

import pytest

import cydnn
from cydnn import cudnn, ops, plan, status
from cydnn.graph import Graph, Node, Tensor


@pytest.mark.parametrize("kind", status.CLASSES, ids=lambda c: c.__name__)
def test_status_and_text(kind):
    error = kind("pooling_fwd: window must be >= 1; got 0")
    assert isinstance(error, RuntimeError) and status.NAMES[error.status] == kind.api
    assert str(error) == f"pooling_fwd: window must be >= 1; got 0 [{kind.api}]"
    assert cydnn.getLastErrorString() == f"{kind.api}: pooling_fwd: window must be >= 1; got 0"
    assert str(kind()) == kind.api                            # from the status alone


@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))],
                         ids=["copy", "pickle"])
def test_infos_are_lines_behind_the_message_and_travel(again):
    error = cydnn.BadParam("x: must not be null; got 0")
    error.add_info("in layer conv1")
    error.add_infos(["step 3", "batch 7"])
    assert str(error).splitlines() == ["x: must not be null; got 0 [CUDNN_STATUS_BAD_PARAM]",
                                       "  in layer conv1", "  step 3", "  batch 7"]
    twin = again(error)
    assert type(twin) is cydnn.BadParam and str(twin) == str(error) and twin.status == 3


def test_builtin_bases():
    assert issubclass(cydnn.BadParam, ValueError) and issubclass(cydnn.AllocFailed, MemoryError)
    assert (issubclass(cydnn.NotSupported, ValueError)
            and issubclass(cydnn.DriverNotFound, cydnn.NotInitialized))


def line(text):
    problem = cydnn.Problem.parse(text)
    return Graph.single(problem.op, problem.operands)


def stem():
    tensors = [Tensor(uid, cydnn.TensorDesc.packed("f32", dims)) for uid, dims in ((1, (1, 4)), (2, (1, 3)))]
    return Graph([Node(ops.Transform(), dict(x=1, y=2), name="a: stem")], tensors)


@pytest.mark.parametrize("call, facts", [
    (lambda: line("conv_fprop n1c4h6w6 k4c3r3s3"),
     dict(node="conv_fprop", operand="w", needed="must divide x.c=4", given="w.c=3")),
    (lambda: line("conv_fprop n1c4h6w6 k4r3s3 stride=0"),
     dict(node="conv_fprop", attribute="stride", needed="must be >= 1 in every dim", given=0)),
    (lambda: line("conv_fprop n1c4h6w6 k4r3s3 stride=1,1,1"), dict(attribute="stride", given=(1, 1, 1))),
    (stem, dict(node="a: stem", operand="y", needed="must have dims (1, 4)", given=(1, 3))),
    (lambda: plan.build(line("transform 2x3"), "numpy").execute([bytes(24), bytearray(4)]),
     dict(node=None, operand="y", needed="must have at least 24 bytes, for 2x3:f32:nchw")),
    (lambda: plan.build(line("transform 2x3"), "numpy").execute([0, 8]),
     dict(node=None, operand="x", needed="must not be null", given=0)),
    (lambda: cudnn.setStream(None, 0), dict(node="cudnnSetStream", attribute="handle", given=None)),
])
def test_what_an_error_says_is_data(call, facts):
    with pytest.raises(cydnn.CydnnError) as error:
        call()
    facts = dict(dict.fromkeys(("operand", "attribute")), **facts)
    assert {name: error.value.facts[name] for name in facts} == facts
