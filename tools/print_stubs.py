"""Print the stubs of what is made at import, for editors and type checkers: ``python tools/print_stubs.py``.

Signatures and docstrings are those of the objects; a test compares the files. What is written as plain Python
is read by checkers as it is, and has no stub.
"""
from __future__ import annotations

import inspect
import sys
import textwrap
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "cydnn"
sys.path.insert(0, str(PACKAGE.parent))

import cydnn
from cydnn import backend, functional
from cydnn.backend.constants import constants
from cydnn.device.cuda import CudaDevice
from cydnn.device.numpy import NumpyDevice
from cydnn.device.ptx import PtxDevice
from cydnn.legacy import CONSTANTS, FUNCTIONS

HEAD = "# Printed by tools/print_stubs.py.\n"
ANNOTATIONS = {"Array": "A", "Array | None": "A | None", "Array | float": "A | float"}
TENSORS = "tensor tensor_like tensor_scalar conv_fprop conv_dgrad conv_wgrad matmul reduction".split()
COMMON = "*, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: "


def doc(thing, depth: int) -> str:
    """The docstring, as the body of a function."""
    words = inspect.cleandoc(thing.__doc__ or "").replace("\\", "\\\\")
    return textwrap.indent(f'"""{words}"""\n', " " * depth)


def parameters(signature, types=None, skip=()) -> list[str]:
    """Each parameter as a stub has it, with a * in front of those that are given by keyword alone."""
    found, is_marked = [], False
    for p in signature.parameters.values():
        if p.name in skip:
            continue
        if p.kind is p.KEYWORD_ONLY and not is_marked:
            found.append("*")
            is_marked = True
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        is_marked |= star == "*"
        kind = "" if p.name == "self" else ": " + (types(p) if types else "Any")
        found.append(f"{star}{p.name}{kind}{'' if p.default is p.empty else ' = ...'}")
    return found


def functions() -> str:
    """cydnn.functional: a class for each function, as it has ``prepare``."""
    lines = [HEAD, "from typing import Any, Generic, Literal, Protocol, Sequence, TypeVar, overload\n",
             "from ..plan import ExecutionPlan",
             "from .function import Function as Function, forget as forget\n",
             'A = TypeVar("A")\nInts = int | Sequence[int]\nFUNCTIONS: dict[str, Function]\n',
             "class Prepared(Generic[A]):", doc(functional.Prepared, 4) + "    plan: ExecutionPlan",
             "    def explain(self) -> str: ...",
             "    def __call__(self, *arrays: Any, out: A | None = ...) -> A: ...\n"]
    for name, one in functional.FUNCTIONS.items():
        types = lambda p: ANNOTATIONS.get(p.annotation, p.annotation)
        own = parameters(one.signature, types, ("out", "dtype", "device", "explain"))
        common = COMMON.removeprefix("*, ") if "*" in own else COMMON
        given = ", ".join(["self", *own, common])
        lines += [f"class _{name}(Protocol):", doc(one, 4).rstrip()]
        for method, result in (("__call__", "A"), ("prepare", "Prepared[A]")):
            lines += ["    @overload", f"    def {method}({given}Literal[False] = ...) -> {result}:",
                      doc(one, 8).rstrip(), "    @overload",
                      f"    def {method}({given}Literal[True]) -> str: ..."]
        lines += [f"{name}: _{name}", doc(one, 0)]
    return "\n".join(lines)


def _on(array: str) -> list:
    """The functions on arrays of a library."""
    lines, kinds = [], {annotation: kind.replace("A", array) for annotation, kind in ANNOTATIONS.items()}
    for name, one in functional.FUNCTIONS.items():
        types = lambda p: kinds.get(p.annotation, p.annotation if p.name != "dtype" else "Any")
        given = ", ".join(parameters(one.signature, types, ("out", "device", "explain")))
        lines += [f"def {name}({given}) -> {array}:", doc(one, 4).rstrip()]
    return lines


def of_jax() -> str:
    """cydnn.jax: the functions on arrays of JAX."""
    return "\n".join([HEAD, "from typing import Any, ContextManager, Sequence\n", "from jax import Array\n",
                      "Ints = int | Sequence[int]\n", *_on("Array"),
                      "def channels_last() -> ContextManager[None]:",
                      '    """Inside, images lie with their channels innermost in memory."""', ""])


def operators() -> str:
    """cydnn.torch: the functions on tensors."""
    lines = [HEAD, "from typing import Any, ContextManager, Sequence\n", "from torch import Tensor\n",
             "from .torch_names import NAMES as NAMES\n", "Ints = int | Sequence[int]\n", *_on("Tensor")]
    return "\n".join([*lines, "def replaced() -> ContextManager[None]:",
                      '    """Inside, functions of torch.nn.functional that ours stand for are ours."""',
                      "def report(reset: bool = ...) -> str:",
                      '    """How often replaced() called what; what went to torch, with the reason."""', ""])


def descriptors() -> str:
    """cydnn.backend: the functions of C and the enumerants."""
    of_c = [name for name in backend.__all__ if name.startswith("cudnnBackend")]
    lines = [HEAD, *[f"from .c_names import {name} as {name}" for name in of_c],
             "from .constants import Constant as Constant, constant as constant, constants as constants",
             "from .descriptor import Descriptor as Descriptor", "from .kinds import KINDS as KINDS",
             "from .table import (OPERATIONS as OPERATIONS, AttributeRow as AttributeRow,",
             "                    Operation as Operation, number as number, words as words)\n"]
    return "\n".join([*lines, *[f"{name}: Constant" for name in constants()], ""])


def v5() -> str:
    """cydnn.cudnn: the functions and constants."""
    lines = [HEAD, "from typing import Any\n", "from .legacy import AlgoPerf as AlgoPerf, Handle as Handle",
             "from .status import CydnnError as CuDNNError\n", "CuDNNAlgoPerf = AlgoPerf", "available: bool",
             "def get_build_version() -> int: ...\n"]
    for name, (one, _) in FUNCTIONS.items():
        given = ", ".join(parameters(inspect.signature(one)))
        lines += [f"def {name}({given}) -> Any:", doc(one, 4).rstrip()]
    return "\n".join([*lines, *[f"{n}: {type(v).__name__}" for n, v in CONSTANTS.items()], ""])


def graph() -> str:
    """The methods of pygraph, whose signatures are made of the operations."""
    lines = [HEAD, "from typing import Any\n", "from .tensor import tensor as _tensor\n", "class pygraph:",
             doc(cydnn.pygraph, 4).rstrip()]
    for name, one in inspect.getmembers(cydnn.pygraph, callable):
        if name.startswith("_") and name != "__init__":
            continue
        is_tensor = name in TENSORS or "PointwiseOperations" in one.__qualname__
        result = "None" if name == "__init__" else "_tensor" if is_tensor else "Any"
        lines += [f"    def {name}({', '.join(parameters(inspect.signature(one)))}) -> {result}:",
                  doc(one, 8).rstrip() if one.__doc__ else "        ..."]
    for name, one in inspect.getmembers(cydnn.pygraph, lambda value: isinstance(value, property)):
        if not name.startswith("_"):
            lines += ["    @property", f"    def {name}(self) -> Any:", doc(one, 8).rstrip()]
    return "\n".join([*lines, *[f"    {n}: Any" for n in vars(cydnn.pygraph()) if not n.startswith("_")], ""])


def package() -> str:
    """The names of cydnn, each from where it is."""
    modules = [n for n in cydnn._MODULES.split() if n != "device"]
    lines = [HEAD, "from contextlib import ContextDecorator as _ContextDecorator",
             "from typing import Any, Protocol as _Protocol", "import numpy as _np",
             f"from . import {', '.join(f'{n} as {n}' for n in modules)}",
             "from .device import DeviceFacts as _DeviceFacts",
             "from .device.buffer import Buffer as _Buffer"]
    for name, room in sorted(cydnn._HOME.items(), key=lambda pair: pair[::-1]):
        lines.append(f"from .{room} import {name} as {name}")
    errors = [n for n in cydnn.__all__ if n not in cydnn._HOME and n != "getLastErrorString"]
    lines += [f"from .status import {name} as {name}" for name in errors]
    return "\n".join([*lines, "from .status import last_error_string as getLastErrorString\n",
                      "__version__: str\n", *callable_module(), ""])


def devices() -> list[str]:
    """What every device has, and the block that chooses one."""
    results = dict(alloc="_Buffer", copy_out="_np.ndarray", create_stream="Any")
    lines = ["class _Device(_Protocol):", '    """What every device has."""', "    name: str",
             "    facts: _DeviceFacts", "    context: Any", "    def compile(self, plan: Any) -> Any: ..."]
    for name, one in inspect.getmembers(CudaDevice, callable):
        if name[0] != "_" and name != "compile" and hasattr(NumpyDevice, name) and hasattr(PtxDevice, name):
            given = ", ".join(parameters(inspect.signature(one)))
            lines += [f"    def {name}({given}) -> {results.get(name)}:",
                      doc(one, 8).rstrip() if one.__doc__ else "        ..."]
    return [*lines, "class _Chosen(_ContextDecorator):", "    def __enter__(self) -> _Device: ...",
            "    def __exit__(self, *error: Any) -> None: ..."]


def callable_module() -> list[str]:
    """cydnn.device, a module that is called too."""
    lines = [*devices(), "class _device:", doc(cydnn.device.Chosen, 4).rstrip(),
             "    def __call__(self, device: Any) -> _Chosen:", doc(cydnn.device.Chosen, 8).rstrip()]
    for name in ("default", "get", "is_device", "names"):
        one = getattr(cydnn.device, name)
        result = dict(is_device="bool", names="list[str]").get(name, "_Device")
        given = ", ".join(["self", *parameters(inspect.signature(one))])
        lines += [f"    def {name}({given}) -> {result}:", doc(one, 8).rstrip()]
    return [*lines, "    def __getattr__(self, name: str) -> Any: ...", "device: _device"]


STUBS = {"__init__.pyi": package, "cudnn.pyi": v5, "functional/__init__.pyi": functions,
         "frontend/pygraph.pyi": graph, "torch.pyi": operators, "jax.pyi": of_jax,
         "backend/__init__.pyi": descriptors}

if __name__ == "__main__":
    for name, make in STUBS.items():
        (PACKAGE / name).write_text(make())
        print(PACKAGE / name)
