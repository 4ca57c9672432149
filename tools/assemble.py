"""``build_ptx.py --assemble``: machine code for one card, into the user's cache folder, where cydnn looks
before it asks the driver's compiler: of the shipped images, and of convolutions with bias and activation.
Needs ptxas, no GPU; only PTX is committed.
"""
from __future__ import annotations

import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice, product
from pathlib import Path
from subprocess import run

from contract import ROOT, ContractError

sys.path.insert(0, str(ROOT))

ENGINES = 2                                      # of a graph: those that cost least
LINES = ("conv_fprop n32c64h28w28 k64r3s3 pad1 {} nhwc", "conv_fprop n32c64h28w28 k256r1s1 {} nhwc")


def card() -> int:
    """The compute capability of the GPU that is here."""
    from cydnn import device as devices
    from cydnn.status import CydnnError
    try:
        return devices.get("cuda:0").facts.sm
    except CydnnError as error:
        raise ContractError(f"--assemble must know the card: give --arch sm_90, say; {error}") from None


def fused(sm: int, selects):
    """(name, text) of what is spliced for such graphs: every configuration of the engines that cost least."""
    from cydnn import bench, fusion, kernels
    from cydnn.device.facts import of_target
    from cydnn.heuristics import candidates
    from cydnn.ops import Problem
    from cydnn.steps import Launch
    facts = of_target(sm, f"sm_{sm}")
    for line, kind, mode in product(LINES, ("f16", "bf16"), ("gelu_fwd", "relu_fwd")):
        graph = bench.biased(Problem.parse(line.format(kind)), mode)
        alone = (c.parts[0] for c in candidates(graph, facts) if len(c.parts) == 1)
        for part in islice(alone, ENGINES):
            for config in part.engine.configs(part.match, facts):
                for step in part.engine.plan(part.match, facts, config):
                    if isinstance(step, Launch) and step.fuse and selects(step.kernel):
                        kernel = kernels.get(step.kernel)
                        text = kernel.image_for(sm).text()
                        yield step.kernel, fusion.splice(text, kernel, step.fuse, fusion.ways_of(step))


def texts(sm: int, selects) -> dict:
    """{text: name} of all that is assembled, each once."""
    from cydnn import kernels
    from cydnn.status import CydnnError
    found = {}
    for name in filter(selects, kernels.names()):
        try:
            found[kernels.get(name).image_for(sm).text()] = name
        except CydnnError:                       # none for this card
            continue
    found.update((text, f"{name}, fused") for name, text in fused(sm, selects))
    return found


def target_of(text: bytes, sm: int) -> str:
    """sm_90a for a text that only that has; else the card itself."""
    said = re.search(rb"(?m)^\.target (sm_\d+[af])", text)
    return said[1].decode() if said else f"sm_{sm}"


def one(ptxas: str, text: bytes, name: str, sm: int):
    """Assemble a text and keep it."""
    from cydnn.device import assembled
    with tempfile.TemporaryDirectory() as work:
        source, out = Path(work) / "in.ptx", Path(work) / "out.cubin"
        source.write_bytes(text)
        said = run([ptxas, f"-arch={target_of(text, sm)}", str(source), "-o", str(out)], capture_output=True,
                   text=True)
        if said.returncode:
            raise ContractError(f"{name}: must assemble for sm_{sm}; ptxas says\n{said.stderr}")
        assembled.keep(text, sm, out.read_bytes())


def progress(futures, total: int):
    """A bar where tqdm is installed and someone looks."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return futures
    return tqdm(futures, total=total, unit="image", disable=not sys.stderr.isatty())


def assemble(selects, ptxas: str, arguments) -> list[str]:
    """Assemble what is not there yet; the errors."""
    from cydnn.device import assembled
    sm = int(re.sub(r"\D", "", arguments.arch[0])) if arguments.arch else card()
    todo = {text: name for text, name in texts(sm, selects).items() if assembled.find(text, sm) is None}
    errors = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(one, ptxas, text, name, sm) for text, name in todo.items()]
        for made in progress(as_completed(futures), len(futures)):
            try:
                made.result()
            except ContractError as error:
                errors.append(str(error))
    print(f"{len(todo) - len(errors)} programs assembled for sm_{sm} in {assembled.folder()}")
    return errors
