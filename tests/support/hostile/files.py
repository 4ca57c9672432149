"""Everything that the library reads, damaged: stored plans, JSON of graphs, kernel caches, device properties,
choices, configurations, manifests, images, machine code, PTX, contracts' expressions, problem files.

What must hold: it is refused, or it says what it said; nothing from a file whose hash is not known is handed
on.
"""
from __future__ import annotations

import contextlib
import hashlib
import io
import json
import lzma
import os
from unittest.mock import patch

import cydnn.frontend as cudnn
from cydnn import __main__ as command_line
from cydnn import bench, kernels, ops, plan
from cydnn.device import assembled, guarded
from cydnn.device.facts import KNOWN
from cydnn.device.ptx.parse import Module, Program
from cydnn.engines import Config
from cydnn.engines import TABLE
from cydnn.graph import Graph
from cydnn.heuristics import parse
from cydnn.kernels import seal
from cydnn.kernels.expressions import Expression
from cydnn.kernels.manifest import Kernel, _read_image
from cydnn.layout import Layout

from .attack import Attack

T = cudnn.data_type
KERNELS = ("softmax_fwd_warp_f32_8", "transform_transpose_f32_f32")
LINES = ("conv_fprop n1c8h6w6 k8r3s3 pad1 f16 nhwc", "softmax_fwd 8x64 f32", "matmul 8x8 8x8 f16")
JSON_VALUES = ["NaN", "Infinity", "-Infinity", "1e999", "1" * 400, "1" * 5000, "-0", '"\\ud800"', '"\\u0000"',
               "[" * 3000, "{" * 3000, '{"a":' * 3000, "null", "true", "[]", "{}", '""', "1.5", "-1", '"x"',
               "9" * 25, "[null]", '"' + "a" * 20000 + '"', "[" + "0," * 20000 + "0]", '"../../etc/passwd"']
HOSTILE = """__import__('os').system('true')  9**9**9**9  1<<10**9  ().__class__  lambda:0  [1 for x in y]
    f'{n}'  min(n,*[1])  'a'*10**9  n[0:1]  max()  ceil_div(1,0)  n.n.n  minmin  sizeof(f32)  sizeof('x')
    1e999  n==f16  2**n  n**-1  n<<-1  n*n*n*n  '\\ud800'  (1,2)*n  n<<n<<n  n if n else"""
HOSTILE = HOSTILE.replace("\n  ", "").split("  ")
HOSTILE += ["(" * 500, "1" * 5000, "not " * 2000 + "n", "x" * 9999, "\x00", "n + " * 900 + "n"]


# ---- Damage ----

def bytes_of(a: Attack, data: bytes) -> bytes:
    """Bytes changed, dropped, doubled, moved, cut off, or another file's in their place."""
    one, draw = bytearray(data), a.random
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        at = draw.randrange(len(one) + 1)
        end = min(len(one), at + draw.choice((1, 1, 4, 100, 1000)))
        way = draw.randrange(7)
        if way == 0 and at < len(one):
            one[at] ^= 1 << draw.randrange(8)
        elif way == 1:
            one[at:at + 1] = bytes([draw.choice(b'0123456789-"[]{},:.ex \x00\xff\n\\')])
        elif way == 2:
            del one[at:end]
        elif way == 3:
            one[at:at] = one[at:end] * draw.choice((1, 2, 50))
        elif way == 4:
            del one[at:]
        elif way == 5:
            one[at:end] = draw.randbytes(end - at)
        else:
            one[at:at] = draw.choice(JSON_VALUES).encode()[:1000]
    return bytes(one)


def entry_of(a: Attack, text: str) -> str:
    """JSON with another entry: of another kind, gone, twice, or of a name that nobody knows."""
    row, draw = json.loads(text), a.random
    for _ in range(draw.choice((1, 1, 2))):
        found = places(row, [])
        if not found:
            break
        inside, key = draw.choice(found)
        way = draw.random()
        if way < .15:
            del inside[key]
        elif way < .25 and isinstance(inside, dict):
            inside[draw.choice(("extra", "__class__", ""))] = inside[key]
        elif way < .4:
            inside[key] = json.loads(json.dumps(draw.choice(found)[0]))
        elif way < .6 and type(inside[key]) in (int, float):
            inside[key] = draw.choice((-inside[key], inside[key] + 1, inside[key] * 10 ** 6, 0, 2 ** 62,
                                       1e308))
        else:
            inside[key] = "@@"
    return json.dumps(row).replace('"@@"', draw.choice(JSON_VALUES))


def places(x, found) -> list:
    for key in (x if isinstance(x, dict) else range(len(x))):
        found.append((x, key))
        if isinstance(x[key], (dict, list)) and x[key]:
            places(x[key], found)
    return found


def damaged(a: Attack, text: str) -> str:
    """A JSON text damaged in one of these ways; what is no text any more is one in another encoding."""
    way = a.random.random()
    if way < .6:
        return entry_of(a, text)
    return a.misspelt(text) if way < .8 else bytes_of(a, text.encode()).decode(errors="surrogateescape")


def is_same(given: str, mine: str) -> bool:
    """The same JSON; a number and its float are one."""
    return json.dumps(json.loads(given), sort_keys=True) == json.dumps(json.loads(mine), sort_keys=True)


# ---- What is right ----

def graph_of(handle, **options):
    g = cudnn.pygraph(io_data_type=T.FLOAT, intermediate_data_type=T.FLOAT, handle=handle, **options)
    x, w = g.tensor([1, 2, 4, 4], [32, 16, 4, 1]), g.tensor([2, 2, 3, 3], [18, 9, 3, 1])
    number = g.tensor_scalar(2.0, cudnn.scalar_type.RUNTIME_PARAM)
    g.relu(g.add(g.conv_fprop(x, w, padding=[1, 1]), number)).set_output(True)
    return g


def stored(a: Attack) -> dict:
    """The right files, made once."""
    if a.kept:
        return a.kept
    cache = cudnn.create_kernel_cache()
    g = graph_of(a.front, kernel_cache=cache)
    g.build([cudnn.heur_mode.A])
    graphs = [bench.graph_of(ops.Problem.parse(line)) for line in LINES]
    layouts = [Layout.of(graph, KNOWN["h200"]) for graph in graphs]
    rows = {name: kernels.get(name).row for name in KERNELS}
    image = kernels.get(KERNELS[0]).images["sm_80"]
    a.kept.update(
        plan=bytes(g.serialize()).decode(), text=repr(g), cache=cache.serialize(), key=g.key(),
        layouts=layouts,
        properties=cudnn.device_properties(KNOWN["h200"]).serialize(),
        manifest={"nvcc": "", "functions": {}, "kernels": rows}, image=image, xz=image.path.read_bytes(),
        ptx=image.text().decode(), bomb=lzma.compress(bytes(1 << 27), preset=0),
        expressions=sorted({t for n in kernels.names()[::40] for t in kernels.get(n).row["needs"]
                            + ["(n + 3) // 4"]}))
    return a.kept


# ---- One kind of file each ----

def stored_plans(a: Attack):
    """Accepted only where it says what this version makes of it."""
    right = stored(a)
    text = damaged(a, right["plan"])
    g = cudnn.pygraph(handle=a.front)
    a.call("deserialize", g.deserialize, text.encode(errors="surrogateescape"))
    if not a.refused and not is_same(text, bytes(g.serialize()).decode()):
        a.wrong("a plan that was changed is taken", text)
    layout = a.random.choice(right["layouts"])
    text = damaged(a, layout.to_json())
    made = a.call("Layout.from_json", Layout.from_json, text)
    if made is not None and not is_same(text, made.to_json()):
        a.wrong("a layout that was changed is taken", text)


def stored_graphs(a: Attack):
    """What is taken says so again, and is checked as calls are."""
    text = damaged(a, stored(a)["text"])
    g = cudnn.pygraph(handle=a.front)
    a.call("deserialize", g.deserialize, text)
    if a.refused:
        return
    again = a.call("repr", repr, g)
    if again is not None and not is_same(text, again):
        a.wrong("a text that was changed is taken for another graph", f"{text} -> {again}")
    for step in (g.validate, g.key, lambda: g.build([cudnn.heur_mode.A])):
        a.call("build", step)


def kernel_caches(a: Attack):
    """A cache never changes what a graph computes: what does not fit is chosen anew."""
    right = stored(a)
    cache = cudnn.create_kernel_cache()
    a.call("kernel_cache", cache.deserialize, damaged(a, right["cache"]))
    a.call("serialize", cache.serialize)
    g = graph_of(a.front, kernel_cache=cache)
    a.call("build", g.build, [cudnn.heur_mode.A])
    if a.refused or g.key() != right["key"]:
        a.wrong("a damaged cache changes what is built", "")


def properties(a: Attack):
    """Facts of a device that nobody has: plans are made, or refused."""
    made = a.call("create_device_properties", cudnn.create_device_properties,
                  damaged(a, stored(a)["properties"]))
    if made is not None:
        a.call("build", lambda: graph_of(None, device_property=made).build([cudnn.heur_mode.A]))
        a.call("Layout.of", Layout.of, a.random.choice(stored(a)["layouts"]).graph, made.facts)


def choices(a: Attack):
    """Choices and configurations as they stand in plans, caches and logs."""
    layout = a.random.choice(stored(a)["layouts"])
    graph: Graph = layout.graph
    made = a.call("parse", parse, a.misspelt(layout.choice.text), graph, layout.facts)
    if made is not None:
        if parse(made.text, graph, layout.facts) != made:
            a.wrong("a choice that does not parse back", made.text)
        a.call("Layout", lambda: Layout(made).to_json())
    engine = a.random.choice([e for e in TABLE if e.knobs])
    words = " ".join(f"{knob.name}={a.random.choice(knob.values or (knob.lo, knob.hi))}"
                     for knob in engine.knobs)
    a.call("Config.parse", Config.parse, a.misspelt(words), engine.knobs)
    a.call("CYDNN_DEBUG", guarded.asked, a.misspelt("sync,nan"))


def manifests(a: Attack):
    """Changed anywhere: refused. Sealed again: refused by its schema, or taken; no image but of its hash."""
    right = stored(a)
    text = seal.sealed("{\n" + json.dumps(seal.folded(json.loads(json.dumps(right["manifest"]))))[1:])
    data = bytes_of(a, text.encode())
    if a.call("manifest", sealed_read, data) is not None and data != text.encode():
        a.wrong("a manifest that was changed is taken", data.decode(errors="replace"))
    forged = entry_of(a, json.dumps(seal.folded(json.loads(json.dumps(right["manifest"])))))
    made = a.call("manifest", sealed_read, seal.sealed("{\n" + forged[1:]).encode(errors="surrogatepass"))
    for name, row in (made or {}).get("kernels", {}).items():
        kernel = Kernel(name, row, kernels.ptx_dir())
        image = a.call("image_for", kernel.image_for, 80)
        text = image and a.call("text", image.text)
        if text and hashlib.sha256(text).hexdigest() != image.sha256:
            a.wrong("an image of another hash", name)
        a.call("pack", lambda: kernel.pack({p["name"]: 1 for p in kernel.row["params"]}))


def sealed_read(data: bytes):
    try:
        return seal.read(data)
    except ValueError as error:                  # its sentence stands behind the manifest's name
        raise ValueError(f"manifest: {error}") from None


def images(a: Attack):
    """Packed PTX and machine code: the bytes of the known hash, or none."""
    right = stored(a)
    path = a.folder / f"{a.number}.ptx.xz"
    data = bytes_of(a, right["xz"])
    if a.random.random() < .02:                  # much from little
        data = right["bomb"]
    path.write_bytes(data)
    text = a.call("image", _read_image.__wrapped__, path, right["image"].sha256)
    if text is not None and text.decode() != right["ptx"]:
        a.wrong("an image that was changed is read", "")
    path.unlink()
    with patch.dict(os.environ, CYDNN_CACHE=str(a.folder)):
        machine_code(a, right["ptx"].encode())


def machine_code(a: Attack, key: bytes):
    code = b"code" * 99
    kept = assembled.keep(key, 90, code)
    data = bytes_of(a, kept.read_bytes())
    kept.write_bytes(data)
    found = a.call("cubin", assembled.find, key, 90)
    if found is not None and found != code:
        a.wrong("machine code that was changed is read", "")
    if found is not None and not data.startswith(hashlib.sha256(code).digest()):
        a.wrong("machine code without its hash is read", "")


def ptx_texts(a: Attack):
    """PTX that somebody wrote, as the interpreter reads it."""
    text = stored(a)["ptx"]
    text = bytes_of(a, text.encode()).decode(errors="replace") if a.random.random() < .5 else a.misspelt(text)
    module = a.call("PTX", Module, text, "file.ptx")
    if module is not None:
        for name in module.entries:
            a.call("PTX", Program, module, name)


def expressions(a: Attack):
    """Contracts' expressions, with names, calls and numbers of any kind."""
    right = a.random.choice(stored(a)["expressions"])
    text = a.random.choice(HOSTILE) if a.random.random() < .5 else a.misspelt(right)
    made = a.call("expression", said, lambda: Expression(text))
    if made is not None:
        a.call("expression", said,
               lambda: made(dict.fromkeys(made.names, a.random.choice((0, 1, 7, 2 ** 40, (1, 2))))))


def said(make):
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"contract: must be right: {error}") from None


def command_lines(a: Attack):
    """Files and words that the command line reads: an exit status and sentences."""
    right = stored(a)
    path = a.folder / f"{a.number}.txt"
    path.write_bytes(bytes_of(a, ("\n".join(LINES) + "  # some\n").encode() * 3))
    where = a.random.choice((str(path), str(a.folder), "/nowhere", ""))
    words = a.random.choice((
        ["ptx", KERNELS[0], "--run", "--file", where], ["bench", "@" + where, "--repeat", "0"],
        ["ptx", a.misspelt(KERNELS[0])], ["ptx", KERNELS[0], "--text", "--target", a.misspelt("sm_80")],
        ["inf"], ["bench", a.misspelt("softmax_fwd"), "--device", "numpy"]))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            a.call(" ".join(words), command_line.main, [w for w in words if "\x00" not in w])
        except SystemExit:                       # argparse has said what is wrong
            pass
    path.unlink()
