"""Device facts for engines and heuristics: plain numbers, so that plans can be made for a device that is not
here.

A GPU's numbers stand in one row of ``KNOWN``; what a row leaves out comes from its generation's row in
``GENERATIONS``.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, fields

from ..given import real, shown, whole
from ..status import BadParam

MOST = 2.0 ** 63                                 # of a fact
WORDS = {"str": "a text", "int": "a whole number, at least 0", "float": "a number, at least 0"}
LEAST = {                                        # of a GPU: estimates divide by rates; the rest all GPUs have
    **dict.fromkeys("sms bandwidth_gbs clock_mhz fma_f32 fma_f64 mma_16 sm_gbs".split(), 1),
    "smem_bytes": 48 << 10, "registers": 64 << 10}


# multiply-adds of 16 bits that the tensor cores of an SM do in a clock, by the data sheets
TENSOR_CORES = {75: 512, 80: 1024, 86: 512, 87: 1024, 89: 512, 90: 2048, 100: 4096, 120: 512}


@dataclass(frozen=True)
class DeviceFacts:
    """``sm`` is the compute capability as one number (90 for 9.0);
    ``smem_bytes`` what one block may have after opting in.

    Rates are per SM and clock: ``fma_f32``, ``fma_f64`` fused multiply-adds on CUDA cores, ``mma_16``
    multiply-adds of 16-bit operands by mma.sync. ``sm_gbs`` is what one SM moves, ``launch_us`` what a kernel
    costs before it does anything.
    """
    kind: str                                    # "cuda" or "numpy"
    name: str
    sm: int
    sms: int
    smem_bytes: int
    l2_bytes: int
    bandwidth_gbs: float
    clock_mhz: int = 1500
    fma_f32: int = 128
    fma_f64: int = 2
    mma_16: int = 512
    sm_gbs: float = 60.0
    registers: int = 65536                       # of an SM
    launch_us: float = 2.0
    driver: int = 0                              # CUDA version the driver serves, 13000 for 13.0

    def tflops(self, bits: int) -> float:
        """TFLOP/s that products of elements of so many bits could reach: on tensor cores for 16 and less
        (twice as many of 8), on CUDA cores else. Of a GPU."""
        cores = TENSOR_CORES[max((s for s in TENSOR_CORES if s <= self.sm), default=75)]
        a_clock = {64: self.fma_f64, 32: self.fma_f32, 16: cores}.get(bits, 2 * cores)
        return 2e-6 * a_clock * self.sms * self.clock_mhz

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "str":
                is_good = isinstance(value, str)
            else:                                # Python's numbers, or NumPy's
                number = (real if field.type == "float" else whole)(f"facts: {field.name}", value)
                is_good = 0 <= number < MOST
            if not is_good:
                raise BadParam(f"facts: {field.name} must be {WORDS[field.type]}; got {shown(value)}")
        if self.kind not in ("cuda", "numpy"):
            raise BadParam(f"facts: kind must be one of cuda numpy; got {shown(self.kind)}")
        for name, least in LEAST.items() if self.kind == "cuda" else ():
            if getattr(self, name) < least:
                raise BadParam(f"facts: {name} of a GPU must be at least {least}; got {getattr(self, name)}")


GENERATIONS = {                                  # CUDA programming guide: arithmetic, limits; mma_16 measured
    75: dict(smem_bytes=64 << 10, fma_f32=64),
    80: dict(smem_bytes=163 << 10, fma_f32=64, fma_f64=32, mma_16=1024),
    86: dict(smem_bytes=99 << 10),
    87: dict(smem_bytes=163 << 10),
    89: dict(smem_bytes=99 << 10),
    90: dict(smem_bytes=227 << 10, fma_f64=64, mma_16=1280),
    100: dict(smem_bytes=227 << 10, fma_f64=64, mma_16=1024),
    120: dict(smem_bytes=99 << 10),
}


def generation(sm: int) -> dict:
    """The row of the newest generation that is not newer than ``sm``."""
    return GENERATIONS[max((s for s in GENERATIONS if s <= sm), default=75)]


def _gpu(name, sm, sms, l2_mib, bandwidth_gbs, clock_mhz):
    return DeviceFacts("cuda", name, sm, sms, l2_bytes=l2_mib << 20, bandwidth_gbs=float(bandwidth_gbs),
                       clock_mhz=clock_mhz, **generation(sm))


KNOWN = {                                        # data sheets; instead of what a driver says, and without one
    "t4": _gpu("Tesla T4", 75, 40, 4, 320, 1590),
    "a100": _gpu("NVIDIA A100-SXM4-80GB", 80, 108, 40, 2039, 1410),
    "rtx4090": _gpu("NVIDIA GeForce RTX 4090", 89, 128, 72, 1008, 2520),
    "h100": _gpu("NVIDIA H100 80GB HBM3", 90, 132, 50, 3352, 1980),
    "h200": _gpu("NVIDIA H200", 90, 132, 60, 4800, 1980),
    "b200": _gpu("NVIDIA B200", 100, 148, 126, 8000, 1965),
}


def known(name: str) -> DeviceFacts | None:
    """The row of ``KNOWN`` with this product name, or None."""
    return next((row for row in KNOWN.values() if row.name == name), None)


def card(name) -> DeviceFacts | None:
    """Facts of a card that need not be here: a row of ``KNOWN`` by its key or product name, however it is
    spelled, or a target ("sm_90"), which is the newest such product. None for what is neither."""
    plain = lambda text: "".join(c for c in text.lower() if c.isalnum())
    if not isinstance(name, str):
        return None
    target = re.fullmatch(r"sm_?(\d{2,3})[af]?", name.strip().lower(), re.ASCII)
    if target and int(target[1]) >= min(GENERATIONS):
        return of_target(int(target[1]), f"sm_{target[1]}")
    rows = {plain(word): row for key, row in KNOWN.items() for word in (key, row.name)}
    return rows.get(plain(name))


def of_target(sm: int, name: str) -> DeviceFacts:
    """Facts of a target without a card: the newest known product that is not newer, with this name."""
    sheet = max((row for row in KNOWN.values() if row.sm <= sm), key=lambda row: (row.sm, row.bandwidth_gbs))
    return DeviceFacts("cuda", name, sm, sheet.sms, l2_bytes=sheet.l2_bytes,
                       bandwidth_gbs=sheet.bandwidth_gbs, clock_mhz=sheet.clock_mhz, **generation(sm))
