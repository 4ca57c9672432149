"""A damaged manifest is one clear error, whatever was changed; a replaced one says what it replaces."""
import errno
import hashlib
import json
import logging
import lzma
import os
import random
import shutil
import subprocess
import sys
import tracemalloc

import pytest

from cydnn import kernels
from cydnn.__main__ import main
from cydnn.kernels import seal
from cydnn.status import BadParam, CydnnError, InternalError
from support.draw.handmade import manifest_text

NAMES = ("softmax_fwd_warp_f32_8", "transform_transpose_f32_f32")


@pytest.fixture
def rows():
    return {name: json.loads(json.dumps(kernels.get(name).row)) for name in NAMES}


@pytest.fixture
def folder(tmp_path, monkeypatch, rows):
    """A folder of two kernels that CYDNN_PTX_DIR names; ``folder.put(text)`` writes its manifest."""
    class Folder:
        path = tmp_path / "manifest.json"

        def put(self, data):
            self.path.write_bytes(data if isinstance(data, bytes) else data.encode())
            kernels.reload()

    for image in (image for name in NAMES for image in kernels.get(name).images.values()):
        (tmp_path / image.path.parent.name).mkdir(exist_ok=True)
        shutil.copy(image.path, tmp_path / image.path.parent.name)
    made = Folder()
    made.put(manifest_text(rows))
    monkeypatch.setenv("CYDNN_PTX_DIR", str(tmp_path))
    yield made
    monkeypatch.undo()
    kernels.reload()


def test_the_shipped_one_is_sealed_and_built_in():
    data = (kernels.ptx_dir() / "manifest.json").read_bytes()
    assert seal.read(data)["kernels"].keys() == set(kernels.names())
    assert kernels.is_as_built(), "ptx/ has changed: python setup.py build_ext --inplace"


def test_any_changed_byte_is_one_error(folder):
    """Of 400 random changes: bytes set, dropped, doubled, swapped, and the file cut off."""
    right, r = folder.path.read_bytes(), random.Random(5)
    for _ in range(400):
        data, at = bytearray(right), r.randrange(len(right))
        ways = (lambda: data.__setitem__(at, data[at] ^ 1 << r.randrange(8)), lambda: data.pop(at),
                lambda: data.insert(at, data[at]), lambda: data.__delitem__(slice(at, None)),
                lambda: data.extend(b"}"))
        r.choice(ways)()
        folder.put(bytes(data))
        with pytest.raises(InternalError, match=f"^manifest {folder.path} must .*Build it with"):
            kernels.names()


@pytest.mark.parametrize("data, sentence", [
    (b"", "must begin with its seal; got none"), (b"{}", "must begin with its seal"),
    (seal.sealed("{\nx"), "must be JSON; got Expecting"), (seal.sealed("{\n\xff"), "must be JSON"),
    (seal.sealed("{\n" + '"a":' + "[" * 10 ** 5), "must be JSON"),
    (seal.sealed('{\n"kernels": {}, "functions": {}}'), "must be what build_ptx.py writes: .* have nvcc"),
    (seal.sealed('{\n"kernels": [], "functions": {}, "nvcc": ""}'), r"kernels must be as .*; got \[\]"),
    (seal.sealed('{\n"kernels": {}, "functions": {}, "nvcc": "", "extra": 1}'), "must have no 'extra'"),
    (seal.sealed('{\n"kernels": {}, "functions": {}, "nvcc": "", "shared": {"about": {}}}'),
     "shared must be as build_ptx.py writes it"),
    (seal.sealed("{\n}").replace("}", "]"), "must have the sha256 .*; got .*: it was changed")])
def test_what_is_no_manifest(folder, data, sentence):
    folder.put(data)
    with pytest.raises(InternalError, match=sentence):
        kernels.names()


def places(x, found):
    for key in (x if isinstance(x, dict) else range(len(x))):
        found.append((x, key))
        if isinstance(x[key], (dict, list)):
            places(x[key], found)
    return found


def test_one_that_cannot_be_read(folder, monkeypatch):
    def fails(*given):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    monkeypatch.setattr(os, "open", fails)
    with pytest.raises(InternalError, match="^manifest .* must be readable; got Input/output error. Build"):
        kernels.names()


STRANGE = {"must be a file; got a FIFO": os.mkfifo, "must be a file; got a folder": os.mkdir,
           "must lie in .*; got a link to /proc/": lambda path: path.symlink_to("/proc/self/mem"),
           "must have at most .* bytes; got 3000000000": lambda path: path.touch() or os.truncate(
               path, 3 * 10 ** 9)}


@pytest.mark.parametrize("said", STRANGE)
def test_what_is_none_of_ours_is_refused_unopened(folder, said):
    image = kernels.get(NAMES[0]).images["sm_75"]
    for path, ask in ((image.path, image.text), (folder.path, kernels.names)):
        path.unlink()
        STRANGE[said](path)
        kernels.reload()
        with pytest.raises(InternalError, match=said):
            ask()


def test_problems_that_were_changed_are_refused(folder, rows):
    """They lie beside the manifest, which says their hash; a folder by hand has none."""
    assert kernels.get(NAMES[0]).problems == ()
    path = folder.path.with_name(seal.PROBLEMS)
    path.write_text(json.dumps({NAMES[0]: ["softmax_fwd 4x16 f32"]}))
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    folder.put(manifest_text(rows, problems=found))
    assert kernels.get(NAMES[0]).problems == ("softmax_fwd 4x16 f32",)
    path.write_text("{}")
    kernels.reload()
    with pytest.raises(InternalError, match="problems .* must have sha256 .*…. The file was changed"):
        kernels.get(NAMES[0]).problems
    path.unlink()
    kernels.reload()
    with pytest.raises(InternalError, match="problems .* must be readable; got No such file"):
        kernels.get(NAMES[0]).problems


def test_a_folder_that_cannot_be_named(monkeypatch):
    monkeypatch.setenv("CYDNN_PTX_DIR", "/" + "x" * 5000)
    with pytest.raises(BadParam, match="CYDNN_PTX_DIR: must name a folder; got '/xxx.*: File name too long"):
        kernels.names()


def test_an_image_is_an_object(folder, rows):
    changed = json.loads(json.dumps(rows))
    changed[NAMES[0]]["images"] = {"sm_80": 5}
    folder.put(manifest_text(changed))
    with pytest.raises(InternalError, match="must be what build_ptx.py writes: .* must be an object; got 5"):
        kernels.names()


def test_a_forged_one_has_a_schema(folder, rows):
    """Sealed again after a change of its rows: refused with the row's name, or taken whole."""
    r, refused = random.Random(6), 0
    for _ in range(300):
        changed = json.loads(json.dumps(rows))
        inside, key = r.choice(places(changed, []))
        if r.random() < .3:
            del inside[key]
        else:
            inside[key] = r.choice([None, -1, 1.5, [], {}, "", "../../etc/passwd", [None], True, "x" * 9999])
        folder.put(manifest_text(changed))
        try:
            for name in kernels.names():
                kernels.get(name).image_for(80).text()
        except CydnnError as error:
            refused += 1
            assert len(str(error)) < 1000
    assert refused > 150


def test_what_rows_share_stands_once(rows):
    """A name is of the value alone; two values whose names begin alike get longer ones."""
    twice = {"functions": {}, "kernels": {**rows, "other": rows[NAMES[0]]}}
    folded, alone = seal.folded(twice), seal.folded({**twice, "kernels": {"other": rows[NAMES[0]]}})
    assert folded["kernels"]["other"] == alone["kernels"]["other"] and len(folded["shared"]["params"]) == 2
    assert folded["kernels"][NAMES[0]]["images"] == rows[NAMES[0]]["images"]
    seal.unfold(folded)
    assert folded == twice
    alike = {"functions": {}, "kernels": {n: {**rows[NAMES[0]], "about": n} for n in ("2125", "16863")}}
    folded = seal.folded(alike)
    assert sorted(map(len, folded["shared"]["about"])) == [8, 9]
    seal.unfold(folded)
    assert folded == alike


@pytest.mark.parametrize("change", [
    lambda row, shared: row.update(params="00000000"), lambda row, shared: row.update(params=[]),
    lambda row, shared: row.pop("params"), lambda row, shared: shared["params"].clear()])
def test_a_name_of_nothing_is_refused(folder, change):
    whole = json.loads(folder.path.read_text())
    del whole["seal"]
    change(whole["kernels"][NAMES[0]], whole["shared"])
    folder.put(seal.sealed("{\n" + json.dumps(whole)[1:]))
    with pytest.raises(InternalError, match=f"{NAMES[0]} must have the name of one of the shared params"):
        kernels.names()


@pytest.mark.parametrize("change", [
    lambda row: row.update(param_bytes=10 ** 8), lambda row: row["params"][0].update(offset=10 ** 8),
    lambda row: row["params"][0].update(name="a b"), lambda row: row["params"][0].update(name="x" * 999)])
def test_sizes_and_names_have_bounds(folder, rows, change):
    change(rows[NAMES[0]])
    folder.put(manifest_text(rows))
    with pytest.raises(InternalError, match=f"{NAMES[0]}.* must be as build_ptx.py writes it"):
        kernels.names()


@pytest.mark.parametrize("key, value, said", [
    ("params", [dict(name="x", type="void", offset=0, bytes=8)], "a parameter must be a pointer"),
    ("needs", ["import os"], "must be Python arithmetic"), ("needs", ["\0"], "must be Python arithmetic"),
    ("smem", "lambda: 0", "must be made of numbers")])
def test_a_contract_that_cannot_be_is_the_manifests_fault(folder, rows, key, value, said):
    rows[NAMES[0]][key] = value
    folder.put(manifest_text(rows))
    kernel = kernels.get(NAMES[0])
    with pytest.raises(InternalError, match=f"{NAMES[0]}: its contract must be right; got .*{said}"):
        kernel.pack({p["name"]: 1 for p in kernel.row["params"]})


def test_an_image_that_would_fill_memory_is_refused(folder, rows):
    """Much from little: unpacked no further than images may be long. And nothing behind the one stream."""
    image = kernels.get(NAMES[0]).images["sm_75"]
    right, path = lzma.compress(image.text()), folder.path.parent / "large.ptx.xz"
    rows[NAMES[0]]["images"]["sm_75"]["file"] = path.name
    del rows[NAMES[0]]["images"]["sm_75"]["lies"]
    folder.put(manifest_text(rows))
    for data in (lzma.compress(bytes(1 << 26), preset=0), right + b"x", right[:-1], right + right):
        path.write_bytes(data)
        tracemalloc.start()
        with pytest.raises(InternalError, match="image .* must be readable; got not one stream of at most"):
            kernels.get(NAMES[0]).images["sm_75"].text()
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
        tracemalloc.stop()
    path.write_bytes(right)
    assert kernels.get(NAMES[0]).images["sm_75"].text() == image.text()


def test_a_file_outside_of_the_folder_is_refused(folder, rows):
    rows[NAMES[0]]["images"]["sm_75"]["file"] = "../../secret"
    folder.put(manifest_text(rows))
    with pytest.raises(InternalError, match=f"{NAMES[0]}.sm_75: file must be as build_ptx.py writes it"):
        kernels.names()


@pytest.mark.parametrize("words", [["info"], ["info", "--json"], ["ptx"], ["ptx", "s"], ["ptx", "--check"]])
def test_the_command_line_says_it_in_a_sentence(folder, capsys, words):
    folder.put(b"{")
    assert main(words) == 1
    said = "".join(capsys.readouterr())
    assert "must begin with its seal; got none" in said and "Traceback" not in said


def test_a_replaced_folder_says_what_it_replaces(folder, rows, caplog, capsys):
    rows["mine"] = rows.pop(NAMES[0])
    rows[NAMES[1]]["about"] = "another"
    folder.put(manifest_text(rows))
    with caplog.at_level(logging.WARNING, "cydnn"):
        assert kernels.names() == sorted(["mine", NAMES[1]])
    said, = [record.getMessage() for record in caplog.records]
    assert f"CYDNN_PTX_DIR: kernels are those of {folder.path.parent}" in said
    assert f"of them 1 are others ({NAMES[1]}), 1 are new (mine), " in said and "are missing (" in said
    main(["info"])
    assert "1 are new (mine)" in capsys.readouterr().out


def test_an_installed_one_must_be_the_one_built_in(folder, monkeypatch):
    monkeypatch.delenv("CYDNN_PTX_DIR")
    monkeypatch.setattr("cydnn.kernels.manifest.INSTALLED", folder.path.parent)
    kernels.reload()
    with pytest.raises(InternalError, match="must be the one that this cydnn was built with, sha256 .*; got"):
        kernels.names()


def test_the_extension_is_made_of_the_manifest_beside_setup():
    from cydnn.kernels._seal import SEAL
    run = subprocess.run([sys.executable, "-c", "import cydnn.kernels._seal as s; print(s.SEAL)"],
                         capture_output=True, text=True)
    assert run.stdout.strip() == SEAL and len(SEAL) == 64
