#!/usr/bin/env python3
"""Compile kernels_src/ into ptx/: one compressed PTX image per kernel variant
and target, and ptx/manifest.json.

    python tools/build_ptx.py                    what changed, all kernels, the targets of their contracts
    python tools/build_ptx.py --only softmax     kernels whose name or file has "softmax" in it
                                                 (or a pattern: 'conv_*_f16')
    python tools/build_ptx.py --arch sm_120      also for your card
    python tools/build_ptx.py --arch sm_120 --overlay DIR    those alone, into a folder beside the shipped
                                                 one; `cydnn ptx --build` does that
    python tools/build_ptx.py --check            does ptx/ match kernels_src/?  needs no compiler;
                                                 exit code 1 if not
    python tools/build_ptx.py --reproduce        does the compiler make the images of ptx/ again? Prints those
                                                 that differ; exit code 1 if any. See reproduce.py
    python tools/build_ptx.py --list             variants, targets, registers, spills
    python tools/build_ptx.py --assemble         machine code for the card here, or --arch: see assemble.py

Needs nvcc 13.0: in PATH, in CUDA_HOME, or `pip install "cuda-toolkit[nvcc,cccl]==13.0.*"`.
Several runs may go on at once.
"""
from __future__ import annotations

import argparse
import copy
import fnmatch
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import contract
from assemble import assemble, progress
from contract import ROOT, ContractError, Variant, check_entry, seal
from packs import (groups_of, locked, manifest_text, problems_text, read_manifest, repack, text_of,
                   write_manifest)
from reproduce import SECTIONS, reproduce

NVCC_RELEASE = "13.0"
FLAGS = "-ptx -std=c++17 -O3"
FUNCS_FLAGS = FLAGS + " -rdc=true"               # keeps the bodies of device functions

# The lowest .version that ptxas takes for a target, and the steps up from there.
LADDER = "6.5 7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0".split()
FLOOR = {"sm_75": "6.5", "sm_80": "7.0", "sm_86": "7.1", "sm_89": "7.8", "sm_90": "7.8", "sm_90a": "8.0",
         "sm_100": "8.6", "sm_100a": "8.6", "sm_120": "8.7", "sm_120a": "8.7", "sm_100f": "8.8",
         "sm_103": "8.8", "sm_120f": "8.8", "sm_121": "8.8", "sm_110": "9.0"}


# ---- The compiler ----

class Compiler:
    """nvcc and ptxas of one installation."""

    def __init__(self, *, any_nvcc=False):
        self.nvcc = self._find()
        beside = Path(self.nvcc).with_name("ptxas")
        self.ptxas = str(beside) if beside.is_file() else shutil.which("ptxas") or str(beside)
        said = subprocess.run([self.nvcc, "--version"], capture_output=True, text=True, check=True).stdout
        self.version = re.search(r"release \d+\.\d+, V([\d.]+)", said)[1]
        if not self.version.startswith(NVCC_RELEASE + ".") and not any_nvcc:
            raise ContractError(
                f"{self.nvcc}: must be release {NVCC_RELEASE}, because others write other text; "
                f"got {self.version}. Use --any-nvcc for images that you do not commit")

    @staticmethod
    def _find() -> str:
        homes = [Path(os.environ[v]) / "bin" for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
        wheels = ([bin for path in sys.path for bin in Path(path).glob("nvidia/*/bin")]
                  if not shutil.which("nvcc") else [])
        for place in [shutil.which("nvcc"), *[str(d / "nvcc") for d in homes + wheels]]:
            if place and os.access(place, os.X_OK):
                return place
        raise ContractError("nvcc: must be in PATH, in CUDA_HOME/bin, or installed with "
                            f'`pip install "cuda-toolkit[nvcc,cccl]=={NVCC_RELEASE}.*"`; got none of them')

    def refuse(self, targets):
        """Raise ContractError for a target that nvcc does not know, once and not for every variant."""
        known = subprocess.run([self.nvcc, "--list-gpu-arch"], capture_output=True, text=True).stdout.split()
        for target in targets:
            if known and target.replace("sm_", "compute_").rstrip("af") not in known:
                raise ContractError(f"--arch must be one that nvcc {self.version} compiles for, "
                                    f"{' '.join(known).replace('compute_', 'sm_')}; got {target}")

    def compile(self, variant: Variant, target: str, src: Path) -> str:
        """The normalised PTX of a variant."""
        with tempfile.TemporaryDirectory() as work:
            macros, out = Path(work) / "macros.h", Path(work) / "out.ptx"
            macros.write_text(variant.macros())
            run = subprocess.run(
                [self.nvcc, *flags_of(variant.kind).split(), f"-arch={target.replace('sm_', 'compute_')}",
                 "-I", str(src), "-include", str(macros), str(src / variant.source), "-o", str(out)],
                capture_output=True, text=True)
            if run.returncode:
                raise ContractError(
                    f"{variant.source}: {variant.name} must compile for {target}; nvcc says\n{run.stderr}")
            return normalise(out.read_text(), variant)

    def assemble(self, text: str, target: str, kind: str) -> tuple[bool, str]:
        """Whether ptxas takes the text, and what it says."""
        with tempfile.TemporaryDirectory() as work:
            path = Path(work) / "in.ptx"
            path.write_text(text)
            run = subprocess.run([self.ptxas, "-v", f"-arch={target}", *(["-c"] if kind == "funcs" else []),
                                  str(path), "-o", str(Path(work) / "out.cubin")],
                                 capture_output=True, text=True)
            return run.returncode == 0, run.stderr + run.stdout

    def lower(self, text: str, target: str, variant: Variant) -> tuple[str, str, str]:
        """The text with the lowest .version that assembles, that version, and what ptxas says of it."""
        step, said = LADDER.index(FLOOR.get(target, LADDER[0])), ""
        while step < len(LADDER):
            candidate = re.sub(r"(?m)^\.version .*$", f".version {LADDER[step]}", text, count=1)
            good, said = self.assemble(candidate, target, variant.kind)
            if good:
                return candidate, LADDER[step], said
            asked = [LADDER.index(v)
                     for v in re.findall(r"PTX ISA \.?version (\d+\.\d+) or later", said) if v in LADDER]
            step = max([step + 1, *asked])
        raise ContractError(
            f"{variant.source}: {variant.name} must assemble for {target}; ptxas says\n{said}")


def flags_of(kind: str) -> str:
    return FUNCS_FLAGS if kind == "funcs" else FLAGS


def normalise(text: str, variant: Variant) -> str:
    """Without the compiler's banner, and without the hint which bytes of a load are used: only new drivers
    read it. Refused if its text would depend on the build path."""
    text = re.sub(r"\A(//.*\n)+", "", text).lstrip()
    text = re.sub(r'\n[ \t]*\.pragma[ \t]+"used_bytes_mask[^\n]*', "", text)
    if "_INTERNAL_" in text or "_GLOBAL__N__" in text:
        raise ContractError(f"{variant.source}: device functions and variables must have no internal linkage "
                            "(static, unnamed namespace): their names would depend on the build path. "
                            "Use DEVICE functions in namespace cydnn")
    return text


def usage(said: str) -> dict:
    """What ptxas -v says, as numbers (the highest where it speaks of several functions)."""
    def most(pattern):
        return max((int(n) for n in re.findall(pattern, said)), default=0)
    return {"registers": most(r"Used (\d+) registers"), "smem_static": most(r"(\d+) bytes smem"),
            "spills": most(r"(\d+) bytes spill stores") + most(r"(\d+) bytes spill loads")}


def slow_wgmma(text: str, said: str) -> list[str]:
    """What ptxas says of a text with wgmma that makes it many times slower: products that wait for each
    other (C7510 to C7520), registers that do not move (C7508), spills."""
    if "wgmma." not in text:
        return []
    warned = re.findall(r"[^\n]*\(C75(?:08|1\d|20)\)[^\n]*", said)
    return warned + [f"{usage(said)['spills']} bytes of spills"] * bool(usage(said)["spills"])


def build_image(compiler: Compiler, variant: Variant, target: str, src: Path) -> tuple[bytes, dict]:
    """Compile and check one image: its text, and what the manifest says of it."""
    text = compiler.compile(variant, target, src)
    if variant.kind == "kernel":
        check_entry(text, variant)
    text, version, said = compiler.lower(text, target, variant)
    for reason in slow_wgmma(text, said):
        raise ContractError(f"{variant.source}: {variant.name} must run at the speed of wgmma; "
                            f"ptxas says {reason.strip()}")
    return text.encode(), {"sha256": hashlib.sha256(text.encode()).hexdigest(), "version": version,
                           "nvcc": compiler.version, **usage(said)}


# ---- Sources and manifest ----

class Tree:
    """All variants of kernels_src/ that the patterns select, and the files whose contract is wrong."""

    def __init__(self, src: Path, patterns):
        self.src, self.patterns, self.variants, self.errors, self.broken, self.all_names = (
            src, patterns, [], [], {}, set())
        for path in sorted(p for p in src.rglob("*.cu") if p.relative_to(src).parts[0] != "lib"):
            source = path.relative_to(src).as_posix()
            try:
                kind = contract.HEADER.match(path.read_text())
                found = contract.read(path, src, flags_of(kind[1] if kind else "kernel"))
            except ContractError as error:
                self.broken[source] = str(error)
                continue
            for variant in found:
                if variant.name in self.all_names:
                    self.errors.append(f"{source}: name must be unique among all kernels; got {variant.name}")
                self.all_names.add(variant.name)
            self.variants += [v for v in found if self.selects(v.name, source)]
        self.errors += [error for source, error in self.broken.items() if self.selects("", source)]
        if patterns and not self.variants and not self.errors:
            self.errors += [f"--only must match a variant or a file; got {', '.join(patterns)}",
                            *self.broken.values()]

    def selects(self, name: str, source: str) -> bool:
        return (not self.patterns
                or any(fnmatch.fnmatch(text, f"*{p}*") for p in self.patterns for text in (name, source)))


# of a row: what an image is made from or checked against
COMPILED = ("source", "source_sha256", "axes", "params", "block", "marks")


def row_of(manifest: dict, variant: Variant) -> dict:
    """The manifest's row when its images still fit the contract and the sources, else nothing."""
    row = manifest[SECTIONS[variant.kind]].get(variant.name, {})
    return row if row and all(row[key] == variant.contract[key] for key in COMPILED) else {}


def is_current(manifest: dict, variant: Variant) -> bool:
    """The manifest says what the contract says, also where no image depends on it."""
    return {**row_of(manifest, variant), "images": None} == {**variant.contract, "images": None}


def missing_images(manifest: dict, variant: Variant, targets, out: Path, *, any_nvcc=False) -> list[str]:
    """The targets that have no image, or none of the right compiler."""
    images = row_of(manifest, variant).get("images", {})
    return [t for t in targets if t not in images or not (out / images[t]["file"]).is_file()
            or not (any_nvcc or images[t]["nvcc"].startswith(NVCC_RELEASE + "."))]


def merge(out: Path, tree: Tree, done: list, nvcc: str):
    """Put finished images into the manifest and drop what vanished."""
    with locked(out):
        manifest = read_manifest(out)
        before = groups_of(copy.deepcopy(manifest))
        for variant, target, (_, facts) in done:
            images = {**row_of(manifest, variant).get("images", {}), target: facts}
            manifest[SECTIONS[variant.kind]][variant.name] = {**variant.contract, "images": images}
        for variant in (v for v in tree.variants if row_of(manifest, v) and not is_current(manifest, v)):
            images = {t: image for t, image in row_of(manifest, variant)["images"].items()
                      if variant.allows(t)}
            manifest[SECTIONS[variant.kind]][variant.name] = {**variant.contract, "images": images}
        for section in SECTIONS.values():
            manifest[section] = {name: row for name, row in manifest[section].items()
                                 if name in tree.all_names or row["source"] in tree.broken
                                 or not tree.selects(name, row["source"])}
        manifest["nvcc"] = nvcc or manifest["nvcc"]
        repack(out, before, manifest, {(v.name, target): text for v, target, (text, _) in done})
        write_manifest(out, manifest)


def files_of(manifest: dict) -> set[str]:
    return {image["file"] for section in SECTIONS.values() for row in manifest[section].values()
            for image in row["images"].values()}


# ---- Commands ----

def build(tree: Tree, out: Path, arguments) -> list[str]:
    """Compile what is missing; the errors."""
    manifest, jobs = read_manifest(out), []
    for variant in tree.variants:
        mine = [] if arguments.overlay else variant.targets
        targets = [*mine, *[t for t in arguments.arch if variant.allows(t)
                            and not (arguments.overlay and t in variant.targets)]]
        todo = (targets if arguments.force
                else missing_images(manifest, variant, targets, out, any_nvcc=arguments.any_nvcc))
        jobs += [(variant, target) for target in dict.fromkeys(todo)]
    compiler = Compiler(any_nvcc=arguments.any_nvcc) if jobs else None
    if compiler:
        compiler.refuse(arguments.arch)
    errors, done = list(tree.errors), []
    pool = ThreadPoolExecutor(arguments.jobs)
    try:
        futures = {pool.submit(build_image, compiler, *job, tree.src): job for job in jobs}
        for future in progress(as_completed(futures), len(jobs)):
            try:
                done.append((*futures[future], future.result()))
            except ContractError as error:
                errors.append(str(error))
    finally:                                     # also on Ctrl-C: what is finished is kept
        pool.shutdown(cancel_futures=True)
        merge(out, tree, done, compiler.version if compiler else "")
    print(f"{len(done)} images built, {len(tree.variants)} variants selected, {len(errors)} errors")
    return errors


def check(tree: Tree, out: Path) -> list[str]:
    """Every way in which ptx/ does not match kernels_src/; compares hashes, needs no compiler."""
    manifest, wrong = read_manifest(out), list(tree.errors)
    if (out / "manifest.json").is_file() and (
            (out / "manifest.json").read_text() != manifest_text(manifest)
            or not (out / seal.PROBLEMS).is_file()
            or (out / seal.PROBLEMS).read_text() != problems_text(manifest)):
        wrong.append("manifest.json must be as build_ptx.py writes it, with its seal; "
                     "run build_ptx.py, which compiles nothing for that")
    for variant in tree.variants:
        missing = missing_images(manifest, variant, variant.targets, out)
        if missing:
            state = ("must be rebuilt, its source or contract changed" if not row_of(manifest, variant)
                     else "must have its images")
            wrong.append(f"{variant.name} {state}; got none for {', '.join(missing)}")
        elif not is_current(manifest, variant):
            wrong.append(f"{variant.name} must be in the manifest as its contract says; "
                         "run build_ptx.py, which compiles nothing for that")
    for section in SECTIONS.values():
        for name, row in manifest[section].items():
            if not tree.selects(name, row["source"]):
                continue
            if name not in tree.all_names and row["source"] not in tree.broken:
                wrong.append(f"{name} is in the manifest and has no source; {row['source']} does not make it")
            wrong += [f"{image['file']}: must be the text the manifest names; its sha256 differs"
                      for image in row["images"].values() if (out / image["file"]).is_file()
                      and text_hash(out, image) != image["sha256"]]
    if not tree.patterns and out.is_dir():
        strays = {p.relative_to(out).as_posix() for p in out.rglob("*.ptx.xz")
                  if not p.name.startswith(".")} - files_of(manifest)
        wrong += [f"{file}: no kernel of the manifest has this image; delete it" for file in sorted(strays)]
    return wrong


def text_hash(out: Path, image: dict) -> str:
    try:
        return hashlib.sha256(text_of(out, image)).hexdigest()
    except (lzma.LZMAError, EOFError, ValueError):
        return "unreadable"


def show(tree: Tree, out: Path) -> list[str]:
    """Print a line per variant and target."""
    manifest = read_manifest(out)
    for variant in tree.variants:
        images = row_of(manifest, variant).get("images", {})
        for target in dict.fromkeys([*variant.targets, *images]):
            facts = images.get(target)
            print(f"{variant.name:48} {target:8}", "to build" if not facts else
                  f"PTX {facts['version']}  {facts['registers']:3} registers  "
                  f"{facts['smem_static']:5} B smem  {facts['spills']} B spills")
    return list(tree.errors)


def command(tree: Tree, arguments) -> list[str]:
    """Do what is asked for; the errors."""
    if arguments.assemble:
        return assemble(lambda name: tree.selects(name, ""), Compiler(any_nvcc=True).ptxas, arguments)
    if arguments.reproduce:
        return reproduce(tree, Compiler(any_nvcc=arguments.any_nvcc), arguments.out, arguments.jobs)
    return (check(tree, arguments.out) if arguments.check else show(tree, arguments.out) if arguments.list
            else build(tree, arguments.out, arguments))


def main(argv=None) -> int:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--only", action="append", default=[], metavar="PATTERN",
                     help="part of a variant's name or file; may be repeated")
    cli.add_argument("--arch", action="append", default=[], metavar="sm_XX",
                     help="one more target; may be repeated")
    cli.add_argument("--overlay", type=Path, metavar="DIR", help="compile for --arch alone, into this folder")
    cli.add_argument("--check", action="store_true", help="compare hashes only")
    cli.add_argument("--reproduce", action="store_true", help="compile all and compare")
    cli.add_argument("--list", action="store_true", help="print what there is")
    cli.add_argument("--assemble", action="store_true", help="machine code into the user's cache folder")
    cli.add_argument("--force", action="store_true", help="compile also what did not change")
    cli.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="compilers at once")
    cli.add_argument("--any-nvcc", action="store_true", help=f"allow a release other than {NVCC_RELEASE}")
    cli.add_argument("--src", type=Path, default=ROOT / "kernels_src", help=argparse.SUPPRESS)
    cli.add_argument("--out", type=Path, default=ROOT / "ptx", help="where to write (default: ptx/)")
    arguments = cli.parse_args(argv)
    for arch in arguments.arch:
        if not contract.TARGET.fullmatch(arch):
            cli.error(f"--arch must be like sm_80, sm_90a, sm_120f; got {arch}")
    if arguments.overlay:
        arguments.out = arguments.overlay
    tree = Tree(arguments.src.resolve(), arguments.only)
    try:
        errors = command(tree, arguments)
    except ContractError as error:
        errors = [str(error)]
    for error in errors:
        print(f"build_ptx: {error}", file=sys.stderr)
    if arguments.check and not errors:
        print(f"{arguments.out}: {len(tree.variants)} variants match {arguments.src}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
