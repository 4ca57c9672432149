"""From a program and a mark to PTX: addresses, loads, steps, stores."""
from __future__ import annotations

from .functions import find
from .program import Program
from .registers import Mark, Registers, literal
from .rules import CONVERT, COORDINATE, STORAGE


def chunks(lanes: int, vector: int, size_bytes: int) -> list[tuple[int, int]]:
    """(first lane, count) of each access to ``lanes`` neighbours: ``vector`` at once, 16 bytes at most; single bytes alone."""
    width = 1 if size_bytes == 1 else min(lanes, vector, 16 // size_bytes)
    return [(i, width) for i in range(0, lanes, width)]


class Emitter:
    """Writes the block for one mark. ``fuse`` is the name of the kernel's Fuse parameter, ``mark_type`` the type of v."""

    def __init__(self, program: Program, mark: Mark, mark_type: str, fuse: str, sm: int):
        self.program, self.mark, self.mark_type, self.fuse, self.sm = program, mark, mark_type, fuse, sm
        self.math, self.lanes = program.math, len(mark.values)
        self.registers, self.lines, self.values, self.addresses = Registers(), [], {}, {}

    def block(self) -> str:
        p = self.program
        for i in range(p.scalars):
            self._scalar(i)
        for name in dict.fromkeys(i for step in p.steps for i in step.inputs):
            if name.startswith("t"):
                self._load(name)
            elif name.startswith("@"):
                self.values[name] = self._convert(COORDINATE[self.math], "c" + name[1:], [self.mark.offsets[name[1:]]] * self.lanes)
        self._entry()
        for i, step in enumerate(p.steps):
            self._step(f"n{i}", step)
        self._line_per_lane(CONVERT[self.math, self.mark_type], self.mark.values, self.values[f"n{len(p.steps) - 1}"])
        return "\n".join(["{", *self.registers.declarations(), *self.lines, "}"])

    # ---- Inputs ----

    def _scalar(self, i):
        name = self.registers.new("." + self.math, "s", i)
        self.lines.append(f"ld.param.{self.math} {name}, [{self.fuse}+{self.program.scalar_offset(i)}];")
        self.values[f"s{i}"] = [name] * self.lanes

    def _address(self, name) -> str:
        """The register with the address of lane 0 of a tensor."""
        if name in self.addresses:
            return self.addresses[name]
        i = int(name[1:])
        extra = self.program.tensors[i]
        address = self.registers.new(".b64", name, "at")
        self.lines += [f"ld.param.u64 {address}, [{self.fuse}+{self.program.pointer_offset(i)}];", f"cvta.to.global.u64 {address}, {address};"]
        if extra.at.key:
            size, offset = STORAGE[extra.dtype].bytes, self.mark.offsets[extra.at.key]
            wide = "mad.wide.s32" if extra.at.key == "col" else "mad.lo.s64"
            self.lines.append(f"{wide} {address}, {offset}, {size}, {address};")
        self.addresses[name] = address
        return address

    def _load(self, name):
        extra = self.program.tensors[int(name[1:])]
        row, address = STORAGE[extra.dtype], self._address(name)
        count = self.lanes if extra.at.step else 1
        raw = self.registers.lanes(row.register, name + "r", count)
        for first, width in chunks(count, extra.at.vector, row.bytes):
            self._move("ld", row, f"[{address}+{first * row.bytes}]", raw[first:first + width], f"{name}w{first}")
        self.values[name] = (self._convert(row.widen[self.math], name, raw) * self.lanes)[:self.lanes]

    def _move(self, way, row, address, elements, stem):
        """Load or store neighbours in one access. 16-bit elements travel in pairs."""
        if len(elements) == 1:
            words = f"{way}.global.{row.move}", elements[0]
        elif row.bytes == 2:
            pairs = self.registers.lanes(".b32", stem, len(elements) // 2)
            halves = [f"{{{elements[2 * i]}, {elements[2 * i + 1]}}}" for i in range(len(pairs))]
            words = f"{way}.global.{f'v{len(pairs)}.' if len(pairs) > 1 else ''}b32", f"{{{', '.join(pairs)}}}" if len(pairs) > 1 else pairs[0]
        else:
            words = f"{way}.global.v{len(elements)}.{row.move}", f"{{{', '.join(elements)}}}"
        is_paired = row.bytes == 2 and len(elements) > 1
        if way == "ld":
            self.lines.append(f"{words[0]} {words[1]}, {address};")
            self.lines += [f"mov.b32 {half}, {pair};" for half, pair in zip(halves, pairs)] if is_paired else []
        else:
            self.lines += [f"mov.b32 {pair}, {half};" for half, pair in zip(halves, pairs)] if is_paired else []
            self.lines.append(f"{words[0]} {address}, {words[1]};")

    # ---- Values ----

    def _entry(self):
        """v as the first steps see it."""
        p = self.program
        if p.dtype or p.store or any("v" in step.inputs for step in p.steps):
            self.values["v"] = self._convert(CONVERT[self.mark_type, self.math], "v", self.mark.values)
            self._round("v", p.dtype)
            self._store("v", p.store)

    def _step(self, name, step):
        lanes = [self.values[i] for i in step.inputs]
        for k, scale in enumerate(step.scales):
            if scale:
                lanes[k] = self._multiply(f"{name}x{k}", lanes[k], scale)
        library, function = find(step.mode, self.math, self.program.fast)
        numbers = [literal(a, self.math) for a in step.attributes]
        out = self.registers.lanes("." + self.math, name, self.lanes)
        for i in range(self.lanes):
            self.lines.append(function.paste(out[i], [lane[i] for lane in lanes] + numbers).rstrip())
        self.values[name] = self._multiply(name + "a", out, step.alpha) if step.alpha else out
        self._round(name, step.dtype)
        self._store(name, step.store)

    def _multiply(self, stem, lanes, scale):
        out = self.registers.lanes("." + self.math, stem, self.lanes)
        self.lines += [f"mul.rn.{self.math} {d}, {s}, {self.values[scale][0]};" for d, s in zip(out, lanes)]
        return out

    def _convert(self, template, stem, sources, kind=None):
        out = self.registers.lanes(kind or "." + self.math, stem, len(sources))
        self._line_per_lane(template, out, sources)
        return out

    def _line_per_lane(self, template, out, sources):
        scope = "{{ {} }}" if ".reg" in template else "{}"
        self.lines += [scope.format(template.format(d=d, s=s)) for d, s in zip(out, sources)]

    def _narrow(self, name, dtype, stem):
        row = STORAGE[dtype]
        return self._convert(row.narrowing(self.math, self.sm), stem, self.values[name], row.register)

    def _round(self, name, dtype):
        """Through the type and back."""
        if dtype:
            self.values[name] = self._convert(STORAGE[dtype].widen[self.math], name + "q", self._narrow(name, dtype, name + "h"))

    def _store(self, name, tensor):
        if tensor:
            extra = self.program.tensors[int(tensor[1:])]
            row, address = STORAGE[extra.dtype], self._address(tensor)
            raw = self._narrow(name, extra.dtype, tensor + "r")
            for first, width in chunks(self.lanes, extra.at.vector, row.bytes):
                self._move("st", row, f"[{address}+{first * row.bytes}]", raw[first:first + width], f"{tensor}w{first}")


def support(program: Program) -> list[str]:
    """Definitions that the module needs beside the pasted bodies."""
    found = {}
    for step in program.steps:
        library, function = find(step.mode, program.math, program.fast)
        found.update({name: library.definitions[name] for name in function.support})
    return list(found.values())
