"""Moving elements: what the engines of slice, reshape, transpose and concatenate share.

Nothing is launched where the output may lie in the input's memory (``place``). Else a piece is copied in
words: as many bytes as neighbours on both sides have together.
"""
from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import Concatenate, Reshape, Slice, Transform, Transpose
from ...ops.moves import Piece
from ...steps import Launch, Pointer
from ...tensor import TensorDesc
from ..engine import Engine, moved_us, wrong_device
from ..layout.tensor_ops import TransformAny, TransformVector
from ..layout.transform_transpose import TransformTranspose
from ..nested import NestedOp, NestedOperand

MOST = 2 ** 31                                   # words of a launch
WORDS = (16, 8, 4, 2, 1)                         # bytes
RUN = 64                                         # bytes of neighbours from which they are copied 16 at once
SHARE = {16: 0.87, 8: 0.82, 4: 0.7, 2: 0.4, 1: 0.2}              # of the bandwidth, of neighbouring words


class Walk(NamedTuple):
    """A piece in words: bytes of one, dims and strides of both sides, innermost first, in words."""
    bytes: int
    count: int
    x_dims: tuple
    x_strides: tuple
    y_dims: tuple
    y_strides: tuple

    @property
    def is_apart(self) -> bool:
        """Neighbours on one side lie apart on the other."""
        return self.x_strides[:1] != self.y_strides[:1]

    @property
    def run(self) -> int:
        """Words that lie side by side on both sides, where that is more than words do at once; else 0."""
        length = gcd(self.x_dims[0], self.y_dims[0])
        is_long = self.bytes <= 4 and length * self.bytes >= RUN
        is_near = self.x_strides[0] == self.y_strides[0] == 1
        return length if is_long and is_near and max(len(self.x_dims), len(self.y_dims)) <= 4 else 0


def _ordered(piece: Piece) -> tuple:
    """Both sides with the dims of the target's memory, where they have the same dims."""
    x, y = piece.source, piece.target
    if x.dims != y.dims:
        return x, y
    order = sorted(range(y.rank), key=lambda a: (y.strides[a], x.strides[a]), reverse=True)
    turn = lambda d: TensorDesc(d.dtype, [d.dims[a] for a in order], [d.strides[a] for a in order])
    return turn(x), turn(y)


def _rows(d: TensorDesc) -> list:
    """[[size, stride], …] of merged dims, innermost first, at least one."""
    rows = []
    for size, stride in zip(reversed(d.dims), reversed(d.strides)):
        if size == 1:
            continue
        if rows and stride == rows[-1][0] * rows[-1][1]:
            rows[-1][0] *= size
        else:
            rows.append([size, stride])
    return rows or [[1, 1]]


def walk(piece: Piece, alignments: tuple) -> Walk:
    """A piece in the widest words that both sides have. ``alignments``: bytes of the two first elements."""
    size = piece.target.dtype.bytes
    sides = [_rows(d) for d in _ordered(piece)]
    word = next((w for w in WORDS if w > size and w % size == 0 and all(
        _fits(rows, w // size) and aligned % w == 0 for rows, aligned in zip(sides, alignments))), size)
    found, lanes = [], word // size
    for rows in sides:
        rows = [[n, s if i == 0 and lanes > 1 else s // lanes] for i, (n, s) in enumerate(rows)]
        rows[0][0] //= lanes
        rows = [row for row in rows if row[0] > 1] or [[1, 1]]
        found += [tuple(n for n, _ in rows), tuple(s for _, s in rows)]
    return Walk(word, piece.target.count // lanes, *found)


def _fits(rows: list, lanes: int) -> bool:
    (size, stride), others = rows[0], rows[1:]
    return stride == 1 and size % lanes == 0 and not any(s % lanes for _, s in others)


def _eight(values, filler) -> tuple:
    return (*values, *(filler,) * (8 - len(values)))


class Copy(Engine):
    """A launch for each piece that is not there already."""

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        if self.place(p) is None:
            for piece in self._pieces(p):
                yield from self._reasons(p, piece, dev)

    def _reasons(self, p, piece, dev):
        inner = self._inner(p, piece)
        if _is_converted(piece):
            yield from inner.reasons(dev) if inner else self._unlike(piece)
        elif inner is None or any(inner.reasons(dev)):
            count = self._walk(p, piece).count
            if count >= MOST:
                yield f"{piece.name} must have fewer than 2^31 words; got {count}"

    @staticmethod
    def _unlike(piece):
        yield (f"y must be whole bytes of {piece.source.dtype} like x, as its pieces have no dims of y; "
               f"got {piece.target.dtype}")

    def place(self, p):
        """(input's uid, bytes behind its beginning) where a virtual output lies in the input's memory."""
        piece = p.op.view(_descs(p))
        if piece is None or not p.y.is_virtual or p.y.dtype != piece.source.dtype or not p.y.count:
            return None
        tensor, bits = p.op.tensors(p.operands)[piece.name], piece.skip * p.y.dtype.bits
        skip = bits // 8
        if bits % 8 or tensor.is_by_value or gcd(tensor.alignment, skip or tensor.alignment) < p.y.alignment:
            return None
        return self._uid(p, piece), skip

    @staticmethod
    def _pieces(p) -> list:
        return [piece for piece in p.op.pieces(_descs(p)) if piece.target.count]

    @staticmethod
    def _uid(p, piece) -> int:
        name, _, number = piece.name.partition(".")
        return p.uids[name][int(number)] if number else p.uids[name]

    def _sides(self, p, piece) -> tuple:
        """(address, alignment) of where a piece is and of where it goes."""
        tensor = p.op.tensors(p.operands)[piece.name]
        for uid, elements, t in ((self._uid(p, piece), piece.skip, tensor),
                                 (p.uids["y"], piece.target_skip, p.y)):
            skip = elements * t.dtype.bits // 8
            yield Pointer(uid, skip), gcd(16, t.alignment, skip or 16)

    def _walk(self, p, piece) -> Walk:
        return walk(piece, tuple(aligned for _, aligned in self._sides(p, piece)))

    def _inner(self, p, piece) -> NestedOp | None:
        """The copy between equal dims that converts, or turns what lies apart; None for a copy in words."""
        converts = _is_converted(piece)
        if piece.source.dims != piece.target.dims or not (converts or self._walk(p, piece).is_apart):
            return None
        bits = [d.dtype.bits * skip for d, skip in ((piece.source, piece.skip),
                                                    (piece.target, piece.target_skip))]
        if any(n % 8 for n in bits):
            return None
        x, y = (NestedOperand(_plain(d), pointer, aligned) for d, (pointer, aligned)
                in zip((piece.source, piece.target), self._sides(p, piece)))
        math = "f64" if "f64" in (x.desc.dtype.compute, y.desc.dtype.compute) else "f32"
        engines = (TransformVector(), TransformTranspose(), TransformAny()) if converts else (
            TransformTranspose(),)
        return NestedOp(Transform(compute=math), engines, x=x, y=y)

    def _how(self, p, piece, dev) -> NestedOp | None:
        """That copy where it takes the piece."""
        inner = self._inner(p, piece)
        return None if inner is None or any(inner.reasons(dev)) else inner

    def cost(self, p, dev, config):
        return 0.0 if self.place(p) else sum(self._us(p, piece, dev) for piece in self._pieces(p))

    def _us(self, p, piece, dev) -> float:
        inner = self._how(p, piece, dev)
        if inner is not None:
            return inner.choice(dev)[0]
        found = self._walk(p, piece)
        share = SHARE[8 if found.run else found.bytes] * (0.3 if found.is_apart else 1.0)
        return moved_us(2 * found.count * found.bytes, dev, share)

    def plan(self, p, dev, config):
        if self.place(p):
            return []
        return [step for piece in self._pieces(p) for step in self._steps(p, piece, dev)]

    def _steps(self, p, piece, dev) -> list:
        inner = self._how(p, piece, dev)
        if inner is not None:
            return inner.steps(dev)
        found = self._walk(p, piece)
        (x, _), (y, _) = self._sides(p, piece)
        size = dict(count=found.count)
        if found.run:
            chunks = ceil_div(found.run * found.bytes + 15, 16)
            size = dict(items=found.count // found.run * chunks, chunks=chunks, length=found.run)
        return [Launch(f"move_{'runs' if found.run else 'words'}_{found.bytes}", size | dict(
            x=x, y=y, x_dims=_eight(found.x_dims, 1), x_strides=_eight(found.x_strides, 0),
            y_dims=_eight(found.y_dims, 1), y_strides=_eight(found.y_strides, 0)))]


def _is_converted(piece) -> bool:
    """The elements become another type, or are less than a byte."""
    return piece.source.dtype != piece.target.dtype or piece.target.dtype.bits < 8


def _plain(d) -> TensorDesc:
    return TensorDesc(d.dtype, d.dims, d.strides)


def _descs(p) -> dict:
    """{operand: its description}"""
    return {name: tuple(t.desc for t in d) if isinstance(d, tuple) else d.desc
            for name, d in p.operands.items()}


class SliceCopy(Copy):
    """Parts of a tensor, in words, or through shared memory where neighbours lie apart."""
    index, takes = 450, core(Slice)


class ReshapeCopy(Copy):
    """Other dims, in words, or through shared memory where neighbours lie apart."""
    index, takes = 451, core(Reshape)


class TransposeCopy(Copy):
    """Dims in another order, in words, or through shared memory where neighbours lie apart."""
    index, takes = 452, core(Transpose)


class ConcatenateCopy(Copy):
    """Tensors behind each other, a launch each, in words or through shared memory."""
    index, takes = 453, core(Concatenate)
