"""The expressions of kernel contracts: grid, block, shared memory and needs, such as ``"ceil_div(rows, 4)"``.

Python's syntax, cut down to numbers, names, ``a[0]``, arithmetic, comparisons, ``and or not``, 
``x if c else y`` and the calls in ``FUNCTIONS``. The tree is checked and compiled once; evaluating is one
``eval`` of code that cannot reach anything else, and makes nothing that is large. Standard library only:
tools/build_ptx.py loads this file by its path.
"""
from __future__ import annotations

import ast
from functools import lru_cache
from numbers import Real

DTYPE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "i32": 4, "i64": 8}


def ceil_div(n: int, d: int) -> int:
    """The least integer that is not below n / d."""
    return -(-n // d)


def line(dtype: str) -> int:
    """Elements of a line of the tile programs, 128 bytes (MmaElem of kernels_src/lib/mma.cuh)."""
    return 128 // DTYPE_BYTES[dtype]


def tile_order(rows: int, columns: int, band: int, matrices: int) -> tuple:
    """What the tile program divides by to find a tile (kernels_src/tile/wgmma.cuh): tiles of a matrix, tiles
    of a band, rows of a band, rows of the last band, matrices."""
    return rows * columns, band * columns, band, rows - (rows - 1) // band * band, matrices


def _is_tile_order(order, rows, columns, matrices) -> bool:
    return tuple(order) == tile_order(*map(_number, (rows, columns, order[2], matrices)))


def _times(a, b):
    return _number(a) * _number(b)


def _power(a, b):
    return _number(a) ** _exponent(b)


def _shifted(a, b):
    return _number(a) << _exponent(b)


def _number(x):
    """A number of a size that numbers of kernels have: no text, which a product would repeat."""
    if not isinstance(x, Real) or isinstance(x, int) and x.bit_length() > MOST_BITS:
        raise TypeError(f"a factor must be a number of at most {MOST_BITS} bits")
    return x


def _exponent(x):
    if not isinstance(x, int) or not 0 <= x <= MOST_BITS:
        raise TypeError(f"an exponent must be a whole number from 0 to {MOST_BITS}")
    return x


MOST_BITS, MOST_TEXT = 128, 1000                 # of a number; characters of an expression
LARGE = {ast.Mult: "_times", ast.Pow: "_power", ast.LShift: "_shifted"}      # operators that could make much
FUNCTIONS = {"min": min, "max": max, "ceil_div": ceil_div, "sizeof": DTYPE_BYTES.__getitem__,
             "line": line, "is_tile_order": _is_tile_order}
_GLOBALS = {"__builtins__": {}, **FUNCTIONS, "_times": _times, "_power": _power, "_shifted": _shifted,
            **{n: n for n in DTYPE_BYTES}}  # `T == f16` compares names

_NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Name, ast.Load,
          ast.Tuple, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift,
          ast.BitAnd, ast.USub, ast.And, ast.Or, ast.Not, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
          ast.In, ast.NotIn)


class Expression:
    """A checked expression. ``names`` are the variables in it;
    calling it with a dict of their values gives its value."""
    __slots__ = ("text", "names", "_code")

    def __init__(self, text: str):
        names: set = set()
        tree = _bounded(_parsed(text), text, names)
        self.text, self.names = text, frozenset(names - set(DTYPE_BYTES))
        self._code = compile(tree, "<contract>", "eval")

    def __call__(self, values: dict):
        try:
            return eval(self._code, _GLOBALS, values)
        except NameError as error:
            raise ValueError(f"{self.text!r} needs a value for {error.name}; "
                             f"there are {', '.join(sorted(values))}") from None
        except (ArithmeticError, TypeError, LookupError) as error:
            raise ValueError(f"{self.text!r} has no value: {str(error):.80}; "
                             f"got {self.show(values)}") from None

    def show(self, values: dict) -> str:
        """The names in it with their values: ``rows=5 cols=2048``."""
        return " ".join(f"{name}={str(values[name]):.80}" for name in sorted(self.names) if name in values)


def _parsed(text: str) -> ast.Expression:
    if len(text) > MOST_TEXT:
        raise ValueError(f"expression must have at most {MOST_TEXT} characters; got {len(text)}")
    try:
        return ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"expression {text!r} must be Python arithmetic; "
                         f"{getattr(error, 'msg', error)}") from None


def _bounded(node, text: str, names: set):
    """A checked tree, in which operators that could make much of little are calls of functions that do not.
    ``names`` gets its variables."""
    if not _is_allowed(node):
        raise ValueError(f"expression {text!r} must be made of numbers, names, + - * // % ** << >> &, "
                         f"comparisons, and/or/not, x if c else y, {', '.join(FUNCTIONS)}; "
                         f"got {type(node).__name__}")
    if isinstance(node, ast.Name):
        names.add(node.id)
        return node
    for field in node._fields:
        below = getattr(node, field)
        if isinstance(below, list):
            below[:] = [_bounded(one, text, names) for one in below]
        elif isinstance(below, ast.AST) and not (isinstance(node, ast.Call) and field == "func"):
            setattr(node, field, _bounded(below, text, names))
    name = LARGE.get(type(node.op)) if isinstance(node, ast.BinOp) else None
    if name is None:
        return node
    called = ast.copy_location(ast.Name(name, ast.Load()), node)
    return ast.copy_location(ast.Call(called, [node.left, node.right], []), node)


def _is_allowed(node) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float, str))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Slice)
    return isinstance(node, _NODES)


@lru_cache(maxsize=None)
def expression(text) -> Expression:
    """The Expression of a text (or of a plain number), compiled once."""
    return Expression(str(text))
