"""tools/build_ptx.py --assemble: machine code in the cache folder, of images and of fused programs."""
from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import assemble
import build_ptx
from cydnn import bench, fusion, kernels, plan
from cydnn.device import assembled
from cydnn.device.ptx import PtxDevice
from cydnn.heuristics import parse
from cydnn.ops import Problem

NAME = "conv_wgmma_f16_64x128_bk"
TILE = "tile=64x128 splits=1 store=tma cluster_k=1"


@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs ptxas")
def test_an_image_and_what_is_spliced_into_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CYDNN_CACHE", str(tmp_path))
    command = ["--assemble", "--arch", "sm_90", "--only", NAME]
    assert build_ptx.main(command) == 0 and "programs assembled for sm_90" in capsys.readouterr().out
    assert assembled.find(kernels.get(NAME).image_for(90).text(), 90)[:4] == b"\x7fELF"
    graph = bench.biased(Problem.parse("conv_fprop n2c64h28w28 k64r3s3 pad1 f16 nhwc"))
    device = PtxDevice("sm_90")
    step, = plan.made(parse(f"part 0 1 2: 117 {TILE}", graph, device.facts), device).steps
    text = kernels.get(NAME).image_for(90).text()
    spliced = fusion.splice(text, kernels.get(NAME), step.fuse, fusion.ways_of(step))
    assert step.kernel == NAME and assembled.find(spliced, 90)[:4] == b"\x7fELF"
    assert build_ptx.main(command) == 0 and capsys.readouterr().out.startswith("0 programs")


def test_the_target_is_the_card_or_what_the_text_says():
    assert assemble.target_of(b".version 8.0\n.target sm_90a\n", 90) == "sm_90a"
    assert assemble.target_of(b".version 7.0\n.target sm_80\n", 90) == "sm_90"


def test_without_a_card_one_must_be_named(monkeypatch, capsys):
    from cydnn import device
    from cydnn.status import NotSupported

    def none(name):
        raise NotSupported("no CUDA device")
    monkeypatch.setattr(device, "get", none)
    assert build_ptx.main(["--assemble", "--only", NAME]) == 1
    assert "must know the card: give --arch sm_90" in capsys.readouterr().err


# ---- The cache folder ----

@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A text whose code is in a cache folder of its own: (text, its file)."""
    monkeypatch.setenv("CYDNN_CACHE", str(tmp_path / "cache"))
    assembled._say.cache_clear()
    path = assembled.keep(b"text", 90, b"code")
    assert assembled.find(b"text", 90) == b"code" and not path.parent.stat().st_mode & 0o077
    return b"text", path


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"),
                                  lambda path: path.touch() or os.truncate(path, 8 << 30)])
def test_what_is_no_cache_file_is_left_alone(kept, make):
    text, path = kept
    path.unlink()
    make(path)
    assert assembled.find(text, 90) is None


def test_a_folder_that_others_write_is_not_used(kept, caplog, monkeypatch):
    text, path = kept
    path.parent.chmod(0o777)
    assert assembled.find(text, 90) is None is assembled.find(text, 90)
    path.parent.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert assembled.find(text, 90) is None
    said = [record.message for record in caplog.records]
    assert len(said) == 2 and "must not be writable by others; got mode 777" in said[0]
    assert "must belong to user 4711; got a folder of user" in said[1]


def test_a_write_that_fails_leaves_nothing(kept, monkeypatch):
    text, path = kept

    def full(*given):
        raise OSError("disk full")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        assembled.keep(b"another", 90, b"code")
    assert list(path.parent.iterdir()) == [path]
