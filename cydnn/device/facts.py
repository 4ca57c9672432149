"""What engines and heuristics may know of a device: plain numbers, so that plans can be
made for a device that is not here."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceFacts:
    """``sm`` is the compute capability as one number (90 for 9.0); ``smem_bytes`` what
    one block may have after opting in."""
    kind: str                                    # "cuda" or "numpy"
    name: str
    sm: int
    sms: int
    smem_bytes: int
    l2_bytes: int
    bandwidth_gbs: float
    clock_mhz: int = 0
    driver: int = 0                              # CUDA version the driver serves, 13000 for 13.0


def _gpu(name, sm, sms, smem_kib, l2_mib, bandwidth_gbs, clock_mhz):
    return DeviceFacts("cuda", name, sm, sms, smem_kib << 10, l2_mib << 20, float(bandwidth_gbs), clock_mhz)


KNOWN = {                   # data sheets; for planning without the card, and where a driver hides its clocks
    "t4": _gpu("Tesla T4", 75, 40, 64, 4, 320, 1590),
    "a100": _gpu("NVIDIA A100-SXM4-80GB", 80, 108, 163, 40, 2039, 1410),
    "rtx4090": _gpu("NVIDIA GeForce RTX 4090", 89, 128, 99, 72, 1008, 2520),
    "h100": _gpu("NVIDIA H100 80GB HBM3", 90, 132, 227, 50, 3352, 1980),
    "h200": _gpu("NVIDIA H200", 90, 132, 227, 60, 4800, 1980),
    "b200": _gpu("NVIDIA B200", 100, 148, 227, 126, 8000, 1965),
}


def known(name: str) -> DeviceFacts | None:
    """The row of ``KNOWN`` with this product name, or None."""
    return next((row for row in KNOWN.values() if row.name == name), None)
