"""Images that a user built for a card of their own: used beside the shipped ones, never in place of them."""
import copy
import json
import logging

import numpy as np
import pytest

import cydnn
from cydnn import kernels
from cydnn.__main__ import main
from cydnn.kernels import overlay
from cydnn.status import InternalError
from kernels.toolchain import build_ptx, needs_nvcc, packs

NAME, TARGET = "softmax_fwd_warp_f32_32", "sm_86"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder of the overlay, in a cache folder of the test."""
    monkeypatch.setenv("CYDNN_CACHE", str(tmp_path / "cache"))
    yield overlay.folder(kernels.seal_in_use())
    monkeypatch.undo()
    kernels.reload()


def put(place, **changes):
    """An overlay of one image: the shipped one of sm_80, for another target."""
    kernel = kernels.get(NAME)
    row = {**copy.deepcopy(kernel.row), **changes, "problems": []}
    image = {k: v for k, v in row["images"]["sm_80"].items() if k not in ("file", "lies")}
    row["images"] = {TARGET: image, "sm_80": dict(image)}
    text = kernel.images["sm_80"].text()
    manifest = {"nvcc": "", "functions": {}, "kernels": {NAME: row}}
    with packs.locked(place):
        packs.repack(place, {}, manifest, {(NAME, target): text for target in row["images"]})
        packs.write_manifest(place, manifest)
    kernels.reload()


def test_it_adds_targets(place, capsys):
    assert kernels.overlaid() == "none"
    put(place)
    found = kernels.get(NAME)
    assert found.image_for(86).folder == place and found.image_for(80).folder == kernels.ptx_dir()
    assert found.image_for(86).text() == found.image_for(80).text() and kernels.verify() == []
    main(["info", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["overlay"] == f"1 images for {TARGET} in {place}"
    assert TARGET not in said["ptx"].split(" in ")[0]
    x = np.random.default_rng(0).random((8, 64), np.float32)
    np.testing.assert_allclose(cydnn.softmax(x, 1, device="ptx:sm_86"), cydnn.softmax(x, 1), rtol=1e-5)


def test_a_changed_image_is_refused(place):
    put(place)
    image = kernels.get(NAME).image_for(86)
    data = bytearray(image.path.read_bytes())
    data[len(data) // 2] ^= 1
    image.path.write_bytes(data)
    with pytest.raises(InternalError, match="image .*must "):
        kernels.get(NAME).image_for(86).text()
    assert len(kernels.verify()) == 1


@pytest.mark.parametrize("why", ["seal", "mode", "source"])
def test_one_that_does_not_fit_is_left_alone(place, why, caplog):
    put(place, **{"source_sha256": "0" * 64} if why == "source" else {})
    manifest = place / "manifest.json"
    if why == "seal":
        manifest.write_bytes(manifest.read_bytes() + b" ")
    if why == "mode":
        place.chmod(0o777)
    kernels.reload()
    with caplog.at_level(logging.WARNING, "cydnn.kernels"):
        assert kernels.get(NAME).image_for(86).target == "sm_80" and kernels.overlaid() == "none"
    words = dict(seal="it was changed", mode="must not be writable by others", source="")[why]
    assert words in caplog.text and bool(caplog.text) == (why != "source")


@needs_nvcc
def test_the_command_builds_it(place, capfd):
    assert main(["ptx", NAME, "--build", "--arch", TARGET]) == 0
    assert f"overlay: 1 images for {TARGET} in {place}" in capfd.readouterr().out
    assert f".target {TARGET}".encode() in kernels.get(NAME).image_for(86).text()
    assert packs.read_manifest(place)["nvcc"].startswith(build_ptx.NVCC_RELEASE)


@pytest.mark.parametrize("words, sentence", [
    (["--build", "--arch", "120"], "ptx: --arch must be sm_ and a number; got '120'"),
    (["--build", "--arch", "sm_0"], "ptx: --arch must be native or a target; got sm_0"),
    (["--build"], "ptx: --arch native needs a GPU here; got none: name a target, such as sm_120"),
    (["--arch", "sm_120"], "ptx: --arch must stand beside --build; got neither"),
    (["--build", "--check"], "ptx: --check must be alone among --run --text --check --build")])
def test_what_it_refuses(words, sentence, capsys, monkeypatch):
    monkeypatch.setattr("cydnn.device.default", lambda: cydnn.device.get("numpy"))
    assert main(["ptx", *words]) == 1 and sentence in capsys.readouterr().err


def test_an_installation_without_sources_says_so(capsys, monkeypatch):
    monkeypatch.setattr(kernels, "build_tool", lambda: None)
    assert main(["ptx", "--build"]) == 1 and "--build needs the kernels' sources" in capsys.readouterr().err
