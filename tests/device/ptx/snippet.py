"""One instruction as a kernel: arrays in, array out."""
from __future__ import annotations

import struct

import numpy as np

from cydnn.device.ptx import parse
from cydnn.device.ptx.code import Code

NUMPY = {"b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2", "bf16": "u2",
         "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "f16x2": "u4", "bf16x2": "u4", "b64": "u8",
         "u64": "u8", "s64": "i8", "f64": "f8", "pred": "u4"}
BITS = {name: 8 * np.dtype(t).itemsize for name, t in NUMPY.items()}
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def kernel(text: str, name="k") -> Code:
    module = parse.module(HEAD + text, "snippet.ptx")
    return Code(module, parse.PtxProgram(module, name), {})


def source(body: str, pointers: int, threads=128, extra="") -> str:
    """A kernel of one pointer parameter each, loaded into %p0 …; %t is the thread, %g the block."""
    params = ", ".join(f".param .u64 k_param_{i}" for i in range(pointers))
    loads = "".join(f"ld.param.u64 %p{i}, [k_param_{i}];\n" for i in range(pointers))
    return f"""{extra}.visible .entry k({params}) .maxntid {threads}, 1, 1
{{ .reg .u64 %p<{pointers}>; .reg .u64 %a<{pointers + 4}>; .reg .u32 %t, %g;
{loads} mov.u32 %t, %tid.x; mov.u32 %g, %ctaid.x;
{body}
ret; }}"""


def entry(body: str, pointers: int, threads=128, extra="") -> Code:
    return kernel(source(body, pointers, threads, extra))


def buffer(device, array):
    array = np.ascontiguousarray(array)
    place = device.alloc(array.nbytes)
    device.copy_in(place.ptr, array)
    return place


def launch(device, code, places, blocks=1, threads=128, smem=0):
    device.launch(code, (blocks, 1, 1), (threads, 1, 1), smem,
                  struct.pack(f"<{len(places)}Q", *(p.ptr for p in places)))


def run(device, instruction: str, out: str, types: list[str], *arrays, tail: str = "") -> np.ndarray:
    """``instruction`` with operands %d, %s0, %s1 … of the types, on each element of the arrays."""
    count = len(arrays[0])
    assert count <= 128
    places = [buffer(device, np.asarray(a).astype(NUMPY[t]) if t != "f16" else np.asarray(a, np.float16))
              for a, t in zip(arrays, types)]
    result = device.alloc(128 * BITS[out] // 8)
    reg = lambda t: "pred" if t == "pred" else f"b{max(BITS[t], 16)}"
    lines = [f".reg .{reg(out)} %d; .reg .u32 %dp; .reg .pred %q;", f"setp.ge.u32 %q, %t, {count}; @%q ret;"]
    for i, t in enumerate(types):
        lines.append(f".reg .{reg(t)} %s{i}; mad.wide.u32 %a{i}, %t, {BITS[t] // 8}, %p{i};")
        if t == "pred":
            lines.append(f".reg .u32 %x{i}; ld.global.u32 %x{i}, [%a{i}]; setp.ne.u32 %s{i}, %x{i}, 0;")
        else:
            lines.append(f"ld.global.b{BITS[t]} %s{i}, [%a{i}];")
    n = len(types)
    lines.append(f"{instruction} %d, {', '.join(f'%s{i}' for i in range(n))}{tail};")
    lines.append(f"mad.wide.u32 %a{n}, %t, {BITS[out] // 8}, %p{n};")
    lines.append(f"selp.u32 %dp, 1, 0, %d; st.global.u32 [%a{n}], %dp;" if out == "pred"
                 else f"st.global.b{BITS[out]} [%a{n}], %d;")
    launch(device, entry("\n".join(lines), n + 1), [*places, result])
    raw = device.copy_out(result.ptr, np.empty(128 * BITS[out] // 8, np.uint8))
    return raw.view(NUMPY[out])[:count]
