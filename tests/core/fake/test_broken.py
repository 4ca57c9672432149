"""The programs of support/hostile/broken.py that a fake driver can break too."""
import pytest

from cydnn import _core
from cydnn.device.cuda import CudaDevice
from support.hostile import broken


@pytest.mark.parametrize("name", sorted(broken.PROGRAMS.keys() - broken.FOR_REAL))
def test_it_is_said(name, fake, monkeypatch):
    monkeypatch.setenv("CYDNN_DEBUG", "")
    try:
        broken.PROGRAMS[name]()
    finally:
        _core.wait_for_every_step(False)


def test_a_program_without_the_fault_fails(fake, monkeypatch):
    monkeypatch.setenv("CYDNN_DEBUG", "")
    monkeypatch.setattr(broken, "tape_of", lambda place, *names, of=broken.tape_of, **more: of(
        place, *("harmless" for _ in names), **more))
    for name in ("later", "sync", "behind", "unset"):
        with pytest.raises(AssertionError, match="nothing was raised"):
            broken.PROGRAMS[name]()
    _core.wait_for_every_step(False)


def test_a_bad_pointer_is_planted(fake, monkeypatch):
    """The launch is made, with an address far behind the buffer's."""
    monkeypatch.setenv("CYDNN_DEBUG", "")
    monkeypatch.setattr(CudaDevice, "function",
                        lambda self, name, fuse=None, ways=(): self.context.load(broken.text(name), name))
    with pytest.raises(AssertionError, match="nothing was raised"):
        broken.PROGRAMS["pointer"]()
    assert int.from_bytes(fake.last().data[:8], "little") >= broken.FAR
    _core.wait_for_every_step(False)
