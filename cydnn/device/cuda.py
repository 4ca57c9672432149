"""One CUDA device: memory, copies, streams, and plans compiled to tapes of launches of our own PTX."""
from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np

from .. import _core, fusion, kernels
from ..steps import Launch, Memset
from ..log import PTX, log, watch_launches
from ..status import BadParam, CydnnError, NotSupported
from . import assembled, guarded
from .buffer import byte, count, filled, packed, whole
from .facts import DeviceFacts, generation, known


class CudaDevice:
    """``device="cuda:N"``. Works in the primary context, so memory and streams
    of torch and CuPy are its own."""

    def __init__(self, ordinal: int = 0):
        self.context = _core.Context(ordinal)
        self.name = f"cuda:{ordinal}"
        self.facts = facts_of(self.context)
        self._functions: dict = {}          # (kernel, what is spliced) -> _core.Function
        self._kept: set = set()             # those whose machine code is in the user's folder
        kernels.names()                     # reads the manifest now rather than while the first plan is built
        self.guards = guarded.asked()
        _core.wait_for_every_step("sync" in self.guards)
        watch_launches()

    def __repr__(self):
        return f"CudaDevice({self.name}: {self.facts.name}, sm_{self.facts.sm})"

    def __reduce__(self):
        raise TypeError(f"pickle: a device belongs to its process; got {self!r}: name it where it is needed, "
                        f"cydnn.device.get({self.name!r})")

    # ---- Memory and time ----

    def alloc(self, size_bytes: int) -> _core.Buffer:
        """Device memory, freed with the object. Raises AllocFailed."""
        buffer = _core.Buffer(self.context, whole(size_bytes))
        if "init" in self.guards:
            self.memset(buffer, guarded.FILL, buffer.bytes)
        return buffer

    def copy_in(self, ptr, array, stream=0):
        """Copy a NumPy array, packed in C order, to ``ptr``."""
        self.context.copy_in(ptr, packed(array), stream)

    def copy_out(self, ptr, array, stream=0) -> np.ndarray:
        """Fill a C-contiguous NumPy array from ``ptr``; returns it."""
        self.context.copy_out(filled(array), ptr, stream)
        return array

    def memset(self, ptr, value: int, size_bytes: int, stream=0):
        self.context.memset(ptr, byte(value), count(size_bytes), stream)

    def synchronize(self, stream=None):
        """Wait for a stream, or for everything when none is given."""
        self.context.synchronize(stream)

    def create_stream(self) -> _core.Stream:
        return _core.Stream(self.context)

    def create_event(self) -> _core.Event:
        return _core.Event(self.context)

    def elapsed(self, call, repeat: int = 20, stream=0) -> float:
        """Median device time of ``call()`` on ``stream`` in microseconds, after
        one call that is not timed."""
        call()
        marks = [(self.create_event(), self.create_event()) for _ in range(repeat)]
        for start, end in marks:
            start.record(stream)
            call()
            end.record(stream)
        self.synchronize(stream)
        return statistics.median(end.elapsed(start) for start, end in marks) * 1e3

    # ---- Plans ----

    def compile(self, plan) -> _core.Tape | guarded.Guarded:
        """The tape of a plan: images chosen and loaded, parameters packed, pointers and scalars
        left to be patched at execute. Between guards, if CYDNN_DEBUG asks for them."""
        together = [*plan.inplace, *((*pair, skip) for pair, skip in plan.inside.items())]
        tape = _core.Tape(
            self.context, plan.operands, [default for _, default in plan.scalars], plan.workspace_bytes,
            together, periods=plan.periods, problem=plan.text)
        for step in plan.steps:
            if type(step) not in STEPS:
                raise NotSupported(
                    f"{self.name}: a step must be one of {', '.join(t.__name__ for t in STEPS)}; "
                    f"got {type(step).__name__}")
            STEPS[type(step)](self, tape, step)
        return guarded.Guarded(tape, self, self.guards) if self.guards - {"sync"} else tape

    def function(self, name: str, fuse=None, ways=()) -> _core.Function:
        """The kernel ``name``, with ``fuse`` spliced into its marks for these ``ways`` of going,
        loaded on this device. Each is loaded once."""
        kernel = kernels.get(name)
        key = kernel, fusion.programs_of(fuse or {}), ways
        found, is_to_keep = self._functions.get(key), assembled.keeps() and key not in self._kept
        if found is None or is_to_keep:
            found = self._functions[key] = self._ready(kernel, fuse, ways, found, is_to_keep)
            self._kept |= {key} if is_to_keep else set()
        return found

    def _ready(self, kernel, fuse, ways, found, is_to_keep) -> _core.Function:
        """``found``, or the kernel loaded: from machine code that was assembled before, else from its
        text."""
        image, sm, name, tried = kernel.image_for(self.facts.sm), self.facts.sm, kernel.name, None
        made_of = assembled.recipe(image, fusion.programs_of(fuse), ways) if fuse else None
        code = assembled.find_made(made_of, sm) if fuse else assembled.find_hash(image.sha256, sm)
        if code is not None and not (fuse and log.isEnabledFor(PTX)):
            found, tried = found or self._of_code(code, name), code
        if found is not None and (tried is not None or not is_to_keep):
            return found
        text = image.text()
        if fuse:
            text = fusion.splice(text, kernel, fuse, ways)
            log.log(PTX, "%s: spliced\n%s", name, LazyText(text))
        code = code or assembled.find(text, sm)
        if is_to_keep:
            code = self._keep(text, name, code, made_of)
        if found is None and code not in (None, tried):
            found = self._of_code(code, name)
        return found or self.context.load(text, name)

    def _keep(self, text: bytes, name: str, code: bytes | None, made_of: str | None) -> bytes | None:
        """Have the driver assemble a text, and keep that for other processes; without it they are slower."""
        try:
            code = code or _core.assemble(self.context, text)
            assembled.keep(text, self.facts.sm, code, made_of)
        except (CydnnError, OSError, RuntimeError) as error:
            log.log(PTX, "%s: no assembled code is kept: %s", name, error)
        return code

    def _of_code(self, code: bytes, name: str) -> _core.Function | None:
        """A kernel from machine code; None where the driver does not take it, as older ones do not."""
        try:
            return self.context.load(code, name)
        except CydnnError as error:
            log.log(PTX, "%s: the assembled code is of no use: %s", name, error)

    def preload(self, names=None) -> int:
        """Load all kernels (or ``names``) now instead of on first use; returns how many."""
        chosen = kernels.names() if names is None else list(names)
        for name in chosen:
            self.function(name)
        return len(chosen)

    def _launch(self, tape, step: Launch):
        packed = pack(step)
        data = bytearray(packed.data)
        for offset, map_ in packed.maps:
            encoded = self.context.tensor_map(*kernels.encoding(map_))
            data[offset:offset + len(encoded)] = encoded
        function = self.function(step.kernel, step.fuse, fusion.ways_of(step))
        tape.launch(function, packed.grid, packed.block, packed.smem,
                    bytes(data), [(offset, p.uid, p.addend) for offset, p in packed.pointers],
                    [(offset, kind, s.key) for offset, kind, s in packed.scalars],
                    [(offset, m.pointer.uid, m.pointer.addend) for offset, m in packed.maps],
                    kernels.get(step.kernel).offsets if packed.maps or packed.attributes.cooperative else (),
                    **packed.attributes.on(self.facts.sm)._asdict())

    def _memset(self, tape, step: Memset):
        tape.memset(step.pointer.uid, step.pointer.addend, step.bytes, step.value)


class LazyText:
    """Bytes that become text only when a log line is written."""

    def __init__(self, data: bytes):
        self.data = data

    def __str__(self):
        return self.data.decode()


STEPS = {Launch: CudaDevice._launch, Memset: CudaDevice._memset}


def pack(step: Launch) -> kernels.Packed:
    """The block that the kernel's contract packs, and behind it, where its parameter Fuse begins, what the
    programs that are spliced in need."""
    kernel = kernels.get(step.kernel)
    packed = kernel.pack(step.args, **step.extra)
    if not step.fuse:
        return packed
    data, pointers, scalars = bytearray(packed.data), list(packed.pointers), list(packed.scalars)
    at = fusion.bases(step.fuse)
    data += bytes(max(kernel.fuse_offset + at[""] - len(data), 0))
    for mark, fused in step.fuse.items():
        fused.put(data, kernel.fuse_offset + at[mark], pointers, scalars)
    return packed._replace(data=bytes(data), pointers=pointers, scalars=scalars)


def facts_of(context: _core.Context) -> DeviceFacts:
    """The row of a product that is known, so that plans made without the card are those made with it; of
    another, what the driver says (two transfers a memory clock over the bus). The driver has the last
    word on the SMs that are there."""
    ask, name = context.attribute, context.name
    sm, driver, sms = 10 * ask(75) + ask(76), _core.driver_version(), ask(16)
    sheet = known(name)
    if sheet is not None:
        return replace(sheet, sms=sms, driver=driver)
    bandwidth = 2 * ask(36) * ask(37) / 8e6                  # memory clock (kHz), bus width (bits)
    return DeviceFacts(
        kind="cuda", name=name, sm=sm, sms=sms, l2_bytes=ask(38), bandwidth_gbs=bandwidth or 500.0,
        clock_mhz=ask(13) // 1000, driver=driver, **{**generation(sm), "smem_bytes": ask(97)})
