"""From a program and a mark to PTX: addresses, loads, steps, stores."""
from __future__ import annotations

from ..kernels.expressions import ceil_div
from .functions import find
from .program import Program
from .registers import MOVED, Mark, Registers, literal
from .rules import CONVERT, COORDINATE, STORAGE

LINE = 128                                       # bytes of the L2 cache


def chunks(lanes: int, vector: int, size_bytes: int) -> list[tuple[int, int]]:
    """(first lane, count) of each access to ``lanes`` neighbours: ``vector`` at once, 16 bytes at most."""
    width = min(lanes, vector, 16 // size_bytes)
    return [(i, width) for i in range(0, lanes, width)]


class Emitter:
    """Writes the block for one mark. ``fuse`` is the name of the kernel's Fuse parameter,
    ``base`` where the program's part of it begins."""

    def __init__(self, program: Program, mark: Mark, fuse: str, base: int, sm: int):
        self.program, self.mark, self.fuse, self.base, self.sm = program, mark, fuse, base, sm
        self.math, self.lanes, self.count = program.math, mark.lanes, mark.lanes * mark.rows
        self.registers, self.lines, self.values, self.places, self.sources = Registers(), [], {}, {}, {}

    def block(self) -> str:
        p = self.program
        for i in range(p.scalars):
            self._scalar(i)
        for name in p.inputs:
            if name.startswith("t"):
                self._load(name)
            elif name.startswith("@"):
                self._coordinate(name)
            elif name.startswith("h"):
                self.values[name] = [self.mark.kept(name)] * self.count
        self._entry()
        for i, step in enumerate(p.steps):
            self._step(f"n{i}", step)
        for value, name in p.kept:
            self._line_per_lane(CONVERT[self.math, self.math], [self.mark.kept(name)], self.values[value])
        if p.result:
            self._line_per_lane(CONVERT[self.math, self.mark.type], self.mark.values, self.values[p.result])
        return "\n".join(["{", *self.registers.declarations(), *self.lines, "}"])

    def ahead(self) -> str:
        """For a mark in front of the program's: 64 elements of what lies as the mark's own tensor does, and
        is read, come to the L2 cache."""
        for name in self.program.inputs:
            extra = self.program.tensors[int(name[1:])] if name.startswith("t") else None
            if extra is not None and extra.at.terms == (("off", 1),) and STORAGE[extra.dtype].bits >= 8:
                place = self._place(name)
                self.lines += [f"prefetch.global.L2 [{place}+{at}];"
                               for at in range(0, 64 * STORAGE[extra.dtype].bytes, LINE)]
        return "\n".join(["{", *self.registers.declarations(), *self.lines, "}"]) if self.lines else ""

    # ---- Parameters ----

    def _param(self, kind: str, stem: str, offset: int) -> str:
        name = self.registers.new("." + kind.replace("u", "b") if kind[0] == "u" else "." + kind, stem, "p")
        self.lines.append(f"ld.param.{kind} {name}, [{self.fuse}+{self.base + offset}];")
        return name

    def _scalar(self, i):
        name = self._param(self.math, f"s{i}", self.program.scalar_offset(i))
        self.values[f"s{i}"] = [name] * self.count

    def _once(self, key, make):
        """What ``make`` writes, written once."""
        if key not in self.sources:
            self.sources[key] = make()
        return self.sources[key]

    def _number(self, name: str) -> str:
        return self._once(name, lambda: self._param("u64", name, self.program.number_offset(int(name[1:]))))

    # ---- Coordinates ----

    def _key(self, name: str, plus: int) -> str:
        """The register of a key of the mark, and so many elements behind it."""
        register = self.mark.offsets[name]
        if not plus or name not in MOVED:
            return register
        kind, op = ("b64", "add.s64") if name == "off" else ("b32", "add.u32")
        return self._once((name, "plus"), lambda: self._op(kind, f"{name}p", op, register, plus))

    def _source(self, name: str, lane: int | None, plus: int | None = None) -> str:
        """The 32-bit register of a key of the mark, or of a digit; of one lane, where each has its own. A key
        as the mark moves it, or by ``plus``."""
        plus = self.mark.plus if plus is None else plus
        if name == "at":
            return self._once(name, lambda: self._op("b32", "at", "cvt.u32.u64", self._key("off", plus)))
        if name in self.mark.offsets:
            first = self._key(name, plus)
            if not lane:
                return first
            return self._once((name, lane), lambda: self._op("b32", f"{name}l{lane}", "add.u32", first, lane))
        return self._once((name, lane), lambda: self._digit(name, lane))

    def _op(self, kind, stem, op, *sources) -> str:
        out = self.registers.new("." + kind, stem)
        self.lines.append(f"{op} {out}, {', '.join(map(str, sources))};")
        return out

    def _digit(self, name: str, lane) -> str:
        digit = self.program.digits[int(name[1:])]
        source, stem = self._source(digit.key, lane), f"{name}l{lane or 0}"
        if digit.div:
            source = self._divided(source, digit.div, stem + "q")
        if digit.mod:
            mul, _, by = self._divisor(digit.mod)
            whole = self._divided(source, digit.mod, stem + "r")
            part = self._op("b32", stem + "m", "mul.lo.u32", whole, by)
            source = self._op("b32", stem, "sub.u32", source, part)
        return source

    def _divisor(self, name: str) -> tuple:
        at = self.program.divisor_offset(int(name[1:]))
        return self._once(name, lambda: tuple([self._param("u32", f"{name}{part}", at + 4 * i)
                                               for i, part in enumerate(("mul", "shr", "by"))]))

    def _divided(self, source: str, name: str, stem: str) -> str:
        """n / by as FastDiv does it (lib/types.cuh): umulhi(2n, mul) >> shr."""
        mul, shr, _ = self._divisor(name)
        twice = self._op("b32", stem + "t", "add.u32", source, source)
        high = self._op("b32", stem + "h", "mul.hi.u32", twice, mul)
        return self._op("b32", stem, "shr.u32", high, shr)

    def _coordinate(self, name: str):
        source, plus, unit = name[1:].rstrip("*").partition("+")
        each = [self._source(source, i if name.endswith("*") else None) for i in range(self.lanes)]
        if plus:
            each = [self._op("b32", f"{source}c{i}", "mad.lo.u32", at, unit, i) for i, at in enumerate(each)]
        self.values[name] = self._convert(COORDINATE[self.math], "c" + source, each) * self.mark.rows

    # ---- Addresses ----

    def _place(self, tensor: str, lane=None) -> str:
        """The address of a lane of a tensor (None: of the first); of a packed boolean, its index."""
        return self._once((tensor, "at", lane), lambda: self._address(tensor, lane))

    def _base(self, tensor: str) -> str:
        def make():
            pointer = self._param("u64", tensor, self.program.pointer_offset(int(tensor[1:])))
            return self._op("b64", tensor + "g", "cvta.to.global.u64", pointer)
        return self._once((tensor, "base"), make)

    def _address(self, tensor: str, lane) -> str:
        extra = self.program.tensors[int(tensor[1:])]
        bits = STORAGE[extra.dtype].bits
        size, stem = max(bits // 8, 1), f"{tensor}x{'' if lane is None else lane}_"
        address = self._base(tensor) if bits >= 8 else self._op("b64", stem + "z", "mov.b64", 0)
        for i, (source, stride) in enumerate(extra.at.terms):
            name, plus = f"{stem}{i}", 0 if bits >= 8 else self.mark.plus
            if source == "off":
                address = self._op("b64", name, "mad.lo.s64", self._key(source, plus), size, address)
            elif isinstance(stride, int):
                found = self._source(source, lane, plus)
                address = self._op("b64", name, "mad.wide.u32", found, stride * size, address)
            else:
                wide = self._op("b64", name + "w", "cvt.u64.u32", self._source(source, lane))
                address = self._op("b64", name, "mad.lo.s64", wide, self._number(stride), address)
        return address

    def _beyond(self, extra) -> int:
        """Bytes from the address of a tensor to where the mark moves it."""
        moved = [stride for key, stride in extra.at.terms if key in MOVED and isinstance(stride, int)]
        return self.mark.plus * sum(moved) * (STORAGE[extra.dtype].bits // 8)

    def _elements(self, tensor: str) -> list[tuple[str, int]]:
        """(address register, bytes or bits from it) of every lane."""
        extra = self.program.tensors[int(tensor[1:])]
        lanes, bits, more = extra.at.lanes, STORAGE[extra.dtype].bits, self._beyond(extra)
        if lanes == "each":
            return [(self._place(tensor, i), more) for i in range(self.lanes)]
        first = self._place(tensor)
        if isinstance(lanes, int):
            return [(first, more + i * lanes * max(bits // 8, 1)) for i in range(self.lanes)]
        found = [(first, more)]
        for i in range(1, self.lanes):
            at = self._op("b64", f"{tensor}n{i}", "add.s64", found[-1][0], self._number(lanes))
            found.append((at, more))
        return found

    # ---- Memory ----

    def _load(self, tensor: str):
        extra = self.program.tensors[int(tensor[1:])]
        row, at = STORAGE[extra.dtype], extra.at
        if row.bits < 8:
            found = self._convert(row.widen[self.math], tensor, self._load_bits(tensor))
            self.values[tensor] = found * self.mark.rows
            return
        count = self.lanes if at.lanes else 1
        in_words = count > 1 and at.vector > 1 and self.math in row.halves
        kind, stem = ("." + self.math, tensor) if in_words else (row.register, tensor + "r")
        where, found = self._elements(tensor)[:count], self.registers.lanes(kind, stem, count)
        for first, width in chunks(count, at.vector, row.bytes):
            address, offset = where[first]
            self._move("ld", row, f"[{address}+{offset}]", found[first:first + width], f"{tensor}w{first}",
                       in_words)
        found = found if in_words else self._convert(row.widen[self.math], tensor, found)
        self.values[tensor] = (found * self.lanes)[:self.lanes] * self.mark.rows

    def _load_bits(self, tensor: str) -> list[str]:
        """One register a lane, 0 or 1."""
        extra = self.program.tensors[int(tensor[1:])]
        if extra.at.vector == 8 and self.lanes == 8:
            at = self._op("b64", tensor + "y", "shr.u64", self._place(tensor), 3)
            at = self._op("b64", tensor + "a", "add.s64", self._base(tensor), at)
            byte = self._op("b32", tensor + "b", "ld.global.u8", f"[{at}]")
            return [self._op("b32", f"{tensor}i{i}", "bfe.u32", byte, i, 1) for i in range(8)]
        found = []
        for i, (index, more) in enumerate(self._elements(tensor)[:self.lanes if extra.at.lanes else 1]):
            at, bit, byte = self._byte_of(tensor, f"{tensor}e{i}", index, more)
            self.lines.append(f"ld.global.u8 {byte}, [{at}];")
            found.append(self._op("b32", f"{tensor}i{i}", "bfe.u32", byte, bit, 1))
        return (found * self.lanes)[:self.lanes]

    def _byte_of(self, tensor, stem, index, more=0) -> tuple:
        """(address of the byte, number of the bit in it, a register for the byte) of a packed boolean."""
        if more:
            index = self._op("b64", stem + "o", "add.s64", index, more)
        low = self._op("b32", stem + "u", "cvt.u32.u64", index)
        at = self._op("b64", stem + "s", "shr.u64", index, 3)
        at = self._op("b64", stem + "a", "add.s64", self._base(tensor), at)
        return at, self._op("b32", stem + "t", "and.b32", low, 7), self.registers.new(".b32", stem + "b")

    def _move(self, way, row, address, elements, stem, in_words=False):
        """Load or store neighbours in one access. 16-bit elements travel in pairs, single bytes in fours.
        ``in_words``: they are widened from there."""
        count = len(elements)
        if count > 1 and row.bytes < 4:
            per = 4 // row.bytes
            words = self.registers.lanes(".b32", stem, ceil_div(count, per))
            groups = [elements[i * per:(i + 1) * per] for i in range(len(words))]
        else:
            words, groups = elements, []
        kind = row.move if not groups else "b32" if count * row.bytes >= 4 else "b16"
        many = f"v{len(words)}." if len(words) > 1 else ""
        joined = f"{{{', '.join(words)}}}" if len(words) > 1 else words[0]
        if way == "ld":
            self.lines.append(f"ld.global.{many}{kind} {joined}, {address};")
            for word, group in zip(words, groups):
                self._split(row, word, group, in_words)
        else:
            for word, group in zip(words, groups):
                self._join(row, word, group)
            self.lines.append(f"st.global.{many}{kind} {address}, {joined};")

    def _split(self, row, word, group, in_words):
        if in_words:
            self.lines += [half.format(d=d, s=word) for d, half in zip(group, row.halves[self.math])]
            return
        if row.bytes == 2:
            self.lines.append(f"mov.b32 {{{group[0]}, {group[1]}}}, {word};")
            return
        kind = "s32" if row.move == "s8" else "u32"
        self.lines += [f"bfe.{kind} {byte}, {word}, {8 * i}, 8;" for i, byte in enumerate(group)]

    def _join(self, row, word, group):
        if row.bytes == 2:
            self.lines.append(f"mov.b32 {word}, {{{group[0]}, {group[1]}}};")
            return
        if len(group) == 2:
            self.lines.append(f"prmt.b32 {word}, {group[0]}, {group[1]}, 0x0040;")
            return
        low, high = (self._op("b32", f"{word[1:]}j{i}", "prmt.b32", *group[2 * i:2 * i + 2], "0x0040")
                     for i in range(2))
        self.lines.append(f"prmt.b32 {word}, {low}, {high}, 0x5410;")

    # ---- Values ----

    def _entry(self):
        """v as the first steps see it."""
        p = self.program
        is_read = any(v == "v" for v, _ in p.stores) or any("v" in s.inputs for s in p.steps)
        if not (p.entry or p.alpha or p.blend or is_read):
            return
        self.values["v"] = self._convert(CONVERT[self.mark.type, self.math], "v", self.mark.values)
        if p.alpha:
            self.values["v"] = self._multiply("va", self.values["v"], p.alpha)
        if p.blend:
            self._blend(*p.blend)
        self._round("v", p.entry)
        self._store("v")

    def _blend(self, tensor, number):
        """v += number * tensor, where the number is not 0: else the tensor is not read."""
        factor, label = self.values[number][0], f"$L__blend_{tensor}"
        zero = literal(0.0, self.math)
        self.lines += [f"setp.eq.{self.math} %blend_p, {factor}, {zero};", f"@%blend_p bra {label};"]
        self.registers.new(".pred", "blend", "p")
        known = dict(self.sources)
        self._load(tensor)
        self.sources = known                     # addresses made inside are not there when it is left out
        old = self.values.pop(tensor)
        self.lines += [f"fma.rn.{self.math} {v}, {factor}, {o}, {v};" for v, o in zip(self.values["v"], old)]
        self.lines.append(f"{label}:")

    def _step(self, name, step):
        lanes = [self.values[i] for i in step.inputs]
        for k, scale in enumerate(step.scales):
            if scale:
                lanes[k] = self._multiply(f"{name}x{k}", lanes[k], scale)
        _, function = find(step.mode, self.math, self.program.fast)
        numbers = [literal(a, self.math) for a in step.attributes]
        out = self.registers.lanes("." + self.math, name, self.count)
        for i in range(self.count):
            self.lines.append(function.paste(out[i], [lane[i] for lane in lanes] + numbers).rstrip())
        self.values[name] = self._multiply(name + "a", out, step.alpha) if step.alpha else out
        self._round(name, step.dtype)
        self._store(name)

    def _multiply(self, stem, lanes, scale):
        out = self.registers.lanes("." + self.math, stem, self.count)
        factors = self.values[scale]
        self.lines += [f"mul.rn.{self.math} {d}, {s}, {f};" for d, s, f in zip(out, lanes, factors)]
        return out

    def _convert(self, template, stem, sources, kind=None):
        out = self.registers.lanes(kind or "." + self.math.replace("i32", "b32"), stem, len(sources))
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
        if not dtype:
            return
        row, values = STORAGE[dtype], self.values[name]
        if self.sm >= 80 and self.math in row.round_80:
            self.values[name] = self._convert(row.round_80[self.math], name + "q", values)
        else:
            rounded = self._narrow(name, dtype, name + "h")
            self.values[name] = self._convert(row.widen[self.math], name + "q", rounded)

    def _store(self, name):
        for tensor in (t for value, t in self.program.stores if value == name):
            extra = self.program.tensors[int(tensor[1:])]
            row = STORAGE[extra.dtype]
            raw = self._narrow(name, extra.dtype, tensor + "o")
            if row.bits < 8:
                self._store_bits(tensor, raw)
                continue
            where = self._elements(tensor)
            for first, width in chunks(self.lanes, extra.at.vector, row.bytes):
                address, offset = where[first]
                self._move("st", row, f"[{address}+{offset}]", raw[first:first + width], f"{tensor}v{first}")

    def _store_bits(self, tensor, raw):
        """Eight lanes are a byte. A lane alone joins the byte that this thread began with its first bit."""
        if self.lanes == 8:
            at = self._op("b64", tensor + "sy", "shr.u64", self._place(tensor), 3)
            at = self._op("b64", tensor + "sa", "add.s64", self._base(tensor), at)
            byte = raw[0]
            for i in range(1, 8):
                byte = self._op("b32", f"{tensor}s{i}", "bfi.b32", raw[i], byte, i, 1)
            self.lines.append(f"st.global.u8 [{at}], {byte};")
            return
        at, bit, byte = self._byte_of(tensor, tensor + "k", self._place(tensor))
        starts = self.registers.new(".pred", tensor + "k", "p")
        begins = f"setp.eq.u32 {starts}, {bit}, 0;"
        if self.program.blend[:1] == (tensor,):  # then the byte's other bits are still to be read
            begins = f"setp.eq.and.u32 {starts}, {bit}, 0, %blend_p;"
        self.lines += [begins, f"mov.b32 {byte}, 0;", f"@!{starts} ld.global.u8 {byte}, [{at}];"]
        joined = self._op("b32", tensor + "kj", "bfi.b32", raw[0], byte, bit, 1)
        self.lines.append(f"st.global.u8 [{at}], {joined};")


def support(programs) -> list[str]:
    """Definitions that the module needs beside the pasted bodies."""
    found = {}
    for program in programs:
        for step in program.steps:
            library, function = find(step.mode, program.math, program.fast)
            found.update({name: library.definitions[name] for name in function.support})
    return list(found.values())
