"""Layers of a recurrent network: addresses of their parts, and the products of all steps."""
from __future__ import annotations

from math import gcd

from ...graph import once_per_match
from ...ops import Matmul, Reduction
from ...ops.rnn_network import STATES
from ...steps import Launch
from ...tensor import TensorDesc
from ..dropout.dropout import factors
from ..nested import NestedOp, NestedOperand
from ..matmul.any import MatmulAny
from ..matmul.mma import MatmulMma
from ..matmul.simt import MatmulSimt
from ..matmul.wgmma import MatmulWgmma
from ..reduction.any import ReductionAny
from ..reduction.reduction import ReductionColumns, ReductionGeneric

PRODUCTS = (MatmulWgmma(), MatmulMma(), MatmulSimt(), MatmulAny())
SUMS = (ReductionColumns(), ReductionGeneric(), ReductionAny())
STARTS = 512                                     # numbers a launch of rnn_starts writes
KERNEL_CELLS = dict(relu="vanilla", tanh="vanilla", lstm="lstm", gru="gru")


class Net:
    """A match of one of the three ops as its engines see it: sizes, and the addresses of parts.

    Distances between the directions of a layer are the same for all its parts, so a launch takes both.
    """

    def __init__(self, p):
        self.p, self.op, self.dtype = p, p.op, next(d for d in p.descs).dtype
        op = p.op
        self.hidden, self.directions, self.gates = op.hidden, op.directions, op.gates
        self.steps, self.batch, self.rows, self.width = len(op.batches), op.batches[0], op.rows, op.width
        self.inputs = p.x.dims[1] if p.operands.get("x") is not None else op.inputs_of(p.w.dims[0])
        self.blob, self.areas = op.blob(self.inputs), op.reserve
        self.is_training = p.operands.get("reserve") is not None
        self.kept = self.areas.saved             # gates that the reserve has

    @staticmethod
    @once_per_match
    def of(p) -> "Net":
        """That of a match."""
        return Net(p)

    def at(self, name: str, element: int) -> tuple:
        """(address of an element, its alignment) of an operand without gaps."""
        offset = self.dtype.bytes_of(element)
        return self.p.ptr(name) + offset, gcd(self.p.operands[name].alignment, offset or 256, 256)

    def operand(self, name: str, element: int, dims, strides) -> NestedOperand:
        pointer, alignment = self.at(name, element)
        return NestedOperand(TensorDesc(self.dtype, dims, strides), pointer, alignment)

    def area(self, name: str, number: int):
        """The address of an area of the reserve; None where there is none."""
        return self.at("reserve", getattr(self.areas, name)[number])[0] if self.is_training else None

    def first(self, layer: int) -> int:
        """The pseudo-layer of its first direction."""
        return layer * self.directions

    def apart(self, name: str, layer: int) -> int:
        """Elements from the first direction of a layer to the second, in the blob or in the reserve."""
        of = getattr(self.areas if name in ("gates", "cells") else self.blob, name)
        return of[self.first(layer) + 1] - of[self.first(layer)] if self.directions == 2 and of else 0

    def state(self, name: str, layer: int) -> dict:
        """The arguments of a state: its address at a layer, elements to the other direction and to a row."""
        desc = self.p.operands.get(name)
        if desc is None:
            return {name: None, f"{name}_dir": 0, f"{name}_row": 0}
        per_layer, per_direction, per_row, _ = desc.strides
        return {name: self.at(name, layer * per_layer)[0],
                f"{name}_dir": per_direction, f"{name}_row": per_row}

    def layers_apart(self, name: str) -> int:
        """Elements from a layer to the next, of a state or an area of the reserve; 0 where there is none."""
        if name in STATES:
            desc = self.p.operands.get(name)
            return 0 if desc is None else desc.strides[0]
        of = getattr(self.areas, name)
        return of[self.directions] - of[0] if len(of) > self.directions else 0

    def states(self, layer: int, names: str) -> dict:
        """The arguments of several."""
        return {key: value for name in names.split() for key, value in self.state(name, layer).items()}

    def kept_of(self, layer: int) -> dict:
        """Where training keeps the gates and cells of a layer."""
        p = self.first(layer)
        return dict(gates=self.area("gates", p), gates_dir=self.apart("gates", layer),
                    cells=self.area("cells", p) if self.op.cell == "lstm" else None,
                    cells_dir=self.apart("cells", layer))

    def keep(self, layer: int, area: str = "keep"):
        """The address of the factors (or of what they leave) of a layer's output; None where all is kept."""
        masked = self.is_training and self.op.has_dropout and layer < self.op.layers - 1
        return self.area(area, layer) if masked else None

    def common(self, starts) -> dict:
        """Sizes that every kernel is told."""
        return dict(starts=starts, steps=self.steps, batch=self.batch, hidden=self.hidden,
                    is_tanh=int(self.op.cell == "tanh"))

    def starts(self, steps: list):
        """The table of a batch that shrinks, written by launches appended to ``steps``; None where it does
        not shrink."""
        if self.op.batches[-1] == self.batch:
            return None
        values = [0]
        for rows in self.op.batches:
            values.append(values[-1] + rows)
        table = self.p.scratch(4 * len(values))
        for i in range(0, len(values), STARTS):
            part = values[i:i + STARTS]
            args = dict(starts=table, first=i, count=len(part), values=part + [0] * (STARTS - len(part)))
            steps.append(Launch("rnn_starts", args))
        return table

    def masks(self, dev) -> list:
        """Draw the factors of all layers' outputs at once, where training drops some."""
        if not (self.is_training and self.op.has_dropout):
            return []
        first, end = self.areas.keep[0], self.areas.kept[0]
        return factors(self.at("reserve", first)[0], self.dtype, end - first, self.op.dropout,
                       self.p.ptr("states"), dev)

    # ---- What a layer reads ----

    def read(self, layer: int, own=None) -> tuple:
        """(address, alignment, columns) of what a layer reads: x, the outs of the layer below (kept where
        there is dropout), or ``own`` where nothing is stored."""
        if layer == 0:
            return *self.at("x", 0), self.inputs
        if not self.is_training:
            return own, 256, self.width
        name = "kept" if self.op.has_dropout else "outs"
        return *self.at("reserve", getattr(self.areas, name)[layer - 1]), self.width

    def skips(self, layer: int) -> bool:
        return self.blob.widths[self.first(layer)] == 0

    # ---- Products of all steps ----

    def input_side(self, layer: int, read, to, to_dir: int, to_row: int) -> NestedOp:
        """W x of all steps and both directions."""
        (source, alignment, width), n, rows = read, self.directions, self.gates * self.hidden
        p, apart = self.first(layer), self.apart("weights", layer)
        x = TensorDesc(self.dtype, (n, self.rows, width), (0, width, 1))
        c = TensorDesc(self.dtype, (n, self.rows, rows), (to_dir, to_row, 1))
        return NestedOp(Matmul(compute=self.op.compute), PRODUCTS, a=NestedOperand(x, source, alignment),
                     b=self.operand("w", self.blob.weights[p], (n, width, rows), (apart, 1, width)),
                     c=NestedOperand(c, *to))

    def data_gradient(self, layer: int, to, alignment) -> list[NestedOp]:
        """The gradient of what a layer reads, one direction added to the other."""
        width, found = self.width if layer else self.inputs, []
        for d in range(self.directions):
            p = self.first(layer) + d
            numbers = dict(beta=float(d))
            if self.skips(layer):
                strides = (self.kept * self.hidden, self.hidden, 1)
                x = self.operand("reserve", self.areas.gates[p], (self.rows, self.gates, self.hidden),
                                 strides)
                y = TensorDesc(self.dtype, (self.rows, 1, self.hidden), (self.hidden, self.hidden, 1))
                found.append(NestedOp(Reduction(mode="add", compute=self.op.compute), SUMS, numbers, x=x,
                                   y=NestedOperand(y, to, alignment)))
                continue
            rows = self.gates * self.hidden
            a = self.operand("reserve", self.areas.gates[p], (self.rows, rows), (self.kept * self.hidden, 1))
            b = self.operand("w", self.blob.weights[p], (rows, width), (width, 1))
            c = NestedOperand(TensorDesc.packed(self.dtype, (self.rows, width)), to, alignment)
            found.append(NestedOp(Matmul(compute=self.op.compute), PRODUCTS, numbers, a=a, b=b, c=c))
        return found

    def deltas(self, layer: int, slot: int, rows: int, skipped=0) -> NestedOperand:
        """Gradients of gates from a slot on, (directions, rows, rows of all steps); without the first
        ``skipped`` rows of all steps in the forward direction, and as many of the other's last."""
        p, row = self.first(layer), self.kept * self.hidden
        apart = self.apart("gates", layer) - skipped * row if self.directions == 2 else 0
        return self.operand("reserve", self.areas.gates[p] + slot * self.hidden + skipped * row,
                            (self.directions, rows, self.rows - skipped), (apart, 1, row))

    def weight_gradients(self, layer: int, before) -> list[NestedOp]:
        """What is added to dw: of both weights, of both directions at once. ``before``: where h of the step
        before is (before.Before), None where it is 0."""
        n, h, found = self.directions, self.hidden, []
        p, every = self.first(layer), self.gates * h

        def product(start, a, b, apart):
            rows, columns = a.desc.dims[1], b.desc.dims[2]
            c = self.operand("dw", start, (n, rows, columns), (apart, columns, 1))
            found.append(NestedOp(Matmul(compute=self.op.compute), PRODUCTS, dict(beta=1.0), a=a, b=b, c=c))

        if not self.skips(layer):
            source, alignment, width = self.read(layer)
            x = NestedOperand(TensorDesc(self.dtype, (n, self.rows, width), (0, width, 1)), source, alignment)
            product(self.blob.weights[p], self.deltas(layer, 0, every), x, self.apart("weights", layer))
        # GRU: the recurrent side of the last gate has a gradient of its own, in the place behind it
        parts = [(0, 0, every)] if self.kept == self.gates else [(0, 0, every - h), (every - h, every, h)]
        for first, from_, rows in parts if before else ():
            a = self.deltas(layer, from_ // h, rows, self.rows - before.rows)
            product(self.blob.recurrent[p] + first * h, a, before.operand(self),
                    self.apart("recurrent", layer))
        return found


def steps_of(inners, dev) -> list:
    return [step for inner in inners for step in inner.steps(dev)]


def us_of(inners, dev) -> float:
    """Their estimated microseconds."""
    return sum([inner.choice(dev)[0] for inner in inners])


def unaligned(net, **more):
    """Reasons: tensors whose neighbours cannot be read and written two at once, or as many bytes as ``more``
    says."""
    for name, tensor in net.p.operands.items():
        least = more.get(name, 2 * net.dtype.bytes)
        if tensor is not None and name != "states" and tensor.alignment < least:
            yield f"{name} must be aligned to {least} bytes; got {tensor.alignment}"


def weights_of(net, layer) -> dict:
    """The recurrent weights of a layer."""
    weights = net.at("w", net.blob.recurrent[net.first(layer)])[0]
    return dict(weights=weights, weights_dir=net.apart("recurrent", layer))
