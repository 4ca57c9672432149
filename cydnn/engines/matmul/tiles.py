"""What the engines on CUDA cores share: their tiles and what they cost, the types they take, the epilogue behind them."""
from __future__ import annotations

TYPES = ("f64", "f32", "f16", "bf16")
MOST = 2 ** 31 - 1024                            # rows, pixels: a FastDiv's range, less a tile

# shape (kernels_src/tile/simt.cuh): (rows, columns, share of the FMA peak in a full machine); an estimate until measured
TILES = {"t128x128": (128, 128, 0.72), "t128x64": (128, 64, 0.66), "t64x64": (64, 64, 0.55), "t32x32": (32, 32, 0.3)}


def type_refusals(p, *accepted):
    """Inputs and output of one accepted type, and a compute type that is no wider than the sums.

    An op's own output that is only a value on the way to fused nodes may have any type: the epilogue rounds to it.
    """
    accepted = accepted or TYPES
    operands = {**{name: p.operands[name] for name in p.op.reads}, p.op.writes[0]: p.out}
    for name, d in operands.items():
        if d.dtype.name not in accepted:
            yield f"{name} must be one of {' '.join(accepted)}; got {d.dtype}"
    types = {d.dtype.name for d in operands.values()}
    if len(types) > 1:
        yield f"operands must have one type; got {' '.join(sorted(types))}"
    if p.op.compute not in ("f32", p.out.dtype.compute):
        yield f"compute must be f32 for {p.out.dtype} tensors; got {p.op.compute}"
    if p.epilogue:
        yield from epilogue_refusals(p)


def epilogue_refusals(p):
    """Why the nodes behind the op cannot be fused."""
    from ...fusion import Epilogue
    if p.scalar_values.get("beta", 0.0) != 0:
        yield f"beta must be 0 where operations follow; got {p.scalar_values['beta']}"
    if p.operands[p.op.writes[0]].dtype.name == "f64" != p.out.dtype.name:
        yield f"{p.op.writes[0]} must not be f64 between {p.out.dtype} tensors"
    yield from Epilogue.refuse(p)


def fuse(p):
    """The epilogue program of a match, or None."""
    if not p.epilogue:
        return None
    from ...fusion import Epilogue
    return Epilogue.from_match(p)


def too_many(name: str, count: int, most: int = MOST):
    """Refuse more than a kernel's index can count."""
    if count > most:
        yield f"{name} must be at most {most}; got {count}"


def fma_clocks(dev, dtype) -> int:
    """Fused multiply-adds of one SM in a clock."""
    if dtype.name == "f64":
        return {80: 32, 90: 64, 100: 64}.get(dev.sm, 2)
    return 64 if dev.sm in (75, 80) else 128


def tile_us(tile: str, rows: int, columns: int, depth: int, groups: int, dev, dtype) -> float:
    """Estimated microseconds of a tiled product: arithmetic of the busiest SM, or the latency of its steps."""
    m, n, share = TILES[tile]
    blocks = -(-rows // m) * -(-columns // n) * groups
    step = {"t128x128": 8, "t32x32": 32}.get(tile, 16)
    steps = -(-max(depth, 1) // step)
    busy = -(-blocks // dev.sms) * steps * step * m * n / (fma_clocks(dev, dtype) * share)
    waiting = -(-blocks // (2 * dev.sms)) * (steps * 600 + 2500 + m * n // 10)
    return max(busy, waiting) / (dev.clock_mhz or 1500)


def tile_configs() -> list[dict]:
    """The configurations of an engine whose only choice is the tile."""
    return [dict(tile=tile) for tile in TILES]


def best_tile(rows, columns, depth, groups, dev, dtype) -> tuple[float, str]:
    """(microseconds, tile) of the cheapest tile."""
    return min((tile_us(t, rows, columns, depth, groups, dev, dtype), t) for t in TILES)


def tiles_of(tile: str, rows: int, columns: int) -> dict:
    """The extra names of a launch: tiles of rows and of columns."""
    m, n, _ = TILES[tile]
    return dict(tiles_m=-(-rows // m), tiles_n=-(-columns // n))
