"""A problem: an op with the descriptors of its operands. One text form that parses back.

    conv_fprop n32c64h56w56 k64r3s3 pad1 stride2 f16 acc=f32 nhwc
    softmax_fwd 16384x4096 bf16
    pooling_fwd n256c64h112w112 window=3 stride=2 mode=max bf16 nhwc
    matmul 8192x4096 4096x1024 bf16
    pointwise x=64x256:f32 b=1x256:f32 mode=add

After the op's name, in any order: dims tokens (letters, or numbers with x) for the op's inputs in order; ``name=dims[:dtype][@s,t,…]``
for a named operand (with strides after @; ``name=none`` leaves an optional output out); attributes ``attr=value`` (a list with commas; ``pad``, ``stride``, ``dil`` take the number
directly); a dtype for all operands; ``acc=`` the compute type; a layout for all operands; ``groups=`` for convolutions; ``align=`` bytes.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from ..dtypes import BY_NAME
from ..status import BadParam, CydnnError
from ..tensor import LAYOUTS, TensorDesc, packed_strides
from .batch_norm import BatchNorm
from .conv import Conv
from .op import Op

_LETTERS = re.compile(r"(?:[a-z]\d+){2,}")
_NUMBERS = re.compile(r"\d+(?:x\d+)*")
_SHORT = {"pad": ("pre_pad", "post_pad"), "stride": ("stride",), "dil": ("dilation",), "dilation": ("dilation",), "window": ("window",)}
_FILTER = "ktrs"                                 # letters of a filter, outermost first; spatial ones follow its rank


@dataclass(frozen=True)
class Problem:
    """``op`` and ``{operand: TensorDesc}``, complete (outputs inferred). ``str()`` is the text form; ``Problem.parse`` reads it."""
    op: Op
    operands: dict

    def __post_init__(self):
        object.__setattr__(self, "operands", self.op.complete(self.operands))

    def __hash__(self):
        return hash((self.op, tuple((k, v) for k, v in self.operands.items())))

    @property
    def descs(self) -> list[TensorDesc]:
        return [d for d in self.operands.values() if d is not None]

    @property
    def flops(self) -> int:
        return self.op.flops(**self.operands)

    @property
    def bytes(self) -> int:
        """Bytes of every operand once: the least a kernel must move."""
        return sum(d.count * d.dtype.bytes for d in self.descs)

    def __str__(self):
        return to_text(self)

    @classmethod
    def parse(cls, text: str) -> "Problem":
        """The problem of a text line. Raises BadParam with the word that cannot be read."""
        return parse(text)


def to_text(p: Problem) -> str:
    """Every operand by name, then the attributes that are not the default: the form that always parses back."""
    words = [p.op.name]
    for name, d in p.operands.items():
        if d is not None:
            words.append(f"{name}={'x'.join(map(str, d.dims))}:{d.dtype}" + _strides_text(d))
        elif name in p.op.writes:
            words.append(f"{name}=none")
    for name, attribute in p.op.attributes().items():
        value, default = getattr(p.op, name), type(p.op).__dataclass_fields__[name].default
        if value != default:
            value = ",".join(map(str, value)) + "," * (len(value) == 1) if isinstance(value, tuple) else value
            words.append(f"acc={value}" if name == "compute" else f"{name}={value}")
    alignment = min((d.alignment for d in p.descs), default=16)
    return " ".join(words + ([f"align={alignment}"] if alignment != 16 else []))


def _strides_text(d: TensorDesc) -> str:
    if d.strides == packed_strides(d.dims, "nchw"):
        return ""
    return "@nhwc" if d.strides == packed_strides(d.dims, "nhwc") else "@" + ",".join(map(str, d.strides))


def parse(text: str) -> Problem:
    from . import BY_NAME as OPS                 # the table imports this module
    name, *words = text.split() or [""]
    if name not in OPS:
        raise BadParam(f"problem: op must be one of {' '.join(OPS)}; got {name!r}")
    op_class, reader = OPS[name], _Words(name)
    for word in words:
        _read(lambda: reader.take(word, op_class), word)
    return _read(lambda: reader.problem(op_class), text)


def _read(step, word):
    """``step()``; a number that is none is said with its word."""
    try:
        return step()
    except CydnnError:
        raise
    except (ValueError, TypeError, IndexError) as error:
        raise BadParam(f"problem: {word!r} cannot be read: {error}") from None


class _Words:
    """The words of one line, sorted by what they say."""

    def __init__(self, line):
        self.line, self.free, self.named, self.attributes = line, [], {}, {}
        self.dtype, self.layout, self.groups, self.alignment = "f32", "nchw", 1, 16

    def take(self, word, op_class):
        key, eq, value = word.partition("=")
        short = re.fullmatch(r"(pad|stride|dil)(\d+(?:,\d+)*)", word)
        if word in BY_NAME:
            self.dtype = word
        elif word in LAYOUTS:
            self.layout = word
        elif short:
            self._attribute(op_class, short[1], short[2])
        elif not eq and (_LETTERS.fullmatch(word) or _NUMBERS.fullmatch(word)):
            self.free.append(word)
        elif key == "groups" and eq:
            self.groups = int(value)
        elif key == "align" and eq:
            self.alignment = int(value)
        elif key == "acc" and eq:
            self.attributes["compute"] = value
        elif key in op_class.operands() and eq:
            self.named[key] = value
        elif eq and (key in op_class.attributes() or key in _SHORT):
            self._attribute(op_class, key, value)
        else:
            raise BadParam(f"problem: {word!r} is no word of {self.line}; operands are {' '.join(op_class.operands())}, attributes "
                           f"{' '.join(op_class.attributes())}, types {' '.join(BY_NAME)}, layouts {' '.join(LAYOUTS)}")

    def _attribute(self, op_class, key, value):
        for name in _SHORT.get(key, (key,)):
            if name not in op_class.attributes():
                continue
            kind = op_class.attributes()[name].kind
            numbers = value.rstrip(",").split(",")
            self.attributes[name] = {"ints": lambda: int(value) if "," not in value else tuple(map(int, numbers)),
                                     "int": lambda: int(value), "float": lambda: float(value)}.get(kind, lambda: value)()

    def problem(self, op_class):
        op = op_class(**{"compute": "f64" if self.dtype == "f64" else "f32", **self.attributes})
        dims = self._dims(op)
        descs = {}
        for name in op.operands():
            text = self.named.get(name)
            if text is not None:
                descs[name] = None if text == "none" else self._named(text)
            elif name in dims:
                dtype = self.dtype
                if isinstance(op, BatchNorm) and name not in ("x", "y", "dy", "dx") and dtype in ("f16", "bf16"):
                    dtype = "f32"
                descs[name] = TensorDesc.packed(dtype, dims[name], self.layout if len(dims[name]) > 2 else "nchw", alignment=self.alignment)
        return Problem(op, descs)

    def _named(self, text):
        body, at, strides = text.partition("@")
        numbers, _, dtype = body.partition(":")
        dims = tuple(map(int, numbers.split("x"))) if numbers[0].isdigit() else _letter_dims(numbers)
        if not at or strides in LAYOUTS:
            return TensorDesc.packed(dtype or self.dtype, dims, strides or self.layout if len(dims) > 2 else "nchw", alignment=self.alignment)
        return TensorDesc(dtype or self.dtype, dims, tuple(map(int, strides.split(","))), alignment=self.alignment)

    def _dims(self, op) -> dict:
        """Dims of the operands that the free words and the op's geometry give."""
        free = [_letter_dims(w) if w[0].isalpha() else tuple(map(int, w.split("x"))) for w in self.free]
        if not free:
            return {}
        if isinstance(op, Conv):
            return self._conv_dims(op, free)
        if isinstance(op, BatchNorm):
            parameters = op.parameter_dims(free[0])
            image = ("x", "y", "dy", "dx")
            return {name: free[0] if name in image else parameters for name in op.operands() if name not in op.optional or "Bwd" in type(op).__name__}
        if op.name == "pooling_bwd":
            out = op.out_dims(free[0])
            return dict(x=free[0], dx=free[0], y=out, dy=out)
        if op.name == "softmax_bwd":
            return dict(y=free[0], dy=free[0], dx=free[0])
        if op.name == "pointwise" and len(free) == 1:
            return {name: free[0] for name in op.inputs()}
        names = op.reads if op.reads else op.writes
        return dict(zip((*names, *(o for o in op.writes if o not in names)), free))

    def _conv_dims(self, op, free):
        x, w = free[0], self.free[1] if len(free) > 1 else None
        if w is None:
            raise BadParam(f"problem: {self.line} takes an image and a filter, such as n32c64h56w56 k64r3s3; got {self.free}")
        filter_dims = free[1] if not w[0].isalpha() else (free[1][0], *((x[1] // self.groups,) if "c" not in w else ()), *free[1][1:])
        if prod(filter_dims) < 0 or len(filter_dims) != len(x):
            raise BadParam(f"problem: the filter must have {len(x) - 2} spatial dims like the image; got {w!r}")
        out = op.out_dims(x, filter_dims)
        return {"conv_fprop": dict(x=x, w=filter_dims), "conv_dgrad": dict(dx=x, w=filter_dims, dy=out),
                "conv_wgrad": dict(x=x, dw=filter_dims, dy=out)}[op.name]


def _letter_dims(word: str) -> tuple:
    return tuple(int(n) for n in re.findall(r"[a-z](\d+)", word))
