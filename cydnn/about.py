"""What an installation is: versions, devices, kernels, files, libraries. A bug report."""
from __future__ import annotations

import os
import platform
import re
from collections import Counter

from . import __version__
from .status import BadParam, CydnnError


def installation() -> dict:
    """All of it, by name."""
    facts = versions()
    facts["devices"], facts["default"], facts["why"] = devices()
    facts["interpreters"] = interpreters()
    facts["ptx"], facts["tuned"], facts["errata"] = ptx_state(), tuned_state(), errata_state()
    facts["overlay"], facts["libraries"] = overlay_state(), libraries()
    facts["extras"], facts["set"] = extras(), environment()
    facts["caches"] = {name: str(folder) for name, folder in caches().items()}
    return facts


def versions() -> dict:
    import numpy
    from importlib import metadata
    python = f"{platform.python_version()} on {platform.platform()}"
    found = {"cydnn": __version__, "python": python, "numpy": numpy.__version__}
    try:
        found["cuda-bindings"] = metadata.version("cuda-bindings")
    except metadata.PackageNotFoundError:
        found["cuda-bindings"] = "not installed (needed for a GPU only)"
    try:
        from . import _core
        number = _core.driver_version()
        found["driver"] = f"CUDA {number // 1000}.{number % 1000 // 10}"
    except (CydnnError, ImportError) as error:
        found["driver"] = f"none ({error})"
    return found


def libraries(maps: str = "/proc/self/maps") -> dict:
    """The libraries of NVIDIA that this process has loaded, and where each lies."""
    try:
        with open(maps) as file:
            found = re.findall(r"/\S*/lib(?:cuda|cudnn|cublas|nv)[^/\s]*\.so\S*", file.read())
    except OSError:                              # no such list on this system
        return {}
    return {os.path.basename(path).partition(".so")[0]: path for path in sorted(set(found))}


EXTRAS = "torch cupy jax tqdm matplotlib mypy ml_dtypes".split()


def extras() -> dict:
    """What is installed of the packages that cydnn works with."""
    from importlib import metadata
    found = {}
    for name in EXTRAS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def environment() -> dict:
    """The variables that are read."""
    words = ("CYDNN_", "CUDA_VISIBLE_DEVICES", "CUDA_CACHE_")
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(words)}


def caches() -> dict:
    """Where files are kept."""
    from .device import assembled
    from .heuristics import tuned
    return dict(kernels=assembled.folder(), tuned=tuned.place())


def devices():
    from . import device
    rows = []
    for name in device.names():
        try:
            f = device.get(name).facts
        except CydnnError as error:
            rows.append(dict(name=name, product=f"not usable: {error}", sm=0, sms=0, l2_bytes=0,
                             bandwidth_gbs=0.0))
            continue
        rows.append(dict(name=name, product=f.name, sm=f.sm, sms=f.sms, l2_bytes=f.l2_bytes,
                         bandwidth_gbs=f.bandwidth_gbs))
    default = device.default()
    why = "a GPU is usable" if default.facts.kind == "cuda" else "no usable GPU; the reference runs in NumPy"
    return rows, default.name, why


def targets() -> list[str]:
    """What there are images for."""
    from . import kernels
    return sorted({target for name in kernels.names() for target in kernels.get(name).row["images"]})


def interpreters() -> list[str]:
    """Devices that run the kernels' PTX in NumPy, by the targets that there are."""
    try:
        found = {target.rstrip("af") for target in targets()}
    except CydnnError:                           # ptx_state says what is broken
        return []
    return [f"ptx:{target}" for target in sorted(found)]


def ptx_state() -> str:
    from . import kernels
    try:
        names, wrong, found = kernels.names(), kernels.verify(), " ".join(targets())
    except CydnnError as error:
        return f"broken: {error}"
    if wrong:
        return f"broken: {wrong[0]}" + (f", and {len(wrong) - 1} more" if wrong[1:] else "")
    said = f"ok, {len(names)} kernels for {found} in {kernels.ptx_dir()}"
    other = kernels.replaced() or ("" if kernels.is_as_built() else
                                   "the manifest is another than the extension was built with")
    return f"{said}; {other}" if other else said


def overlay_state() -> str:
    """What the user built for a card of their own."""
    from . import kernels
    try:
        return kernels.overlaid()
    except CydnnError as error:
        return f"broken: {error}"


def tuned_state() -> str:
    """How many measured choices mode B finds."""
    from .heuristics import tuned
    cards = Counter(card.name for mine in tuned.current().rows.values() for card in mine)
    rows = ", ".join(f"{count} of {name}" for name, count in sorted(cards.items())) or "none"
    return f"rows: {rows}; yours: {tuned.place()}"


def errata_state() -> str:
    from .heuristics import errata
    try:
        count = sum(map(len, errata.current().values()))
    except BadParam as error:
        return f"broken: {error}"
    return f"{count} rows that count in this version; yours: {os.environ.get(errata.VARIABLE) or 'none'}"
