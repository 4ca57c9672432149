"""Lines of the tile programs: a type of operands is a row; steps, tensor maps and costs follow from it."""
from __future__ import annotations

import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from cydnn.engines.tile.cost import TILES, Model, step_clocks
from cydnn.engines.tile.line import LINES, Line
from cydnn.engines.tile.maps import tiled_map
from cydnn.engines.tile.matrices import Matrices
from cydnn.steps import Pointer
from cydnn.tensor import TensorDesc

EIGHT = Line("f8_e5m2")                          # of no kernel yet


def test_what_kernels_bring_by_tensor_maps_has_a_row():
    every = map(kernels.get, kernels.names())
    sources = {k.source for k in every if k.source.startswith(("conv/", "matmul/"))
               and any(p["type"] == "CUtensorMap" for p in k.row["params"])}
    assert len(sources) > 8
    assert {kind for source in sources for kind in kernels.axis(source, "T")} == set(LINES)


@pytest.mark.parametrize("line, elements, chunk, k", [(LINES["f16"], 64, 8, 16), (EIGHT, 128, 16, 32)],
                         ids=["f16", "f8_e5m2"])
def test_a_map_has_boxes_of_a_line(line, elements, chunk, k, monkeypatch):
    monkeypatch.setitem(LINES, line.dtype, line)
    assert (line.elements, line.chunk, line.k) == (elements, chunk, k)
    map_ = tiled_map(Pointer(1), TensorDesc.packed(line.dtype, (64, 256)), (256, 64), (256,), 32)
    assert map_.box == (elements, 32) and map_.strides == (256 * line.bytes,)
    assert not [*kernels.map_reasons(map_)]


def test_operands_of_half_the_bytes_take_half_the_time():
    def us(line, depth):
        a, b, c = (TensorDesc.packed(line.dtype, d) for d in ((512, depth), (depth, 512), (512, 512)))
        g, tile = Matrices.of(a, b, c), TILES["128x128"]
        return Model(KNOWN["h200"], g, line, tile, step_clocks(g, tile, line), 0, 0).us(16, 1, depth)
    assert us(EIGHT, 8192) == us(LINES["bf16"], 4096)
