"""How long a new process takes to its first result, and where the first build of convolution + bias + GELU
spends its time: ``python benchmarks/cold.py [--first] [--device NAME] [--repeat N] [--json FILE]``.

The rows "first execute" are a plain convolution from its graph to the result in memory; ``import`` and the
``device`` come before. With ``--first`` these are all, on any device; the others need a GPU.

Every row is the median of N new processes. The driver keeps what it compiled on disk; all rows but those that
say otherwise run without that (CUDA_CACHE_DISABLE=1), as on a new machine. Rows of the driver compile the
program of that plan and nothing else.
"""
from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

EMPTY = b".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry nothing() { ret; }\n"
LEVEL, LINES = 7, 13                             # CUjit_option
LINE = "conv_fprop n8c64h28w28 k64r3s3 pad1 f16 acc=f32 nhwc"
FIRST = (("first execute, shipped PTX", "first", {}),
         ("first execute, warm (driver's cache)", "first", {"again": 1}))
ROWS = (("the whole build", "build", {}),
        ("the same, second process (driver's cache)", "build", {"again": 1}),
        ("the same, assembled before", "build", {"assembled": 1}),
        ("driver: an empty kernel", "driver", dict(texts=["empty"])),
        ("driver: the plain kernel", "driver", dict(texts=["plain"])),
        ("driver: the fused program", "driver", dict(texts=["fused"])),
        ("driver: the same with every way to go", "driver", dict(texts=["every"])),
        ("driver: an empty kernel, then the fused program", "driver", dict(texts=["empty", "fused"])),
        ("driver: plain, then fused", "driver", dict(texts=["plain", "fused"])),
        ("driver: both in two threads", "driver", dict(texts=["plain", "fused"], together=1)),
        *((f"driver: fused, optimisation level {n}", "driver", dict(texts=["fused"], options=[[LEVEL, n]]))
          for n in (0, 1, 2, 3)),
        ("driver: fused, without line numbers", "driver", dict(texts=["fused"], options=[[LINES, 0]])),
        ("driver: fused, no words in its text", "driver", dict(texts=["bare"])),
        ("driver: fused, assembled before", "driver", dict(texts=["cubin"])))


# ---- In the new process ----

def first(what) -> dict:
    """Milliseconds of the steps to a first result."""
    marks = [time.perf_counter()]
    mark = lambda: marks.append(time.perf_counter())
    import cydnn                                 # noqa: F401
    mark()
    from cydnn import bench, device as devices, plan
    from cydnn.ops import Problem
    device, graph = devices.get(what["device"]), bench.graph_of(Problem.parse(LINE))
    mark()
    built = plan.build(graph, device)
    mark()
    buffers = [device.alloc(desc.bytes) for desc in built.slots]
    for buffer, desc in zip(buffers, built.slots):
        device.copy_in(buffer.ptr, bench.random_values(desc, 0))
    workspace = device.alloc(max(built.workspace_bytes, 1))
    mark()
    built.execute([int(buffer.ptr) for buffer in buffers], int(workspace.ptr))
    device.synchronize()
    mark()
    imported, opened, made, _, ran = (1e3 * (b - a) for a, b in zip(marks, marks[1:]))
    return {"whole": made + ran, "build": made, "execute": ran, "import": imported, "device": opened}


def build(_) -> dict:
    """Milliseconds of the steps of a build."""
    marks = [time.perf_counter()]
    mark = lambda: marks.append(time.perf_counter())
    import host
    from cydnn import device as devices, fusion
    mark()
    device = devices.get("cuda:0")
    mark()
    inside, spliced = [], []
    function, splice = device.function, fusion.splice

    def timed(call, into):
        def run(*args):
            start = time.perf_counter()
            found = call(*args)
            into.append(1e3 * (time.perf_counter() - start))
            return found
        return run
    device.function, fusion.splice = timed(function, inside), timed(splice, spliced)
    host.fused_graph(device)
    mark()
    imported, opened, whole = (1e3 * (b - a) for a, b in zip(marks, marks[1:]))
    return {"whole": whole, "splicing": sum(spliced), "driver and texts": sum(inside) - sum(spliced),
            "else": whole - sum(inside), "import before": imported, "context before": opened}


def texts(folder: Path):
    """The programs that the rows compile, in files."""
    import host
    from cydnn import device as devices, fusion, kernels
    from cydnn.device import assembled
    device, kept = devices.get("cuda:0"), []
    function = device.function
    device.function = lambda *what: kept.append(what) or function(*what)
    host.fused_graph(device)
    name, fuse, ways = next(what for what in kept if what[1])
    kernel = kernels.get(name)
    plain = kernel.image_for(device.facts.sm).text()
    fused, every = (fusion.splice(plain, kernel, fuse, only) for only in (ways, ()))
    said = [line.split(b"//")[0].strip() for line in fused.splitlines()]
    bare = b"\n".join(filter(None, said))
    files = dict(empty=EMPTY, plain=plain, fused=fused, every=every, bare=bare,
                 cubin=Driver().linked(fused))
    assembled.keep(fused, device.facts.sm, files["cubin"])
    for file, text in files.items():
        (folder / file).write_bytes(text)
    return {"name": name, "bytes": {"plain": len(plain), "fused": len(fused), "bare": len(bare)}}


class Driver:
    """The calls of the driver that load programs."""

    def __init__(self):
        self.cu = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.check(self.cu.cuInit(0))
        self.check(self.cu.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0))
        self.enter()

    @staticmethod
    def check(status):
        if status:
            raise RuntimeError(f"the driver says {status}")

    def enter(self):
        self.check(self.cu.cuCtxSetCurrent(self.context))

    def load(self, text: bytes, options=()) -> float:
        """Milliseconds."""
        module = ctypes.c_void_p()
        names = (ctypes.c_int * max(len(options), 1))(*(n for n, _ in options))
        values = (ctypes.c_void_p * max(len(options), 1))(*(v for _, v in options))
        start = time.perf_counter()
        self.check(self.cu.cuModuleLoadDataEx(ctypes.byref(module), text, len(options), names, values))
        return 1e3 * (time.perf_counter() - start)

    def linked(self, text: bytes) -> bytes:
        """The machine code of a program."""
        link, found, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        self.check(self.cu.cuLinkCreate_v2(0, None, None, ctypes.byref(link)))
        self.check(self.cu.cuLinkAddData_v2(link, 1, text + b"\0", len(text) + 1, b"program", 0, None, None))
        self.check(self.cu.cuLinkComplete(link, ctypes.byref(found), ctypes.byref(size)))
        return ctypes.string_at(found, size.value)


def driver(what) -> dict:
    """Milliseconds of each program, and of all of them."""
    made, found = Driver(), {}
    options = what.get("options", ())

    def one(name):
        made.enter()
        found[name] = made.load(Path(what["folder"], name).read_bytes() + b"\0", options)
    start = time.perf_counter()
    threads = [threading.Thread(target=one, args=(name,)) for name in what["texts"]]
    for thread in threads:
        thread.start()
        if not what.get("together"):
            thread.join()
    for thread in threads:
        thread.join()
    return {"whole": 1e3 * (time.perf_counter() - start), **found}


# ---- The processes ----

def fresh(kind: str, what: dict) -> dict:
    """What a new process finds."""
    cache = {} if what.get("again") else {"CUDA_CACHE_DISABLE": "1"}
    cache["CYDNN_CACHE"] = what["folder"] if what.get("assembled") else os.devnull
    run = subprocess.run([sys.executable, __file__, "--child", kind, json.dumps(what)], text=True,
                         capture_output=True, env={**os.environ, **cache})
    if run.returncode:
        raise RuntimeError(f"{kind} {what}: {run.stderr.strip().splitlines()[-1:]}")
    return json.loads(run.stdout.splitlines()[-1])


def median_of(kind: str, what: dict, repeat: int) -> dict:
    """Of new processes; caches are filled by one that does not count."""
    if what.get("again"):
        fresh(kind, what)
    runs = [fresh(kind, what) for _ in range(repeat)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def table(chosen, common: dict, repeat: int) -> dict:
    """Print the rows."""
    rows = {}
    for name, kind, what in chosen:
        try:
            rows[name] = row = median_of(kind, {**what, **common}, repeat)
        except RuntimeError as error:            # the table goes on
            print(f"{name}: {error}", flush=True)
            continue
        said = "  ".join(f"{key} {ms:.1f}" for key, ms in row.items() if key != "whole")
        print(f"{name:<50}{row['whole']:8.1f} ms   {said}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", action="store_true", help="only the rows of a first result")
    parser.add_argument("--device", default="cuda:0", help="of those rows")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        kind, what = args.child[0], json.loads(args.child[1])
        kinds = dict(first=first, build=build, driver=driver, texts=lambda w: texts(Path(w["folder"])))
        return print(json.dumps(kinds[kind](what)))
    with tempfile.TemporaryDirectory() as folder:
        common = {"folder": folder, "device": args.device}
        if not args.first:
            print(fresh("texts", {**common, "again": 1, "assembled": 1}))
        rows = table(FIRST if args.first else (*FIRST, *ROWS), common, args.repeat)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
