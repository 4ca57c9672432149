"""``python -m cydnn info | explain | bench | tune | ptx``.
Each takes ``--json``, prints a line to repeat it where that helps, exits non-zero on failure."""
from __future__ import annotations

import argparse
import json
import os
import sys

from . import __version__
from .about import installation, ptx_state
from .status import BadParam, CydnnError, require


def info(args) -> int:
    """Versions, driver, devices, PTX check; what would be used and why."""
    facts = installation()
    if args.json:
        print(json.dumps(facts, indent=1))
    else:
        for key in ("cydnn", "python", "numpy", "cuda-bindings", "driver"):
            print(f"{key:<14}{facts[key]}")
        for d in facts["devices"]:
            gpu = f", sm_{d['sm']}, {d['sms']} SMs, {d['l2_bytes'] >> 20} MiB L2" if d["sm"] else ""
            print(f"{'device':<14}{d['name']}: {d['product']}{gpu}")
        print(f"{'interpreters':<14}{' '.join(facts['interpreters']) or 'none'}")
        for key in ("ptx", "overlay", "tuned", "errata"):
            print(f"{key:<14}{facts[key]}")
        print(f"{'would use':<14}{facts['default']}: {facts['why']}")
        for name in ("libraries", "caches", "extras", "set"):
            print(f"{name:<14}" + (", ".join(f"{k} {v}" for k, v in facts[name].items()) or "none"))
    return 0 if facts["ptx"].startswith("ok") else 1


def bench(args) -> int:
    """Time problems; each line is a problem text, or @file with one a line."""
    from . import bench as benches, device
    require(args.repeat >= 1, f"bench: --repeat must be >= 1; got {args.repeat}")
    lines = _problems("bench", args.problem)
    rows = benches.bench(lines, args.device, args.against, args.repeat)
    if args.json:
        print(json.dumps(benches.as_json(rows), indent=1))
    else:
        f = device.get(args.device).facts
        print(f"# {f.name}; {benches.measured(device.get(args.device), args.repeat)}; "
              f"peer: {args.against or 'none'}")
        good = [row for row in rows if row.engine]
        if good:
            print(benches.table(good, args.markdown))
        for row in rows:
            for sentence in [*([] if row.engine else [row.note]), *row.reasons]:
                print(f"{row.problem}: {sentence.strip()}", file=sys.stderr)
    return 1 if any(r.us != r.us for r in rows) else 0


def _problems(verb: str, given) -> list[str]:
    """Problem lines, of which some stand in files."""
    found = (_lines(verb, text[1:]) if text.startswith("@") else [text] for text in given)
    lines = [_unmarked(verb, line) for some in found for line in some if line]
    require(lines, f"{verb}: there must be at least one problem; got {given}")
    return lines


def _unmarked(verb: str, line: str) -> str:
    """A problem as it is given. Raises BadParam for the name of a file."""
    require(not os.path.isfile(line) and not line.endswith(".txt"),
            f"{verb}: a file of problem lines must be given as @file; got {line!r}: write @{line}, a problem "
            "a line, such as softmax_fwd 64x4096 bf16")
    return line


def _lines(verb: str, path: str) -> list[str]:
    """The problems of a file: one a line, comments behind #."""
    try:
        with open(path) as file:
            return [line.split("#")[0].strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise BadParam(f"{verb}: @file must be a file of problem lines; "
                       f"got {path!r} ({getattr(error, 'strerror', 'not text')})") from None


def explain(args) -> int:
    """The plan of problems in words: what runs, why, how fast it should be, and was. ``--device h200``: of a
    card that is not there."""
    from . import bench as benches, plan
    from .heuristics import Wish
    from pathlib import Path
    from . import files
    from .bench.look import mermaid, page
    from .ops import Problem
    wish = Wish(mode=args.mode)
    graphs = [benches.graph_of(Problem.parse(line)) for line in _problems("explain", args.problem)]
    if args.html:
        text = page([(plan.explain(graph, args.device, wish, True), mermaid(graph, args.device, wish))
                     for graph in graphs])
        files.write(Path(args.html), text.encode())
        return 0
    said = [mermaid(graph, args.device, wish) if args.mermaid else
            plan.explain(graph, args.device, wish, args.json) for graph in graphs]
    print(json.dumps(said, indent=1) if args.json else "\n\n".join(said))
    return 0


def tune(args) -> int:
    """Measure the choices of problems against each other, and keep the fastest that is right in the tuned
    table, where mode B finds it."""
    from pathlib import Path
    from . import bench as benches, device
    from .heuristics import tuned
    place, rows, wrong = Path(args.table) if args.table else tuned.place(), [], 0
    if not args.dry_run and device.get(args.device).context is not None:
        tuned.check(place)
    for line in _problems("tune", args.problem):
        try:
            found = benches.tuned(line, device.get(args.device), args.most)
        except CydnnError as error:
            print(f"cydnn: {line}: {error.args[0]}", file=sys.stderr)
            wrong += 1
            continue
        rows.append(found.as_data())
        if not args.json:
            print(f"{line}\n{found}")
        if not args.dry_run:
            found.save(place)                    # each at once: what was measured is not lost
    if args.json:
        print(json.dumps(rows, indent=1))
    elif rows and not args.dry_run:
        print(f"saved in {place}; taken by mode B (heur_mode.B)")
    return 1 if wrong else 0


def ptx(args) -> int:
    """Kernels by target: registers, spills, contract; with a name, one kernel whole."""
    from . import kernels
    names = [n for n in kernels.names() if not args.name or n.startswith(args.name)]
    require(names, f"ptx: name must begin like one of the {len(kernels.names())} kernels; got {args.name!r}")
    _refuse_idle(args, args.name in names)
    if args.build:
        return _build(args)
    if args.run_it:
        from .bench import trial as debug
        return debug.main(args)
    if args.check:
        state = ptx_state()
        print(json.dumps({"ptx": state}) if args.json else state)
        return 0 if state.startswith("ok") else 1
    rows = [kernels.get(n) for n in names]
    if args.text:
        kernel = kernels.get(args.name)
        images = ([_image(kernel, args.target)] if args.target is not None else list(kernel.images.values()))
        print("\n".join(image.text().decode().rstrip() for image in images))
    elif args.json:
        print(json.dumps({k.name: k.row for k in rows}, indent=1))
    elif args.name in names:
        print(json.dumps(rows[names.index(args.name)].row, indent=1))
    else:
        for k in rows:
            print(f"{k.name:<52}" + "  ".join(f"{t}: {_registers(i)}" for t, i in sorted(k.images.items())))
    return 0


def _build(args) -> int:
    """Compile kernels for a card that has no images of its own, into the user's cache folder."""
    from . import device, kernels
    from subprocess import run
    tool, arch = kernels.build_tool(), args.arch or "native"
    require(tool is not None, "ptx: --build needs the kernels' sources, which a wheel and a clone have; got "
                              "an installation without them")
    if arch == "native":
        facts = device.default().facts
        require(facts.sm, "ptx: --arch native needs a GPU here; got none: name a target, such as sm_120")
        arch = f"sm_{facts.sm}"
    require(_number(arch, "--arch"), "ptx: --arch must be native or a target; got sm_0")
    place = kernels.overlay_folder(kernels.seal_in_use())
    words = [sys.executable, str(tool), "--overlay", str(place), "--arch", arch]
    code = run([*words, *(["--only", args.name] if args.name else [])]).returncode
    kernels.reload()
    print(f"overlay: {kernels.overlaid()}")
    return code


def _refuse_idle(args, is_one: bool):
    """An option that would do nothing is an error."""
    given = dict(run=args.run_it, text=args.text, check=args.check, build=args.build)
    verbs = [f"--{word}" for word, is_given in given.items() if is_given]
    verb = next(iter(verbs), None)
    require(len(verbs) < 2, f"ptx: {verb} must be alone among --run --text --check --build")
    for word, wants in dict(seed=["--run"], line=["--run"], file=["--run"], uncovered=["--run"],
                            arch=["--build"], target=["--run", "--text"]).items():
        require(vars(args)[word] is None or verb in wants,
                f"ptx: --{word} must stand beside {' or '.join(wants)}; got {verb or 'neither'}")
    require(is_one or verb in (None, "--check", "--build"),
            f"ptx: {verb} must have the whole name of a kernel; got {args.name!r}")


def _image(kernel, target: str):
    """The image that a GPU of a target runs; one that no GPU has is refused."""
    from .device.facts import KNOWN
    sm = _number(target)
    known = {_number(t) for t in kernel.images} | {facts.sm for facts in KNOWN.values() if facts.sm}
    require(sm in known, f"ptx: --target must be one of {' '.join(f'sm_{n}' for n in sorted(known))}; got "
                         f"{target!r}")
    return kernel.image_for(sm)


def _registers(image) -> str:
    return f"{image.registers} regs" + (f", {image.spills} B spilled" if image.spills else "")


def _number(target: str, option: str = "--target") -> int:
    """80 of sm_80."""
    digits = target.removeprefix("sm_").rstrip("af")
    require(target.startswith("sm_") and digits.isascii() and digits.isdigit() and len(digits) < 10,
            f"ptx: {option} must be sm_ and a number; got {target!r}")
    return int(digits)


def _bench_options(sub):
    sub.add_argument("problem", nargs="+",
                     help='a problem, such as "softmax_fwd 16384x4096 bf16", or @file')
    sub.add_argument("--against", choices=["torch"])
    sub.add_argument("--device")
    sub.add_argument("--repeat", type=int, default=30)
    sub.add_argument("--markdown", action="store_true")


def _explain_options(sub):
    sub.add_argument("problem", nargs="+", help="a problem, or @file")
    sub.add_argument("--device", help="a device, or a card: t4 a100 rtx4090 h100 h200 b200, or "
                                          "of a target: sm_90")
    sub.add_argument("--mode", choices=["a", "b", "fallback"], default="a")
    sub.add_argument("--mermaid", action="store_true", help="a diagram, in the language that GitHub draws")
    sub.add_argument("--html", metavar="FILE", help="a page: parts, estimates, refusals, the diagram's text")


def _tune_options(sub):
    sub.add_argument("problem", nargs="+",
                     help='a problem, such as "matmul 8192x4096 4096x1024 bf16", or @file')
    sub.add_argument("--device")
    sub.add_argument("--most", type=int, default=20, help="how many choices are measured")
    sub.add_argument("--table", help="the file of the table; else CYDNN_TUNED, or the user's data folder")
    sub.add_argument("--dry-run", action="store_true", help="save nothing")


def _ptx_options(sub):
    sub.add_argument("name", nargs="?", default="")
    sub.add_argument("--check", action="store_true", help="verify the hash of every image")
    sub.add_argument("--build", action="store_true",
                     help="compile the kernels that begin with the name, or all, for --arch, to be used from "
                          "then on (needs nvcc 13.0: pip install 'cydnn[ptx]')")
    sub.add_argument("--arch", help="with --build: native (the card here; the default) or sm_120 …")
    sub.add_argument("--text", action="store_true", help="print the PTX of the named kernel")
    sub.add_argument("--run", action="store_true", dest="run_it",
                     help="run the named kernel's own problems on the interpreter, checked")
    sub.add_argument("--target",
                     help="with --run: sm_75, sm_80 …; "
                          "with --text: nothing but the PTX of its image")
    sub.add_argument("--seed", type=int, help="with --run: a random order of warps")
    sub.add_argument("--line", action="append",
                     help="with --run: a problem in place of the kernel's own; may be repeated")
    sub.add_argument("--file", help="with --run: PTX to run in place of the shipped one")
    sub.add_argument("--uncovered", action="store_true", default=None,
                     help="with --run: list the instructions that did not run")


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cydnn", description=" ".join(__doc__.split()))
    parser.add_argument("--version", action="version", version=f"cydnn {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for run, options in ((info, lambda sub: None), (explain, _explain_options), (bench, _bench_options),
                         (tune, _tune_options), (ptx, _ptx_options)):
        sub = verbs.add_parser(run.__name__, help=run.__doc__, aliases=["graph"] * (run is explain))
        sub.set_defaults(run=run)
        sub.add_argument("--json", action="store_true")
        options(sub)
    args = parser.parse_args(argv)
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except CydnnError as error:
        print(f"cydnn: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:                      # the reader has seen enough: `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
