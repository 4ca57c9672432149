"""A problem: an op with the descriptors of its operands. One text form that parses back.

    conv_fprop n32c64h56w56 k64r3s3 pad1 stride2 f16 acc=f32 nhwc
    softmax_fwd 16384x4096 bf16
    pooling_fwd n256c64h112w112 window=3 stride=2 mode=max bf16 nhwc
    matmul 8192x4096 4096x1024 bf16
    pointwise x=64x256:f32 b=1x256:f32 mode=add

After the op's name, in any order: dims tokens (letters, or numbers with x), which the op gives to its
operands; ``name=dims[:dtype][@s,t,…]`` for a named operand (strides after @; ``i8x4``: units of four
neighbours; ``name=none`` leaves an optional output out; several tensors of one operand are joined by +);
attributes ``attr=value`` (a list with commas, equal neighbours as ``64*100``; ``pad``, ``stride``, ``dil``
take the number directly); a dtype for all operands; ``acc=`` the compute type; a layout for all operands;
``groups=`` for convolutions; ``align=`` bytes.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

from ..dtypes import BY_NAME
from ..given import shown, whole
from ..status import BadParam, CydnnError
from ..tensor import LAYOUTS, TensorDesc, packed_strides
from . import rows
from .op import Op

MOST_NUMBERS = 1 << 16                           # of a list
_LETTERS = re.compile(r"(?:[a-z]\d+){2,}")
_NUMBERS = re.compile(r"\d+(?:x\d+)*")
FLAGS = {"True": True, "False": False, "1": True, "0": False}
_SHORT = {"pad": ("pre_pad", "post_pad"), "stride": ("stride",), "dil": ("dilation",),
          "dilation": ("dilation",), "window": ("window",)}


@dataclass(frozen=True)
class Problem:
    """``op`` and ``{operand: TensorDesc}``, complete (outputs inferred). ``str()`` is the text form;
    ``Problem.parse`` reads it. ``alignment``: bytes that every pointer is a multiple of."""
    op: Op
    operands: dict
    alignment: int = 16

    def __post_init__(self):
        if not isinstance(self.op, Op):
            raise BadParam(f"problem: op must be an operation; got {shown(self.op)}")
        alignment = whole("problem: align", self.alignment)
        if alignment < 1 or alignment & (alignment - 1):
            raise BadParam(f"problem: align must be a power of two; got {shown(alignment)}")
        object.__setattr__(self, "operands", self.op.complete(self.operands))

    def __hash__(self):
        return hash((self.op, tuple((k, v) for k, v in self.operands.items()), self.alignment))

    @property
    def descs(self) -> list[TensorDesc]:
        return list(self.tensors.values())

    @property
    def tensors(self) -> dict:
        """{name: description} of what is there; several tensors of an operand are ``extras.0`` …"""
        return self.op.tensors(self.operands)

    @property
    def flops(self) -> int:
        return self.op.flops(**self.operands)

    @property
    def bytes(self) -> int:
        """Bytes of every operand once: the least a kernel must move."""
        return sum(d.dtype.bytes_of(d.count) for d in self.descs)

    def __str__(self):
        return to_text(self.op, self.operands, self.alignment)

    @classmethod
    def parse(cls, text: str) -> "Problem":
        """The problem of a text line. Raises BadParam with the word that cannot be read."""
        return parse(text)


def to_text(op: Op, operands: dict, alignment=16) -> str:
    """Every operand by name, then the attributes that are not the default:
    the form that always parses back."""
    words = [op.name]
    for name in op.operands():
        d = operands.get(name)
        if d is not None:
            words.append(f"{name}=" + "+".join(map(_operand_text, d if isinstance(d, tuple) else (d,))))
        elif name in op.writes and name not in op.asked:
            words.append(f"{name}=none")
    words += attributes_text(op)
    return " ".join(words + ([f"align={alignment}"] if alignment != 16 else []))


def attributes_text(op: Op) -> list[str]:
    """The attributes that are not the default, a word each."""
    words = []
    for name in op.attributes():
        value, default = getattr(op, name), type(op).__dataclass_fields__[name].default
        if value != default:
            if isinstance(value, tuple):
                is_rows = op.attributes()[name].kind == "rows"
                value = rows.text(value) if is_rows else _numbers_text(value)
            words.append(f"acc={value}" if name == "compute" else f"{name}={value}")
    return words


def _numbers_text(numbers: tuple) -> str:
    """Numbers with commas; more than three equal neighbours as number*times."""
    runs = [(value, len(list(run))) for value, run in groupby(numbers)]
    words = [f"{value}*{times}" if times > 3 else ",".join([str(value)] * times) for value, times in runs]
    return ",".join(words) + "," * (len(numbers) == 1)


def _numbers(text: str) -> tuple:
    """The numbers of such a text."""
    words = [word.partition("*") for word in text.rstrip(",").split(",")]
    runs = [(int(value), int(times or 1)) for value, _, times in words]
    if not 0 < sum(times for _, times in runs) <= MOST_NUMBERS:
        raise ValueError(f"a list must have 1 to {MOST_NUMBERS} numbers")
    return tuple([value for value, times in runs for _ in range(times)])


def _operand_text(d: TensorDesc) -> str:
    text = f"{'x'.join(map(str, d.dims))}:{d.dtype}" + (f"x{d.vector}" if d.vector > 1 else "")
    if d.strides == packed_strides(d.dims, "nchw"):
        return text
    if d.strides == packed_strides(d.dims, "nhwc"):
        return text + "@nhwc"
    return text + "@" + ",".join(map(str, d.strides))


def _meant(name: str, known) -> str:
    """The operations that begin so, or whose names are like it, for an error."""
    from difflib import get_close_matches        # errors alone need it
    found = [n for n in known if name and n.startswith(name)] or get_close_matches(name, known, 3, 0.7)
    return f": did you mean {' or '.join(found[:3])}?" if found else ""


def parse(text: str) -> Problem:
    from . import BY_NAME as OPS                 # the table imports this module
    if not isinstance(text, str):
        raise BadParam(f"problem: must be a line of text; got {shown(text)}")
    name, *words = text.split() or [""]
    if name not in OPS:
        raise BadParam(f"problem: op must be one of {' '.join(OPS)}; got {shown(name)}{_meant(name, OPS)}")
    op_class, reader = OPS[name], _Words(name)
    for word in words:
        _read(lambda: reader.take(word, op_class), word)
    try:
        return _read(lambda: reader.problem(op_class), text)
    except BadParam as error:
        raise error.within(error.facts["node"], error.facts["node"], reader.words) from None


def _read(step, word):
    """``step()``; a number that is none is said with its word."""
    try:
        return step()
    except CydnnError:
        raise
    except (ValueError, TypeError, IndexError) as error:
        raise BadParam(f"problem: {shown(word)} cannot be read: {error}") from None


def parse_attribute(op_class, name: str, value: str):
    """The value of an attribute from its text."""
    attribute = op_class.attributes()[name]
    if attribute.kind == "flag" and value not in FLAGS:
        raise BadParam(f"{op_class.name}: {name} must be one of {' '.join(FLAGS)}; got {value!r}")
    readers = {"ints": lambda: _numbers(value) if "," in value or "*" in value else int(value),
               "int": lambda: int(value), "float": lambda: float(value), "flag": lambda: FLAGS[value]}
    return readers.get(attribute.kind, lambda: value)()


class _Words:
    """The words of one line, sorted by what they say."""

    def __init__(self, line):
        self.line, self.free, self.named, self.attributes = line, [], {}, {}
        self.dtype, self.layout, self.groups, self.alignment = "f32", "nchw", 1, 16
        self.words: dict = {}                    # attribute: the short word that said it

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
            if self.groups < 1:
                raise BadParam(f"problem: groups must be >= 1; got {self.groups}")
        elif key == "align" and eq:
            self.alignment = int(value)
        elif key == "acc" and eq:
            self.attributes["compute"] = value
        elif key in op_class.operands() and eq:
            self.named[key] = value
        elif eq and (key in op_class.attributes() or key in _SHORT):
            self._attribute(op_class, key, value)
        else:
            raise BadParam(f"problem: {shown(word)} is no word of {self.line}; operands are "
                           f"{' '.join(op_class.operands())}, attributes {' '.join(op_class.attributes())}, "
                           f"types {' '.join(BY_NAME)}, layouts {' '.join(LAYOUTS)}")

    def _attribute(self, op_class, key, value):
        for name in _SHORT.get(key, (key,)):
            self.words[name] = key
            if name in op_class.attributes():
                self.attributes[name] = parse_attribute(op_class, name, value)

    def problem(self, op_class):
        free = [_letter_dims(w) if w[0].isalpha() else tuple(map(int, w.split("x"))) for w in self.free]
        op = op_class(**{"compute": "f64" if self.dtype == "f64" else "f32",
                         **(op_class.free_attributes(free) if free else {}), **self.attributes})
        dims = op.free_dims(free, dict(words=self.free, groups=self.groups)) if free else {}
        descs = {}
        for name in op.operands():
            text = self.named.get(name)
            if text is not None:
                found = [self._named(part) for part in text.split("+")] if text != "none" else [None]
                descs[name] = tuple(found) if name in op.variadic else found[0]
            elif name in dims:
                descs[name] = self._packed(op.free_dtype(name, self.dtype), dims[name])
        return Problem(op, descs, self.alignment)

    def _packed(self, dtype, dims, layout=None):
        return TensorDesc.packed(dtype, dims, layout or self.layout if len(dims) > 2 else "nchw")

    def _named(self, text):
        body, at, strides = text.partition("@")
        numbers, _, kind = body.partition(":")
        dtype, times, vector = kind.partition("x")
        if numbers[:1].isalpha():
            dims = _letter_dims(numbers)
        else:
            dims = tuple(map(int, numbers.split("x"))) if numbers else ()
        if not at or strides in LAYOUTS:
            found = self._packed(dtype or self.dtype, dims, strides)
        else:
            found = TensorDesc(dtype or self.dtype, dims, tuple(map(int, strides.split(","))))
        return found.replace(vector=int(vector)) if times else found


def _letter_dims(word: str) -> tuple:
    if not re.fullmatch(r"(?:[a-z]\d+)+", word):
        raise ValueError(f"dims must be letters with numbers, such as n2c3; got {shown(word)}")
    return tuple(int(n) for n in re.findall(r"[a-z](\d+)", word))
