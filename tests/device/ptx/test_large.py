"""Tensors of more than 2^31 and 2^32 elements: the first, the last and some random blocks of engines
that take them with one kernel, on sparse memory.

Whatever part of an input a block reads is filled when it is read; what the blocks wrote is compared
with the reference of those slices alone.
"""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import plan
from cydnn.bench import graph_of
from cydnn.device.ptx import PtxDevice
from cydnn.device.ptx.arena import Arena
from cydnn.device.ptx.memory import GLOBAL, WRITTEN
from cydnn.engines.conv.dgrad_few import ConvDgradFew
from cydnn.engines.conv.fprop_first import ConvFpropFirst
from cydnn.engines.matmul.blocks import TileProgram
from cydnn.heuristics import Wish
from cydnn.ops.problem import Problem
from support import alone
from support.compare import compare, tolerance

import snippet

STAYING = TileProgram, ConvFpropFirst, ConvDgradFew            # blocks that take one part after the other
LINES = (       # a problem of n slices; a block of batch norm takes a hundredth of a tensor, too much here
    "pooling_fwd n{n}c8h8w8 window=2 stride=2 mode=max f16",
    "pooling_fwd n{n}c8h9w9 window=3 stride=2 mode=avg_include_padding f16 nhwc",
    "pooling_fwd n{n}c8h8w8 window=8 mode=avg_include_padding bf16",
    "pooling_bwd n{n}c8h8w8 window=2 stride=2 mode=max f16 nhwc",
    "conv_fprop n{n}c8h8w8 k8r3s3 pad1 f16 nhwc",
    "conv_fprop n{n}c8h8w8 k8r3s3 pad1 f32",
    "conv_fprop n{n}c8h8w8 k8r3s3 pad1 groups=8 f16 nhwc",
    "conv_dgrad n{n}c8h8w8 k8r3s3 pad1 f16 nhwc",
    "conv_dgrad n{n}c8h8w8 k8r3s3 pad1 f32",
    "conv_dgrad n{n}c8h8w8 k8r3s3 pad1 groups=8 f16 nhwc",
    "softmax_fwd {n}x64 f16",
    "softmax_fwd {n}x8192 f16",
    "softmax_fwd n{n}c16h3w5 f16",
    "softmax_bwd {n}x64 f16",
    "softmax_bwd {n}x8192 f16",
    "softmax_bwd n{n}c16h3w5 f16",
    "matmul {n}x8x64 {n}x64x8 f16",
    "matmul {n}x8x64 {n}x64x8 f32",
    "pointwise x={n}x512:f16 b={n}x512:f16 y={n}x512:f16 mode=add",
    "pointwise x={n}x512:f16@600,1 y={n}x512:f16 mode=exp",
    "transform x={n}x8x8x8:f16 y={n}x8x8x8:f16@nhwc",
    "reduction x={n}x512:f16 y={n}x1:f16 mode=add acc=f32",
)


class SparseArena(Arena):
    """Global memory whose ``inputs`` are filled slice by slice as they are read. ``inputs``: (first, end,
    operand, slices that are filled)."""

    def __init__(self):
        super().__init__(1 << 36)
        self.inputs, self.written, self.rng = [], [], np.random.default_rng(0)

    def reach(self, c, address, width, verb, lanes, need=0):
        if verb == "reads":
            for start, end, desc, filled in self.inputs:
                offsets = address[(address >= start) & (address < end)] - start
                self.fill(start, desc, filled,
                          set((offsets // (desc.strides[0] * desc.dtype.bytes)).tolist()))
        elif verb == "writes":
            self.written.append(address.copy())
        return super().reach(c, address, width, verb, lanes, need)

    def fill(self, start, desc, filled, slices):
        for i in slices - filled:
            raw = np.ascontiguousarray(
                desc.dtype.encode(self.rng.uniform(-1, 1, desc.dims[1:]))).view(np.uint8).ravel()
            at = start - GLOBAL + i * desc.strides[0] * desc.dtype.bytes
            self.data[at:at + raw.size], self.state[at:at + raw.size] = raw, WRITTEN
        filled |= slices

    def slices(self, start, desc, numbers, of=None):
        """Some slices of a tensor as float64 (or the state of their first bytes)."""
        flat = (self.data if of is None else of)[start - GLOBAL:start - GLOBAL
                                                 + desc.bytes].view(desc.dtype.numpy)
        whole = np.lib.stride_tricks.as_strided(flat, desc.dims, [s * desc.dtype.bytes for s in desc.strides])
        return np.stack([whole[i] for i in numbers])


def some(count):
    """The first, the last and three random ones."""
    return [0, 1, count - 2, count - 1, *np.random.default_rng(count).integers(0, count, 3)]


def problem_of(line: str, least: int):
    """The problem with just more elements than that in its largest operand."""
    one = Problem.parse(line.format(n=1))
    return Problem.parse(
        line.format(n=least // max(d.count for d in one.operands.values() if d is not None) + 3))


def takers(line, device):
    """Engines that take more than 2^32 elements, or where they refuse that 2^31, with one kernel:
    name -> (problem, engine)."""
    found = {}
    for least in (2**32, 2**31):
        problem = problem_of(line, least)
        match = alone.match(problem)
        for engine in alone.takers(match, device.facts):
            if engine.name not in found and not isinstance(engine, STAYING):
                steps = alone.steps(engine, match, device.facts)
                if len({getattr(step, "kernel", "") for step in steps}) == 1:
                    found[engine.name] = problem, engine
    return found


def run(line, problem, engine):
    """The sampled blocks; what is wrong with what they wrote."""
    device, scalars = PtxDevice("sm_90"), dict(problem.op.scalars)
    device.arena, device.blocks = SparseArena(), some
    count = next(d for d in problem.operands.values() if d is not None).dims[0]
    built = plan.build(graph_of(problem, scalars), device, Wish(engines=(engine.index,)))
    places = {d.name: device.alloc(d.bytes) for d in built.slots}
    tensors = {name: (place.ptr, place.ptr + place.bytes, problem.operands[name])
               for name, place in places.items()}
    inputs = {name: (*tensors[name], set()) for name in tensors if name in problem.op.reads}
    device.arena.inputs = [each for each in inputs.values() if each[2].dims[0] == count]
    for start, _, desc, filled in inputs.values():
        if desc.dims[0] != count:
            device.arena.fill(start, desc, filled, set(range(desc.dims[0])))
    built.execute([places[d.name].ptr for d in built.slots], 0)
    plan.forget()
    written = np.concatenate(device.arena.written)
    (name, (start, end, desc)), = ((n, t) for n, t in tensors.items() if n in problem.op.writes)
    touched = np.unique((written[(written >= start) & (written < end)] - start)
                        // (desc.strides[0] * desc.dtype.bytes)).tolist()
    assert {0, count - 1} <= set(touched), "the first and the last slice must be written"
    small = Problem.parse(line.format(n=len(touched)))
    values = {name: np.full(small.operands[name].dims, np.nan)}
    for each, (at, _, d, filled) in inputs.items():
        numbers = touched if d.dims[0] == count else range(d.dims[0])
        device.arena.fill(at, d, filled, set(numbers))
        values[each] = d.dtype.decode(device.arena.slices(at, d, numbers))
    raw = small.op.evaluate(values, scalars)
    want, magnitude = raw[name], small.op.magnitude(values, scalars, raw)[name]
    allowed = np.broadcast_to(tolerance(small, name, small.operands[name], want,
                                        magnitude, scalars, None), want.shape)
    mine = device.arena.slices(start, desc, touched, device.arena.state) != 0
    report = compare(desc.dtype.decode(device.arena.slices(start, desc, touched))[mine],
                     want[mine], allowed[mine], desc)
    return [] if report.ok else [f"{problem} {engine}: {report.text}"]


@pytest.mark.parametrize("line", LINES)
def test_first_last_and_random_blocks(line):
    found = takers(line, PtxDevice("sm_90"))
    assert found, "no engine takes it"
    wrong = [text for problem, engine in found.values() for text in run(line, problem, engine)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("offset,reached", [("mul.wide.u32 %a0, %x, 2;", True),
                                            ("shl.b32 %x, %x, 1; cvt.u64.u32 %a0, %x;", False)])
def test_an_offset_of_32_bits_does_not_reach_the_end(offset, reached):
    device, count = PtxDevice("sm_90"), 2**31 + 2**21
    device.arena, device.blocks = SparseArena(), some
    place = device.alloc(2 * count)
    code = snippet.entry(".reg .u32 %x; .reg .b16 %h; mov.b16 %h, 7; mad.lo.u32 %x, %g, 128, %t; "
                         f"{offset} add.u64 %a0, %a0, %p0; st.global.b16 [%a0], %h;", 1)
    snippet.launch(device, code, [place], blocks=count // 128)
    assert (np.concatenate(device.arena.written).max() == place.ptr + 2 * count - 2) == reached
