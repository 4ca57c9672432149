"""``device="ptx:sm_80"``: the shipped kernels, and whatever the splicer makes of them, interpreted
and checked where there is no GPU.

Runs the launch tape that the CUDA device runs: the same images, parameter blocks, grids and workspaces.
Raises Finding on a fault.
"""
from __future__ import annotations

import re
import struct
from functools import partial

import numpy as np

from ... import _core, fusion, kernels
from ...kernels import kinds, tensor_map
from ...steps import Launch, Memset
from ...given import shown
from ...locks import rlock
from ...status import BadParam, NotSupported
from ..cuda import pack
from ..buffer import HOST, byte, count, filled, packed
from ..facts import DeviceFacts, of_target
from ..numpy import NumpyExecutable
from . import decoded, parse, targets
from .arena import Allocation, Arena, CallTensor
from .bulk import DecodedMap
from .check import Checks, Finding
from .code import Code
from .guests import guests
from .machine import Machine
from .memory import GLOBAL, WRITTEN

MOST_BLOCKS, MOST_WARPS = 16, 32                 # that an SM of any generation holds at once
OF_SYSTEM = 1024                                 # bytes of shared memory that the system takes of each block
MOST_GROUPS = 1 << 20                            # that the code of an access can tell apart


class PtxDevice:
    """``checks``: which faults are looked for. ``seed``: None for the fixed order of warps, a number
    for a random one. ``blocks``: None to run whole grids, or a function of how many blocks (clusters, where
    a kernel has some) a grid has that names those to run."""
    context = None

    def __init__(self, target: str = "sm_80", facts: DeviceFacts | None = None):
        found = re.fullmatch(r"sm_([0-9]{2,4})[af]?", target) if isinstance(target, str) else None
        if not found or int(found[1]) < 75:
            raise BadParam(f'device: "ptx:<target>" must name a target from sm_75 on; got {shown(target)}')
        digits = found[1]
        self.name, self.target, sm = f"ptx:{target}", target, int(digits)
        self.facts = facts or of_target(sm, self.name)
        self.arena, self.checks, self.seed, self.blocks = Arena(), Checks(), None, None
        self.codes: dict[str, Code] = {}         # by image text
        self._spliced: dict = {}                 # (kernel, replaced text, what is spliced) -> text
        self.replaced: dict[str, str] = {}       # kernel name -> PTX to run instead of the shipped image
        self._kept: list[Allocation] = []        # variables of modules
        self._meeting: Allocation | None = None
        self._met = 0
        self.lock = rlock()            # one call at a time: there is one set of registers
        self._groups = 1

    def __repr__(self):
        return f"PtxDevice({self.name})"

    def __reduce__(self):
        raise TypeError(f"pickle: a device belongs to its process; got {self!r}: name it where it is needed, "
                        f"cydnn.device.get({self.name!r})")

    # ---- Memory ----

    def alloc(self, size_bytes: int) -> Allocation:
        """Memory with dead zones on both sides, freed with the object."""
        with self.lock:
            return self.arena.alloc(size_bytes)

    def copy_in(self, ptr, array: np.ndarray, stream=0):
        with self.lock:
            self.arena.write_host(_core.pointer_of(ptr), packed(array))

    def copy_out(self, ptr, array: np.ndarray, stream=0) -> np.ndarray:
        with self.lock:
            values = filled(array)
            values[:] = self.arena.read_host(_core.pointer_of(ptr), values.size)
        return array

    def memset(self, ptr, value: int, size_bytes: int, stream=0):
        with self.lock:
            self.arena.write_host(_core.pointer_of(ptr),
                                  np.broadcast_to(np.uint8(byte(value)), count(size_bytes)), "memset")

    def forget_contents(self, ptr, size_bytes: int):
        """Count these bytes as never written, so that reading them is a finding."""
        with self.lock:
            self.arena.state[self.arena.span(_core.pointer_of(ptr), size_bytes,
                                             "forget_contents")] &= ~np.uint8(WRITTEN)

    def synchronize(self, stream=0):
        """Nothing to wait for: a call runs at once."""

    def create_stream(self) -> int:
        return 0

    # ---- Kernels ----

    def compile(self, plan) -> "PtxExecutable":
        with self.lock:
            return PtxExecutable(self, plan)

    def code(self, name: str, fuse=None, ways=()) -> Code:
        """The decoded kernel ``name``, with ``fuse`` spliced in for these ``ways`` of going. Decoded once."""
        with self.lock:
            return self._code(name, fuse, ways)

    def _code(self, name, fuse, ways):
        kernel = kernels.get(name)
        text = self.replaced.get(name)
        text = kernel.image_for(self.facts.sm).text() if text is None else text
        if fuse:
            key = name, self.replaced.get(name), fusion.programs_of(fuse), ways
            if key not in self._spliced:
                self._spliced[key] = fusion.splice(text, kernel, fuse, ways)
            text = self._spliced[key]
        text = text.decode() if isinstance(text, bytes) else text
        if text not in self.codes:
            code = decoded.fresh(text, name) if name in self.replaced else decoded.code(text, name)
            if not targets.runs(self.facts.sm, code.module.target):
                raise NotSupported(f"{name}: .target must be one that {self.name} runs; got "
                                   f"{code.module.target}")
            self.codes[text] = code.on({n: self._variable(*v) for n, v in code.module.variables.items()
                                        if v[0] != "shared"})
        return self.codes[text]

    def _variable(self, space, align, size, type_, values) -> int:
        place, unit = self.alloc(size), parse.BYTES[type_]
        data = (b"".join((v & (1 << 8 * unit) - 1).to_bytes(unit, "little") for v in values)
                + bytes(size - unit * len(values)))
        self.copy_in(place.ptr, np.frombuffer(data, np.uint8))
        self._kept.append(place)
        return place.ptr

    def launch(self, code: Code, grid, block, smem: int, data: bytes, written=None,
               registers: int = 0, tensor_maps=None, attributes=kernels.Attributes()):
        """Run one kernel now. ``written``: pointers whose allocations it may write (None: every pointer-like
        word of ``data``). ``tensor_maps``: {offset of the parameter, or address: TensorMap}."""
        with self.lock:
            self.arena.settle()
            self._launch(code, grid, block, smem, data, written, registers, tensor_maps, attributes)

    def _launch(self, code, grid, block, smem, data, written, registers, tensor_maps, attributes):
        cluster = self._cluster(code.program, attributes.cluster)
        self._refuse(code.program, grid, block, smem, registers, cluster)
        if attributes.cooperative:
            self._refuse_waiting(code.program, grid, block, smem, registers)
        words = (written if written is not None
                 else struct.unpack(f"<{len(data) // 8}Q", data[:len(data) // 8 * 8]))
        self.arena.tracked = {self.arena.owner(word - GLOBAL) for word in words if word >= GLOBAL} - {None}
        count = grid[0] * grid[1] * grid[2] // int(np.prod(cluster))
        chosen = np.arange(count) if self.blocks is None else np.unique(self.blocks(count))
        if self._groups + len(chosen) >= MOST_GROUPS:        # the numbers of groups start anew
            self.arena.forget_accesses()
            self._groups = 1
        first, self._groups = self._groups, self._groups + len(chosen) + 2
        counter = self._counter() if attributes.cooperative else 0
        Machine(code, self.arena, grid, block, smem, data, self.checks, first, chosen, self.seed, cluster,
                tensor_maps, attributes.cooperative, attributes.dependent, counter, registers).run()
        if attributes.cooperative:
            self._met = self._whole(code.program.name, counter)

    def _cluster(self, program, asked) -> tuple:
        """The cluster that is compiled in, or the one asked for."""
        compiled = program.limits.get("reqnctapercluster", ())
        found = tuple(compiled or asked or ()) + (1, 1, 1)
        if compiled and asked and found[:3] != tuple(asked):
            raise NotSupported(f"{program.name}: cluster must be the one that is compiled in, {found[:3]}; "
                               f"got {tuple(asked)}")
        return found[:3]

    def _counter(self) -> int:
        """What the driver gives cooperative launches: two words, zero at first, then as the last one left
        them (kernels_src/lib/grid.cuh)."""
        self._meeting = self._meeting or self.alloc(8)
        self.copy_in(self._meeting.ptr, np.array([0, self._met], np.uint32))
        return self._meeting.ptr

    def _whole(self, name, counter) -> int:
        """The counter behind a launch, of which only the top bit may be another than before."""
        now = int(self.copy_out(counter, np.empty(2, np.uint32))[1])
        if self.checks.barriers and self.blocks is None and now << 1 & 0xFFFFFFFF:
            raise Finding("counter", f"{name}: counter: leaves {now & 0x7FFFFFFF} in the word in which the "
                          "blocks of cooperative launches count each other; the next one would wait for them",
                          kernel=name)
        return now

    def _refuse_waiting(self, program, grid, block, smem, registers):
        """Blocks that wait for each other must all be resident: cuLaunchKernelEx, cooperative."""
        facts, warps = self.facts, -(-block[0] * block[1] * block[2] // 32)
        shared, used = program.bytes["shared"] + smem, -(-registers // 8) * 8 * warps * 32
        each = min((facts.smem_bytes + OF_SYSTEM) // (shared + OF_SYSTEM), MOST_BLOCKS, MOST_WARPS // warps,
                   facts.registers // max(used, 1))
        if (count := int(np.prod(grid))) > each * facts.sms:
            raise NotSupported(f"{program.name}: a cooperative launch must have at most the "
                               f"{each * facts.sms} blocks that {facts.sms} SMs hold at once; got {count}")

    def _refuse(self, program, grid, block, smem, registers, cluster):
        """What cuLaunchKernel would not take."""
        threads, limits = block[0] * block[1] * block[2], program.limits
        most = min(int(np.prod(limits.get("maxntid") or limits.get("reqntid") or (1024,))), 1024)
        held = -(-registers // 8) * 8 * -(-threads // 32) * 32              # whole warps, eight at a time
        for value, high, what in (
                (threads, most, "threads of a block"), (block[2], 64, "threads along z"),
                (program.bytes["shared"] + smem, self.facts.smem_bytes, "bytes of shared memory"),
                (held, self.facts.registers, "registers of a block"),
                (grid[0], 2**31 - 1, "blocks along x"), (max(grid[1:]), 65535, "blocks along y and z")):
            if value > high:
                raise NotSupported(
                    f"{program.name}: {what} must be at most {high} on {self.target}; got {value}")
        if any(g % n for g, n in zip(grid, cluster)):
            raise NotSupported(
                f"{program.name}: the grid must be a multiple of the cluster {cluster}; got {grid}")


class PtxExecutable(NumpyExecutable):
    """A plan on the interpreter; ``execute`` has the arguments, checks and refusals of a CUDA tape. A kernel
    is spliced and decoded when it first runs."""

    def __init__(self, device: PtxDevice, plan):
        super().__init__(plan)
        self.device = device
        self.launches = [step if isinstance(step, Memset) else self._prepare(step) for step in plan.steps]
        for each in self.launches:
            for _, kind, scalar in () if isinstance(each, Memset) else each[1].scalars:
                patch = kinds.PATCHES[kind]
                if patch.low is not None:
                    self.numbers.narrow(scalar.key, patch.low, patch.high)

    def _prepare(self, step):
        if not isinstance(step, Launch):
            raise NotSupported(
                f"{self.device.name}: a step must be one of Launch, Memset; got {type(step).__name__}")
        kernel = kernels.get(step.kernel)
        addresses = [(row, kinds.find(row["type"]).address) for row in kernel.row["params"]]
        constant = {row["offset"] + at for row, at in addresses if at is not None
                    and (row["type"].startswith("const ") or not row["type"].endswith("*"))}
        code = partial(self.device.code, step.kernel, step.fuse, fusion.ways_of(step))
        return code, pack(step), constant, kernel.image_for(self.device.facts.sm).registers

    def execute(self, pointers, scalars=None, workspace=0, workspace_bytes=0, stream=0):
        values = self.numbers.given(scalars)
        with self.device.lock:
            memories, space = self._given(pointers, workspace, workspace_bytes)
            addresses, base = [m.address for m in memories], space.address
            for each in self.launches:
                self._check_maps(() if isinstance(each, Memset) else each[1].maps, addresses, base)
            sizes = [m.bytes if row.is_ragged else row.bytes for row, m in zip(self.operands.rows, memories)]
            arrays = [(m.address, size, row.is_written)
                      for row, m, size in zip(self.operands.rows, memories, sizes)
                      if m.address and size and self._is_guest(m)]
            lent = (base, self.workspace_bytes) if self.workspace_bytes and self._is_guest(space) else None
            with guests(self.device.arena, arrays, lent) as there:
                self._run([there(address) for address in addresses], values, there(base))

    def _run(self, addresses, values, base):
        self.device.arena.operands = self._named(addresses, base)
        try:
            for each in self.launches:
                if isinstance(each, Memset):
                    self.device.memset(self._at(each.pointer, addresses, base), each.value, each.bytes)
                else:
                    self._launch(*each, addresses, values, base)
        finally:
            self.device.arena.operands = []

    def _named(self, addresses, base) -> list:
        """What findings call the memory of this call."""
        found = [CallTensor(desc.name, address - GLOBAL, row.bytes, desc)
                 for desc, row, address in zip(self.plan.slots, self.operands.rows, addresses) if address]
        return found + [CallTensor("workspace", base - GLOBAL, self.plan.workspace_bytes)] * bool(base)

    @staticmethod
    def _is_guest(memory) -> bool:
        """Its bytes are copied to the interpreter and back."""
        return memory.place == HOST

    def _alignment(self, i: int) -> int:
        return self.operands.rows[i].alignment

    def _reach(self, name: str, memory, size_bytes: int):
        device = self.device
        if self._is_guest(memory):
            return
        if memory.place not in (None, device.arena):
            raise BadParam(f"{name}: must be an array of the host or memory of {device.name}; got memory of "
                           f"{memory.place}")
        try:
            device.arena.span(memory.address, size_bytes, name)
        except BadParam:
            raise BadParam(f"{name}: must be an array of the host, or {size_bytes} bytes of one buffer of "
                           f"{device.name}; got {memory.address:#x}, where they are not") from None

    @staticmethod
    def _at(pointer, addresses, base) -> int:
        return (base if pointer.uid == -1 else addresses[pointer.uid]) + pointer.addend

    def _check_maps(self, maps, addresses, base):
        for _, map_ in maps:
            slot = map_.pointer.uid
            address = base if slot == -1 else addresses[slot]
            if address % tensor_map.ALIGNMENT:
                name = "workspace" if slot == -1 else self.plan.slots[slot].label
                raise BadParam(f"{name}: must be aligned to {tensor_map.ALIGNMENT} bytes; got {address:#x}")

    def _map(self, map_, addresses, base) -> DecodedMap:
        """A tensor map as the interpreter's copies read it."""
        return DecodedMap(self._at(map_.pointer, addresses, base), tensor_map.element_bytes(map_), map_.dims,
                         map_.strides, map_.box, map_.swizzle, map_.steps, map_.corners,
                         fill=0xFF if map_.fill_nan else 0)

    def _launch(self, code, packed, constant, registers, addresses, values, base):
        data = bytearray(packed.data)
        at = {offset: self._at(p, addresses, base) for offset, p in packed.pointers}
        for offset, address in at.items():
            struct.pack_into("<Q", data, offset, address)
        for offset, kind, scalar in packed.scalars:
            data[offset:offset + kinds.PATCHES[kind].bytes] = kinds.number(kind, values[scalar.key])
        maps = {offset: self._map(map_, addresses, base) for offset, map_ in packed.maps}
        written = {address for offset, address in at.items() if offset not in constant}
        written |= {map_.ptr for map_ in maps.values()}
        self.device.launch(code(), packed.grid, packed.block, packed.smem, bytes(data), written, registers,
                           maps, packed.attributes.on(self.device.facts.sm))
