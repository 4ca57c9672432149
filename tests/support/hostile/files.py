"""Everything that the library reads, damaged: plans, graphs, kernel caches, device properties, manifests,
images, machine code, PTX, sources of kernels.

What must hold: it is refused with one error of ours, or it says what it said; nothing from a file whose hash
is not known is handed on. Manifests, images and machine code are also given a hash that fits the damage: then
the readers behind it are attacked.
"""
from __future__ import annotations

import hashlib
import importlib.util
import json
import lzma
import os
import shutil
import sys
from pathlib import Path

import cydnn.frontend as cudnn
from cydnn import bench, kernels, ops
from cydnn.device import assembled
from cydnn.device.facts import KNOWN
from cydnn.device.ptx.parse import Module, PtxProgram
from cydnn.kernels import seal
from cydnn.kernels.images import _read_image
from cydnn.kernels.manifest import Kernel
from cydnn.layout import Layout

from .attack import Attack
from .damage import bytes_of, damaged, entry_of, is_same

T = cudnn.data_type
MANY = 8                                         # files of a round
KERNELS = ("softmax_fwd_warp_f32_8", "transform_transpose_f32_f32")
LINES = ("conv_fprop n1c8h6w6 k8r3s3 pad1 f16 nhwc", "softmax_fwd 8x64 f32", "matmul 8x8 8x8 f16",
         "softmax_fwd 4x8 f32", "pooling_fwd n1c2h4w4 window=2 stride=2")
SOURCES = ("softmax/softmax_fwd_warp.cu", "layout/transform_transpose.cu")
ROOT = Path(__file__).resolve().parents[3]


# ---- What is right ----

def graph_of(handle, **options):
    g = cudnn.pygraph(io_data_type=T.FLOAT, intermediate_data_type=T.FLOAT, handle=handle, **options)
    x, w = g.tensor([1, 2, 4, 4], [32, 16, 4, 1]), g.tensor([2, 2, 3, 3], [18, 9, 3, 1])
    number = g.tensor_scalar(2.0, cudnn.scalar_type.RUNTIME_PARAM)
    g.relu(g.add(g.conv_fprop(x, w, padding=[1, 1]), number)).set_output(True)
    return g


def small(handle):
    g = cudnn.pygraph(io_data_type=T.FLOAT, handle=handle)
    g.relu(g.tensor([2, 4], [4, 1])).set_output(True)
    return g


def contract():
    """tools/contract.py, which reads the sources of kernels."""
    if "contract" not in sys.modules:
        spec = importlib.util.spec_from_file_location("contract", ROOT / "tools" / "contract.py")
        sys.modules["contract"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["contract"])
    return sys.modules["contract"]


def stored(a: Attack) -> dict:
    """The right files, made once."""
    if a.kept.get("plans"):
        return a.kept
    cache = cudnn.create_kernel_cache()
    graphs = [graph_of(a.front, kernel_cache=cache), small(a.front), small(a.front)]
    for g in graphs:
        g.build([cudnn.heur_mode.A])
    layouts = [Layout.of(bench.graph_of(ops.Problem.parse(line)), KNOWN["h200"]) for line in LINES]
    rows = {name: kernels.get(name).row for name in KERNELS}
    image = kernels.get(KERNELS[0]).images["sm_80"]
    manifests = [{"nvcc": "", "functions": {}, "kernels": {name: rows[name] for name in names}}
                 for names in (KERNELS, KERNELS[:1], KERNELS[1:])]
    a.kept.update(
        plans=[bytes(g.serialize()).decode() for g in graphs], texts=[repr(g) for g in graphs],
        cache=cache.serialize(), key=graphs[0].key(), layouts=layouts, papers=[x.to_json() for x in layouts],
        properties=cudnn.device_properties(KNOWN["h200"]).serialize(),
        manifests=[json.dumps(seal.folded(json.loads(json.dumps(m)))) for m in manifests],
        image=image, xz=lzma.compress(image.text()), ptx=image.text().decode(),
        bomb=lzma.compress(bytes(1 << 27), preset=0),
        sources=[(ROOT / "kernels_src" / name).read_text() for name in SOURCES])
    return a.kept


def many(one):
    """A round of several files of a kind; what is kept of them is one folder."""
    def files(a: Attack):
        right = stored(a)
        for _ in range(MANY):
            one(a, right)
    files.__name__, files.__doc__ = one.__name__, one.__doc__
    return files


# ---- One kind of file each ----

@many
def stored_plans(a: Attack, right):
    """Taken only where it says what this version makes of it."""
    text, g = damaged(a, a.random.choice(right["plans"])), cudnn.pygraph(handle=a.front)
    a.read("plan of a pygraph", g.deserialize, text.encode(errors="surrogateescape"))
    if not a.refused and not is_same(text, bytes(g.serialize()).decode()):
        a.wrong("a plan that was changed is taken", text)


@many
def layouts(a: Attack, right):
    """The same, read without a device."""
    text = damaged(a, a.random.choice(right["papers"]))
    made = a.read("plan", Layout.from_json, text)
    if made is not None and not is_same(text, made.to_json()):
        a.wrong("a layout that was changed is taken", text)


@many
def stored_graphs(a: Attack, right):
    """What is taken says so again, and is checked as calls are."""
    text, g = damaged(a, a.random.choice(right["texts"])), cudnn.pygraph(handle=a.front)
    a.read("graph", g.deserialize, text)
    if a.refused:
        return
    again = a.call("repr", repr, g)
    if again is not None and not is_same(text, again):
        a.wrong("a text that was changed is taken for another graph", f"{text} -> {again}")
    for step, *given in (g.validate,), (g.key,), (g.build, [cudnn.heur_mode.A]):
        a.call("build", step, *given)


@many
def kernel_caches(a: Attack, right):
    """A cache never changes what a graph computes: what does not fit is chosen anew."""
    cache = cudnn.create_kernel_cache()
    a.read("kernel cache", cache.deserialize, damaged(a, right["cache"]))
    a.call("serialize", cache.serialize)
    if a.random.random() > .2:
        return
    g = graph_of(a.front, kernel_cache=cache)
    a.call("build", g.build, [cudnn.heur_mode.A])
    if a.refused or g.key() != right["key"]:
        a.wrong("a damaged cache changes what is built", "")


@many
def properties(a: Attack, right):
    """Facts of a device that nobody has: plans are made, or refused."""
    made = a.read("device properties", cudnn.create_device_properties, damaged(a, right["properties"]))
    if made is not None and a.random.random() < .2:
        g = graph_of(None, device_property=made)
        a.call("build", g.build, [cudnn.heur_mode.A])
        a.call("Layout.of", Layout.of, a.random.choice(right["layouts"]).graph, made.facts)


# ---- Files with hashes ----

def sealed_read(data: bytes):
    try:
        return seal.read(data)
    except ValueError as error:                  # its sentence stands behind the manifest's name
        raise ValueError(f"manifest: {error}") from None


@many
def manifests(a: Attack, right):
    """Changed anywhere: refused."""
    text = seal.sealed("{\n" + a.random.choice(right["manifests"])[1:]).encode()
    data = bytes_of(a, text)
    if a.read("manifest", sealed_read, data) is not None and data != text:
        a.wrong("a manifest that was changed is taken", data.decode(errors="replace"))


@many
def forged_manifests(a: Attack, right):
    """Sealed again: refused by its schema, or taken; no image but of its hash."""
    forged = damaged(a, a.random.choice(right["manifests"]))
    data = seal.sealed("{\n" + forged[1:].encode(errors="replace").decode()).encode()
    made = a.read("manifest, sealed again", sealed_read, data)
    for name, row in (made or {}).get("kernels", {}).items():
        kernel = Kernel(name, row, kernels.ptx_dir())
        image = a.call("image_for", kernel.image_for, 80)
        if image and a.random.random() < .1:
            text = a.call("text", image.text)
            if text and hashlib.sha256(text).hexdigest() != image.sha256:
                a.wrong("an image of another hash", name)
        a.call("pack", kernel.pack, {p["name"]: 1 for p in kernel.row["params"]})


@many
def images(a: Attack, right):
    """Packed PTX: the bytes of the known hash, or none."""
    path = a.folder / "image.ptx.xz"
    data = bytes_of(a, right["xz"]) if a.random.random() > .002 else right["bomb"]       # much from little
    path.write_bytes(data)
    text = a.read("image", _read_image.__wrapped__, path, a.folder, (), right["image"].sha256)
    if text is not None and text.decode() != right["ptx"]:
        a.wrong("an image that was changed is read", "")


def code_of(key: bytes) -> bytes:
    """What is not there, or not what its hash says, is left alone."""
    if (found := assembled.find(key, 90)) is None:
        raise ValueError("cubin: must have the hash that it begins with; got another")
    return found


@many
def machine_code(a: Attack, right):
    """Entries of the cache: the code that stands behind its hash, or none. Hashed again it is that code."""
    key, code = right["ptx"][:1000].encode(), a.random.randbytes(400)
    before = os.environ.get("CYDNN_CACHE")
    os.environ["CYDNN_CACHE"] = str(a.folder)
    try:
        kept = assembled.keep(key, 90, code)
        forged = bytes_of(a, code)
        is_forged = a.random.random() < .5
        data = hashlib.sha256(forged).digest() + forged if is_forged else bytes_of(a, kept.read_bytes())
        kept.write_bytes(data)
        found = a.read("machine code" + ", hashed again" * is_forged, code_of, key)
    finally:
        os.environ.pop("CYDNN_CACHE")
        if before is not None:
            os.environ["CYDNN_CACHE"] = before
    if (found or b"") != (forged if is_forged else code if data[32:] == code and found else b""):
        a.wrong("machine code that was changed is read", "")


# ---- Texts of kernels ----

@many
def ptx_texts(a: Attack, right):
    """PTX that somebody wrote, as the interpreter reads it."""
    text = right["ptx"]
    text = bytes_of(a, text.encode()).decode(errors="replace") if a.random.random() < .5 else a.misspelt(text)
    module = a.read("PTX", Module, text, "file.ptx")
    if module is not None:
        for name in module.entries:
            a.call("PTX", PtxProgram, module, name)


def variants(path, source):
    """Sentences of the tool's own error are those of a ValueError."""
    try:
        return contract().read(path, source, "")
    except contract().ContractError as error:
        raise ValueError(f"contract: must be right: {error}") from None


@many
def kernel_sources(a: Attack, right):
    """The header of a kernel's source: its variants, or one sentence."""
    folder = a.folder / "src"
    if not folder.exists():
        shutil.copytree(ROOT / "kernels_src" / "lib", folder / "lib")
    source = a.random.choice(right["sources"])
    at = source.index("@*/") + 3
    head = (a.misspelt(source[:at]) if a.random.random() < .5
            else bytes_of(a, source[:at].encode()).decode(errors="replace"))
    (folder / "kernel.cu").write_text(head + source[at:])
    a.read("source of a kernel", variants, folder / "kernel.cu", folder)
