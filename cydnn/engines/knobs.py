"""Names of knobs, here and in the API: one row a knob, whichever engines have it. The values are the
engine's (``Knob`` in engine.py)."""
from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    """``api``: the knob type of the API, CUDNN_KNOB_TYPE_ left out; ``doc``: what the knob sets."""
    api: str
    doc: str


TERMS = {
    "tile": Term("KERNEL_CFG", "tile of the output that a block computes, by its sizes"),
    "splits": Term("SPLIT_K_SLC", "split-K: slices of a sum that blocks compute apart"),
    "chunks": Term("SPLIT_P_SLC", "parts of the output that go through the workspace one after the other"),
    "blocks_per_row": Term("SPLIT_COLS", "blocks that share a row"),
    "stream_k": Term("STREAM_K", "stream-K: 1, blocks take equal shares of all steps; 2, of one tile each"),
    "blocks_per_tile": Term("SPLIT_K_BUF", "stream-K: the most blocks that share the depth of a tile"),
    "cluster": Term("TILE_CGA_M", "blocks of a cluster (CGA)"),
    "cluster_k": Term("TILE_CGA_N", "blocks of a cluster (CGA) that share the depth of a tile"),
    "multicast": Term("SWIZZLE", "blocks of a cluster to which TMA brings an operand at once"),
    "resident": Term("SPECFILT", "filters that stay in shared memory, by channels; or whether weights do"),
    "store": Term("EDGE", "how results leave: boxes by TMA, or rows by threads"),
    "stages": Term("STAGES", "stages of the ring in shared memory"),
    "prefetch": Term("WARP_SPEC_CFG", "states of the next step are loaded before others could store "
                                      "them, or after"),
    "threads": Term("TILE_COLS", "threads of a block"),
    "threads_per_row": Term("BLOCK_SIZE", "threads that share a row"),
    "threads_per_point": Term("IDX_MODE", "threads that share the channels of a point"),
    "warps": Term("OCCUPANCY", "warps of a block"),
    "blocks_per_sm": Term("CTA_COUNT", "blocks that an SM holds at once"),
    "registers": Term("ARRAY_SIZE_PER_THREAD", "rows that a thread keeps in registers, beside shared memory"),
    "lanes_log2": Term("LOAD_SIZE", "lanes that read a row side by side, 16 bytes each, as a power of two"),
    "unit_tiles": Term("TILE_N", "tiles of 16 units in a block"),
    "batch_groups": Term("TILE_ROWS", "groups of batch rows that do not wait for each other"),
    "rows": Term("TILEK", "rows of an image that a block takes at once"),
    "batch_rows": Term("TILE_SIZE", "batch rows of a cluster"),
    "batch": Term("WORKSPACE", "images whose spectra are in the workspace at once"),
    "channels": Term("MULTIPLY", "neighbouring channels that a thread makes"),
    "transform": Term("TILE_M", "points of a Fourier transform in each dim"),
}
