"""Files that cydnn reads, where others change them meanwhile (what they may be: kernels/test_manifest.py)."""
from __future__ import annotations

import os

import pytest

from cydnn import files


@pytest.mark.parametrize("become", [os.mkfifo, lambda path: path.symlink_to(__file__),
                                    lambda path: path.write_bytes(bytes(1 << 16))])
def test_a_file_that_becomes_another(tmp_path, monkeypatch, become):
    path, most, look = tmp_path / "image", 1 << 15, os.stat
    path.write_bytes(b"ours")
    assert files.read(path, most, tmp_path) == b"ours"

    def looked(given):
        found = look(given)
        path.unlink()
        become(path)
        return found
    with monkeypatch.context() as changed, pytest.raises((OSError, ValueError)):
        changed.setattr(os, "stat", looked)
        files.read(path, most, tmp_path)
