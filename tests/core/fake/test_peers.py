"""Memory of other devices, by peer access."""
import pytest

from cydnn import _core
from cydnn.operand import Operand
from cydnn.status import BadParam, NotSupported


def test_memory_of_a_peer(fake, context, kernel, monkeypatch):
    """For operands that say so; access is turned on once, and not to be had for a device that is alone."""
    mail = Operand("mail", 64, 4, is_written=True, is_shared=True, is_remote=True)
    tape = _core.Tape(context, [mail, mail._replace(name="own", is_remote=False)])
    tape.launch(kernel(), 1, 32, 0, bytes(16), [(0, 0, 0), (8, 1, 0)])
    own, there = (_core.Buffer(c, 64) for c in (context, _core.Context(1)))
    monkeypatch.setenv("CYDNN_FAKE_ALONE", "1")
    with pytest.raises(NotSupported, match=r"^mail: must be memory of cuda:0, or of a device that it has "
                                           r"peer access to; got memory of one that it has none to, at 0x"):
        tape.execute((there, own))
    monkeypatch.delenv("CYDNN_FAKE_ALONE")
    for _ in range(3):
        tape.execute((there, own))
    with pytest.raises(BadParam, match="^own: must be memory of cuda:0; got memory of another device at 0x"):
        tape.execute((own, there))
    assert (fake.count("cuCtxEnablePeerAccess"), fake.count("cuLaunchKernel"), fake.depth()) == (1, 3, 1)
