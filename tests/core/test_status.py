"""The exceptions: what their text holds, and that they survive a trip to another process."""
import copy
import pickle

import pytest

import cydnn
from cydnn import status


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
