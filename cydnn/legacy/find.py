"""The search for a convolution algorithm: find (timed), get (by cost), workspace size.
One ``Search`` a direction.

Spec: legacy API, 3.6, "rules common to the twelve functions".
"""
from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass

from .._core import Operands
from ..log import CHOICES, log, progress
from ..operand import Operand
from ..status import NAMES, AllocFailed, BadParam, CydnnError, InternalError, NotSupported
from .arguments import at_least, integer, is_given
from .call import Compute, usable
from .conv_algorithms import AlgorithmTable
from .enums import Enum
from .handle import HANDLE
from .trial import TrialBuffer

NO_WORKSPACE, PREFER_FASTEST, WORKSPACE_LIMIT = range(3)
MAX_ANSWERS = 4096                               # choices that a handle remembers


@dataclass(frozen=True)
class AlgoPerf:
    """One algorithm: status 0 and milliseconds and bytes of workspace, or a status and time -1.
    ``p.algo`` and ``p["algo"]`` both work.

    ``determinism`` is 1 for an algorithm that gives the same bits every run, 0 for one that may not; -1 where
    it is not known, as ``mathType``.
    """
    algo: int
    status: int
    time: float
    memory: int
    determinism: int = -1
    mathType: int = -1

    def __getitem__(self, name):
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)


class Search:
    """The algorithms of one direction, tried or estimated. ``keys`` are the descriptors in the order
    of the arguments, without algo."""

    def __init__(self, compute: Compute, table: AlgorithmTable, preference: Enum, title: str):
        self.compute, self.table, self.preference, self.title = compute, table, preference, title

    def _called(self, prefix: str, suffix: str) -> Compute:
        return self.compute.called(f"cudnn{prefix}Convolution{self.title}{suffix}")

    @staticmethod
    def _with(keys, algo) -> tuple:
        """algo takes its place before the last descriptor."""
        return (*keys[:3], algo, keys[3])

    def workspace_bytes(self, handle, keys) -> int:
        """What the compute call of these keys needs; ``keys`` include the algorithm."""
        try:
            found = handle.table.get(self.compute, keys, True)
        except (AttributeError, TypeError):
            found = None
        if found is None:
            call = self._called("Get", "WorkspaceSize")
            handle = HANDLE.resolve(call.function, "handle", handle)
            call.contents(keys)
            found = call.executable(handle, keys)
        return found.workspace_bytes

    # -- By cost ---------------------------------------------------------------------------------------------

    def choose(self, handle, keys, preference, limit) -> int:
        call = self._called("Get", "Algorithm")
        handle = HANDLE.resolve(call.function, "handle", handle)
        kinds = [pair for pair in call.keys.items() if pair[0] != "algo"]
        stamps = [kind.resolve(call.function, name, key).stamp for (name, kind), key in zip(kinds, keys)]
        preference, limit = self.preference.check(call.function, "preference", preference), integer(
            call.function, "memoryLimitInBytes", limit)
        question = (int(call), preference, limit, *stamps)
        answer = handle.answers.get(question)
        if answer is None:
            answer = self._cheapest(call, handle.device,
                                    call.contents(self._with(keys, 0)), preference, limit)
            if len(handle.answers) >= MAX_ANSWERS:
                handle.answers.clear()
            handle.answers[question] = answer
        return answer

    def _cheapest(self, call, device, contents, preference, limit) -> int:
        most = {NO_WORKSPACE: 0, PREFER_FASTEST: float("inf"), WORKSPACE_LIMIT: limit}[preference]
        offers, reasons = [], []
        for place, (number, word) in enumerate(self._in_order(contents)):
            try:
                work = call.meaning(call, *self._with_word(contents, word))
                found = call.choice(work, device.facts)
            except NotSupported as error:
                reasons.append("\n  " + error.args[0].removeprefix(call.function + ": "))
                continue
            need = 0 if work.no_workspace else found.workspace_bytes
            if need <= most:
                offers.append((found.us, place, number))
            else:
                reasons.append(f"\n  algo {word} needs {need} bytes of workspace")
        within = "" if preference == PREFER_FASTEST else f" within {most} bytes of workspace"
        call.require(offers, f"no algorithm can do this{within}:{''.join(reasons)}", NotSupported)
        return min(offers)[2]

    @staticmethod
    def _with_word(contents, word) -> list:
        return [*contents[:3], word, contents[4]]

    def _in_order(self, contents):
        """(number, word) of every algorithm: those that exist at this rank first,
        as the table prefers them."""
        rank = getattr(contents[1], "rank", 0) or contents[1].desc.rank
        first = [number for number, _ in self.table.preferred(rank)]
        return sorted(self.table.enum,
                      key=lambda pair: first.index(pair[0]) if pair[0] in first else len(first))

    # -- By time ---------------------------------------------------------------------------------------------

    def find(self, handle, keys, count) -> list[AlgoPerf]:
        call, handle, contents = self._start("", handle, keys, count)
        buffers = []
        try:
            for seed, desc in enumerate(self._operands(contents)):
                buffers.append(TrialBuffer(handle, desc.bytes))
                buffers[-1].fill(desc, seed)
            return self._measure(call, handle, keys, _Own(handle, buffers))[:count]
        finally:
            handle.device.synchronize()
            for buffer in buffers:
                buffer.free()

    def find_ex(self, handle, keys, pointers, count, workspace, workspace_bytes) -> list[AlgoPerf]:
        call, handle, contents = self._start("Ex", handle, keys, count)
        for name, pointer in zip(call.pointers, pointers):
            call.require(call.address(name, pointer), f"{name} must not be NULL")
        operands = Operands([Operand(name, desc.bytes, is_written=i == 2, desc=desc)
                             for i, (name, desc) in enumerate(zip(call.pointers, self._operands(contents)))])
        try:
            memories = tuple(operands.memories(pointers))
            size = integer(call.function, "workSpaceSizeInBytes", workspace_bytes)
            room = usable(workspace, size) if is_given(workspace) else (0, 0)
        except BadParam as error:
            raise error.within(call.function) from None
        return self._measure(call, handle, keys, _Given(memories, room))[:count]

    def _start(self, suffix, handle, keys, count):
        call = self._called("Find", "Algorithm" + suffix)
        handle = HANDLE.resolve(call.function, "handle", handle)
        contents = call.contents(self._with(keys, 0))
        at_least(call.function, 1, requestedAlgoCount=integer(call.function, "requestedAlgoCount", count))
        return call, handle, contents

    @staticmethod
    def _operands(contents) -> list:
        """The three tensors in the order of the op's operands (the pointers):
        for backward data dy comes before w."""
        first, second, _, _, last = (getattr(c, "desc", c) for c in contents)
        return [second, first, last] if hasattr(contents[0], "desc") else [first, second, last]

    def _measure(self, call, handle, keys, memory) -> list[AlgoPerf]:
        """An entry for every algorithm: successes by time, then failures, those without an engine last."""
        times, entries = {}, []
        for number, word in progress(list(self.table.enum), call.function):
            try:
                entry, level = self._time(call, handle, self._with(keys, number), memory, times), CHOICES
                said = f"{entry.time:.4f} ms, {entry.memory} bytes of workspace"
            except CydnnError as error:
                entry = AlgoPerf(number, error.status, -1.0, getattr(error, "bytes", 0))
                level = logging.WARNING if isinstance(error, InternalError) else CHOICES
                said = f"{NAMES[error.status]}: {error.args[0].splitlines()[0]}"
            log.log(level, "%s: algo %s: %s", call.function, word, said)
            entries.append(entry)
        return sorted(entries, key=lambda e: (e.status, e.time))

    @staticmethod
    def _time(call, handle, keys, memory, times) -> AlgoPerf:
        """``times``: of the choices measured so far. Algorithms that one and the same choice serves share its
        time; nothing else is shared."""
        is_aligned = handle.table.alignment(memory.pointers)
        executable = call.executable(handle, keys, is_aligned=is_aligned)
        _, choice, _ = call.chosen(handle, keys, is_aligned=is_aligned)
        need = executable.workspace_bytes
        with memory.workspace(need) as room:
            time = times.get(choice) or handle.milliseconds(
                lambda: executable.execute(memory.pointers, (1.0, 0.0), *room, handle.stream))
        times[choice] = time
        return AlgoPerf(keys[3], 0, times[choice], need, int("deterministic" in choice.notes))


class _Given:
    """The caller's buffers and workspace."""

    def __init__(self, pointers: tuple, room: tuple):
        self.pointers, self.room = pointers, room

    @contextmanager
    def workspace(self, need: int):
        if self.room[1] < need:
            raise _NoRoom(need)
        yield self.room


class _Own:
    """Buffers for a trial, and a workspace for each algorithm. After each the zones around all of them are
    looked at."""

    def __init__(self, handle, buffers):
        self.handle, self.buffers, self.pointers = handle, buffers, tuple([b.ptr for b in buffers])

    @contextmanager
    def workspace(self, need: int):
        try:
            buffer = TrialBuffer(self.handle, need)
        except AllocFailed:
            raise _NoRoom(need) from None
        try:
            yield (buffer.ptr, need) if need else (0, 0)
            stray = sum([b.stray_bytes() for b in (*self.buffers, buffer)])
            if stray:
                raise InternalError(f"{stray} bytes beside the buffers were written")
        finally:
            self.handle.device.synchronize()
            buffer.free()


class _NoRoom(CydnnError):
    """The workspace of an algorithm could not be had."""
    status, api = AllocFailed.status, AllocFailed.api

    def __init__(self, size_bytes: int):
        super().__init__(f"{size_bytes} bytes of workspace could not be had")
        self.bytes = size_bytes
