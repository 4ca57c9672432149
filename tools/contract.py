"""Kernel contracts: the TOML header of a kernel file, expanded into variants.
Reads text only, needs no compiler.

A kernel file begins with ``/*@kernel … @*/``, a library of device functions for the splicer with
``/*@funcs … @*/``. Every list-valued key that is not reserved is an axis; a variant is one value for each.
docs/design.md §6 has the keys.
"""
from __future__ import annotations

import hashlib
import importlib.util
import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:                      # Python 3.10
    try:
        import tomli as tomllib
    except ModuleNotFoundError:
        raise SystemExit("build_ptx: with Python 3.10 the package tomli must be installed: "
                         "pip install 'cydnn[ptx]', or tomli alone") from None

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = next(p for p in (ROOT / "cydnn", ROOT.parent) if (p / "kernels").is_dir())    # or in a wheel


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# by path: the package may not be built yet
files = _load(PACKAGE / "files.py")
_expressions, kinds, seal = (_load(PACKAGE / "kernels" / name)
                             for name in ("expressions.py", "kinds.py", "seal.py"))
expression, DTYPES = _expressions.expression, tuple(_expressions.DTYPE_BYTES)

# key -> (default, types it may have); None: must be given
KEYS = {"name": (None, str), "about": (None, str), "targets": (["sm_75"], list), "params": (None, list),
        "block": (None, list), "grid": (None, list), "smem": (0, (int, str)), "extra": ([], list),
        "needs": ([], list), "marks": ([], list), "when": ([], list), "problems": ([], list),
        "cluster": ([], list), "cooperative": (False, (bool, str)), "dependent": (False, bool)}
ATTRIBUTES = ("cluster", "cooperative", "dependent")         # of a launch; a row has those that are asked for
FUNCS_DEFAULTS = {"params": [], "block": [1, 1, 1], "grid": [1, 1, 1]}

HEADER = re.compile(r"\A\s*/\*@(kernel|funcs)\s*\n(.*?)@\*/", re.S)
TARGET = re.compile(r"sm_\d{2,3}[af]?")
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)


class ContractError(Exception):
    """A contract, or a kernel that breaks its contract; the text names the file and what was expected."""


@dataclass(frozen=True)
class Variant:
    """One kernel to compile: a contract with a value for each axis."""
    name: str
    kind: str                                    # "kernel" or "funcs"
    source: str                                  # relative to kernels_src, with forward slashes
    source_sha256: str      # of the file behind its header, everything it includes, and the compiler flags
    targets: tuple
    axes: dict
    contract: dict                               # what the manifest says of it, without the images
    when: tuple = ()                             # conditions over axes and `sm`

    def allows(self, target: str) -> bool:
        """Whether the contract's ``when`` lets it be compiled for a target."""
        values = {**self.axes, "sm": _sm(target)}
        try:
            return all(expression(condition)(values) for condition in self.when)
        except ValueError as error:
            raise ContractError(f"{self.source}: when: {error}") from None

    @property
    def family(self) -> str:
        return self.source.split("/")[0]

    def macros(self) -> str:
        """The header it is compiled with: KERNEL, each axis, and Acc_<axis> for each type.

        A header (nvcc -include) and not -D, because it comes after cuda_runtime.h,
        whose templates say T and U.
        """
        macros = {"KERNEL": self.name, **self.axes}
        macros.update(
            {f"Acc_{axis}": accumulator(value) for axis, value in self.axes.items() if value in DTYPES})
        return "".join(f"#define {name} {str(value).lower() if isinstance(value, bool) else value}\n"
                       for name, value in macros.items())


def accumulator(dtype: str) -> str:
    """acc_t of lib/types.cuh."""
    return {"f64": "double", "i32": "int"}.get(dtype, "float")


# ---- From a file to its variants ----

def read(path: Path, src: Path, flags: str) -> list[Variant]:
    """The variants of one kernel file, in the order of its axes."""
    source = path.relative_to(src).as_posix()
    header = HEADER.match(path.read_text())
    if not header:
        raise ContractError(
            f"{source}: must begin with /*@kernel, TOML, @*/ (or /*@funcs); got {path.read_text()[:30]!r}")
    try:
        raw = tomllib.loads(header[2])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ContractError(f"{source}: the header must be TOML; {error}") from None
    raw = {**(FUNCS_DEFAULTS if header[1] == "funcs" else {}), **raw}
    contract = {key: _value(source, raw, key) for key in KEYS}
    axes = {key: _axis(source, key, value) for key, value in raw.items() if key not in KEYS}
    digest = source_hash(path, src, flags)
    variants = []
    for values in itertools.product(*axes.values()):
        variant = _expand(source, header[1], digest, contract, dict(zip(axes, values)))
        if variant.targets:
            variants.append(variant)
    names = [v.name for v in variants]
    if len(set(names)) < len(names):
        raise ContractError(f"{source}: name must have every axis in braces, so that variants differ; "
                            f"got {contract['name']!r}")
    return variants


def _value(source, raw, key):
    default, types = KEYS[key]
    value = raw.get(key, default)
    if not isinstance(value, types):
        what = {list: "a list", bool: "true or false", (bool, str): "true, false or an expression"}.get(
            types, "a string or number")
        raise ContractError(f"{source}: {key} must be {what}; got {value!r}")
    if key in ("grid", "block", "cluster") and len(value) != 3 and (value or key != "cluster"):
        raise ContractError(f"{source}: {key} must have 3 entries; got {value!r}")
    return value


def _axis(source, key, value):
    if not isinstance(value, list) or not value or not key.isidentifier():
        raise ContractError(
            f"{source}: {key} must be one of {', '.join(KEYS)}, or an axis (a list of values); got {value!r}")
    return value


def _expand(source, kind, digest, contract, axes):
    def fill(text):
        return re.sub(r"\{(\w+)\}", lambda m: str(axes[m[1]]), text)
    try:
        name, about = fill(contract["name"]), fill(contract["about"])
    except KeyError as error:
        raise ContractError(
            f"{source}: name and about may have {{axis}} for an axis; got {{{error.args[0]}}}") from None
    if not name.isidentifier():
        raise ContractError(f"{source}: name must be an identifier; got {name!r}")
    smem = contract["smem"]
    params = layout(source, [parameter(source, text, axes) for text in contract["params"]])
    row = {"source": source, "source_sha256": digest, "about": about, "params": params,
           "param_bytes": params[-1]["offset"] + params[-1]["bytes"] if params else 0, "axes": axes,
           **{key: contract[key] for key in ("block", "grid", "extra")},
           "smem": "".join(_texts(source, "smem", [smem], axes)) if isinstance(smem, str) else smem,
           **{key: _texts(source, key, contract[key], axes) for key in ("needs", "marks")},
           **{key: contract[key] for key in ATTRIBUTES
              if contract[key] and not _is_alone(contract[key], axes)},
           "problems": _texts(source, "problems", contract["problems"], axes)}
    _check(source, contract, row)
    variant = Variant(name, kind, source, digest, (), axes, row, tuple(contract["when"]))
    targets = [target for target in contract["targets"] if variant.allows(target)]
    _check_cluster(source, row, targets)
    return replace(variant, targets=tuple(targets), contract={**row, "targets": targets})


def _is_alone(value, axes) -> bool:
    """Whether a cluster is of one block for these axes: no cluster."""
    return isinstance(value, list) and all(str(axes.get(text, text)) == "1" for text in value)


def _check_cluster(source, row, targets):
    old = [target for target in targets if _sm(target) < 90]
    if "cluster" in row and old:
        raise ContractError(f"{source}: cluster must be for sm_90 and newer; got targets {', '.join(old)}")


def _texts(source, key, lines, axes) -> list[str]:
    """Texts of a contract for a variant: ``{expression over the axes}`` replaced by its value;
    a line that becomes empty is none."""
    def value(match):
        try:
            return str(expression(match[1])(axes))
        except ValueError as error:
            raise ContractError(f"{source}: {key}: {error}") from None
    return [line for text in lines if (line := " ".join(re.sub(r"\{([^{}]*)\}", value, text).split()))]


def _check(source, contract, row):
    """Expressions may use parameters that are numbers, axes and extra names; marks
    need room for the splicer."""
    for target in contract["targets"]:
        if not TARGET.fullmatch(target):
            raise ContractError(f"{source}: targets must be like sm_80, sm_90a, sm_100f; got {target!r}")
    for condition in contract["when"]:
        _check_names(source, "when", condition, {*row["axes"], "sm"})
    numbers = {p["name"] for p in row["params"] if kind_of(source, p["type"]).pack is not None}
    known = {*row["axes"], *row["extra"], *numbers}
    for key in ("block", "grid", "needs", "cluster"):
        for text in row.get(key, ()):
            _check_names(source, key, text, known)
    _check_names(source, "smem", row["smem"], known)
    if isinstance(row.get("cooperative"), str):
        _check_names(source, "cooperative", row["cooperative"], known)
    has_room = bool(row["params"]) and row["params"][-1]["type"] == "Fuse"
    if bool(row["marks"]) != has_room:
        raise ContractError(
            f"{source}: a kernel with marks (and no other) must have `Fuse fuse` as its last parameter; "
            f"got marks {row['marks']}, params {contract['params']}")


def _sm(target: str) -> int:
    return int(re.sub(r"\D", "", target))


def _check_names(source, key, text, known):
    try:
        unknown = expression(text).names - known
    except ValueError as error:
        raise ContractError(f"{source}: {key}: {error}") from None
    if unknown:
        raise ContractError(
            f"{source}: {key} {text!r} may use {', '.join(sorted(known))}; got {', '.join(sorted(unknown))}")


# ---- Parameters ----

def parameter(source: str, text: str, axes: dict) -> dict:
    """``"const T* x"`` with T = f16 becomes ``{name: x, type: const f16*}``."""
    words = re.fullmatch(r"\s*(.*?[\s*>])\s*(\w+)\s*", text.replace("__restrict__", " "))
    if not words:
        raise ContractError(f"{source}: a parameter must be `type name`; got {text!r}")
    kind = " ".join(words[1].split()).replace(" *", "*").replace("< ", "<").replace(" >", ">")
    kind = re.sub(r"\bAcc_(\w+)", lambda m: accumulator(axes[m[1]]) if m[1] in axes else m[0], kind)
    kind = re.sub(r"\w+", lambda m: str(axes.get(m[0], m[0])), kind)
    kind = re.sub(r"\s*,\s*", ", ", kind).replace("unsigned int", "unsigned")
    return {"name": words[2], "type": kind if kind.endswith("*") else kind.removeprefix("const ")}


def kind_of(source: str, text: str):
    """The row of a parameter type."""
    try:
        return kinds.find(text)
    except ValueError as error:
        raise ContractError(f"{source}: {error}") from None


def layout(source: str, params: list[dict]) -> list[dict]:
    """Give each parameter its offset: in order, each at its natural alignment. That is what nvcc does."""
    end, rows = 0, []
    for row in params:
        kind = kind_of(source, row["type"])
        offset = -(-end // kind.align) * kind.align
        rows.append({**row, "offset": offset, "bytes": kind.bytes})
        end = offset + kind.bytes
    return rows


# ---- Hashes ----

def includes(path: Path, src: Path) -> list[Path]:
    """The file and every file that it includes with quotes, each once."""
    found, queue = [], [path]
    while queue:
        file = queue.pop().resolve()
        if file in found:
            continue
        found.append(file)
        for name in INCLUDE.findall(file.read_bytes()):
            near, root = file.parent / name.decode(), src / name.decode()
            if not near.is_file() and not root.is_file():
                raise ContractError(f"{path.name}: {file.name} includes {name.decode()!r}, "
                                    f"which must be beside it or in {src}")
            queue.append(near if near.is_file() else root)
    return found


def source_hash(path: Path, src: Path, flags: str) -> str:
    """One hash of everything that decides the PTX except axes and target, which are
    in the manifest beside it.

    Headers are left out: what of them the compiler sees is in the manifest too, so
    new words need no new images.
    """
    digest = hashlib.sha256(flags.encode())
    for file in sorted(includes(path, src)):
        text = HEADER.sub("", file.read_bytes().replace(b"\r\n", b"\n").decode())
        digest.update(file.relative_to(src.resolve()).as_posix().encode() + b"\0" + text.encode())
    return digest.hexdigest()


# ---- The PTX against its contract ----

def check_entry(text: str, variant: Variant):
    """One entry, with the name, parameters and block of the contract."""
    entries = re.findall(r"^\.(?:visible|weak) \.entry (\w+)\((.*?)\)(.*?)^\{", text, re.M | re.S)
    if [e[0] for e in entries] != [variant.name]:
        raise ContractError(f"{variant.source}: must have one entry, `extern \"C\" __global__ void KERNEL`; "
                            f"got {[e[0] for e in entries]}")
    _, declared, directives = entries[0]
    found = [parameter_size(line) for line in declared.split(",") if line.strip()]
    rows = [kind_of(variant.source, row["type"]) for row in variant.contract["params"]]
    wanted = [(kind.bytes, kind.align) for kind in rows]
    if found != wanted:
        raise ContractError(
            f"{variant.source}: params must be those of KERNEL; the contract has (bytes, alignment) {wanted} "
            f"({', '.join(p['type'] + ' ' + p['name'] for p in variant.contract['params'])}), "
            f"the PTX {found}")
    marked = sorted(set(re.findall(r"// @fuse\.(\w+) ", text)))
    if marked != sorted(variant.contract["marks"]):
        raise ContractError(f"{variant.source}: marks must list what the kernel marks, {marked}; got "
                            f"{variant.contract['marks']}")
    for behind in re.split(r"// @fuse\.epilogue [^\n]*", text)[1:]:
        same_block = re.split(r"^\s*(?:\$?\w+:|(?:@!?%\w+\s+)?bra\b)", behind, maxsplit=1, flags=re.M)[0]
        if not re.search(r"st\.global", same_block):
            raise ContractError(f"{variant.source}: an epilogue mark must be followed by the kernel's store "
                                "in the same block, which the splicer can leave out; got none")
    _check_attributes(text, directives, variant)
    bound = re.search(r"\.maxntid ([\d, ]+)", directives)
    block = variant.contract["block"]
    if bound and all(isinstance(b, int) for b in block):
        most = product(int(n) for n in bound[1].split(","))
        if product(block) > most:
            raise ContractError(f"{variant.source}: block must fit __launch_bounds__({most}); got {block}")


def _check_attributes(text: str, directives: str, variant: Variant):
    """A cluster that is compiled in is the one of the contract; who may begin early waits."""
    compiled = re.search(r"\.reqnctapercluster ([\d, ]+)", directives)
    cluster = variant.contract.get("cluster")
    if compiled and cluster and [int(n) for n in compiled[1].split(",")] != cluster:
        raise ContractError(f"{variant.source}: cluster must be the one that is compiled in, {compiled[1]}; "
                            f"got {cluster}")
    target = re.search(r"^\.target (\w+)", text, re.M)[1]
    if variant.contract.get("dependent") and _sm(target) >= 90 and "griddepcontrol.wait" not in text:
        raise ContractError(f"{variant.source}: a dependent kernel must wait for the launch before it with "
                            "griddepcontrol.wait; got none")


def parameter_size(line: str) -> tuple[int, int]:
    """(bytes, alignment): ``.param .u64 .ptr .align 1 k_param_0`` is (8, 8),
    ``.param .align 4 .b8 k_param_2[12]`` is (12, 4)."""
    array = re.search(r"\.align (\d+) \.b8 \w+\[(\d+)\]", line)
    if array:
        return int(array[2]), int(array[1])
    size = int(re.search(r"\.[busf](8|16|32|64)\b", line)[1]) // 8
    return size, size


def product(numbers) -> int:
    out = 1
    for n in numbers:
        out *= n
    return out
