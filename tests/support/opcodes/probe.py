"""A probe: one instruction (or a few) as a kernel of its own. Lane t loads its operands,
runs the text, stores every result."""
from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np

from .values import SIZE

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"


class Probe(NamedTuple):
    """``text`` uses %s0 … (operands), %d0 … (results), %t (the lane in the grid), %lane
    (in the block), %a0 … (addresses of the operands), %cell (16 bytes of global memory of its own).
    ``opcodes``: what it probes. ``rule``: how answers are compared, see ``rules``. ``undefined``: operands ->
    lanes whose result the ISA leaves open; ``note`` says why."""
    name: str
    text: str
    ins: tuple[str, ...]
    outs: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    opcodes: tuple[str, ...]
    rule: tuple = ("bits",)
    undefined: Callable | None = None
    note: str = ""
    block: int = 128

    @property
    def lanes(self) -> int:
        return len(self.values[0])

    def offsets(self, types) -> list[int]:
        """Where each operand (or result) begins in its buffer; 16 bytes a lane behind them are the cells."""
        at = [0]
        for t in types:
            at.append(at[-1] + SIZE[t] * self.lanes)
        return at

    def data(self) -> np.ndarray:
        return np.concatenate([np.ascontiguousarray(v).view(np.uint8).reshape(-1) for v in self.values])

    def entry(self, name: str) -> str:
        """The kernel ``name(in, out)``."""
        reg = (lambda t: "pred" if t == "pred"
               else f"b{max(8 * SIZE[t], 16) if t not in ('b8', 'u8', 's8') else 32}")
        at, to = self.offsets(self.ins), self.offsets(self.outs)
        lines = [f".visible .entry {name}(.param .u64 in, .param .u64 out) .maxntid {self.block}, 1, 1", "{",
                 f".reg .u64 %in, %out, %cell, %o, %a<{len(self.ins) + 1}>; .reg .u32 %t, %lane, %x, %y;",
                 "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; cvta.to.global.u64 %in, %in; "
                 "cvta.to.global.u64 %out, %out;",
                 f"mov.u32 %lane, %tid.x; mov.u32 %x, %ctaid.x; mad.lo.u32 %t, %x, {self.block}, %lane;",
                 f"mad.wide.u32 %cell, %t, 16, %out; add.u64 %cell, %cell, {-(-to[-1] // 16) * 16};"]
        for i, t in enumerate(self.ins):
            lines.append(f"mad.wide.u32 %a{i}, %t, {SIZE[t]}, %in; add.u64 %a{i}, %a{i}, {at[i]};")
            if t == "pred":
                lines.append(f".reg .pred %s{i}; ld.global.u8 %x, [%a{i}]; setp.ne.u32 %s{i}, %x, 0;")
            elif t != "b128":
                lines.append(f".reg .{reg(t)} %s{i}; ld.global.b{8 * SIZE[t]} %s{i}, [%a{i}];")
        lines += [f".reg .{reg(t)} %d{i};" for i, t in enumerate(self.outs)]
        lines.append(self.text)
        for i, t in enumerate(self.outs):
            lines.append(f"mad.wide.u32 %o, %t, {SIZE[t]}, %out;")
            lines.append(f"selp.u32 %x, 1, 0, %d{i}; st.global.u8 [%o+{to[i]}], %x;" if t == "pred"
                  else f"st.global.b{8 * SIZE[t]} [%o+{to[i]}], %d{i};")
        return "\n".join([*lines, "ret;", "}", ""])

    @property
    def out_bytes(self) -> int:
        """Of the buffer, cells included."""
        return -(-self.offsets(self.outs)[-1] // 16) * 16 + 16 * self.lanes

    def split(self, raw: np.ndarray) -> list[np.ndarray]:
        """The results out of the bytes of the buffer, as unsigned bits."""
        at = self.offsets(self.outs)
        return [np.ascontiguousarray(raw[a:b]).view(f"u{SIZE[t]}") for a, b, t in zip(at, at[1:], self.outs)]
