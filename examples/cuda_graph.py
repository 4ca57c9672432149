"""A plan as nodes of a CUDA graph: made once, launched many times, given other tensors.

    python examples/cuda_graph.py [device]

A product, GELU and a softmax of each row become nodes of a graph that the driver launches as one; then the
nodes get another tensor to write, without a capture and without a build. The results have the bits of
``execute``. ``device``: "cuda:0", the default where there is one. Elsewhere ("numpy") there are no CUDA
graphs: the plan runs, and is compared.
"""
from __future__ import annotations

import sys
from typing import Any

import numpy as np

import cydnn.frontend as cudnn
from cydnn import device as devices

ROWS, INNER, COLUMNS = 64, 128, 256


def network(device: str):
    """(the graph, built; its tensors a, b, y)."""
    f32 = cudnn.data_type.FLOAT
    g = cudnn.pygraph(io_data_type=f32, intermediate_data_type=f32, compute_data_type=f32, handle=device)
    a = g.tensor(dim=[1, ROWS, INNER], stride=[ROWS * INNER, INNER, 1], name="a")
    b = g.tensor(dim=[1, INNER, COLUMNS], stride=[INNER * COLUMNS, COLUMNS, 1], name="b")
    y, _ = g.softmax(g.gelu(g.matmul(a, b)), axis=2)
    y.set_output(True)
    g.build([cudnn.heur_mode.A])
    return g, (a, b, y)


def expected(a, b):
    """The same in float64."""
    from math import erf
    p = a.astype("f8") @ b.astype("f8")
    e = np.exp(p * 0.5 * (1 + np.vectorize(erf)(p / 2 ** 0.5)))
    return e / e.sum(-1, keepdims=True)


def launched(g, tensors, arrays) -> dict:
    """{"execute", "nodes", "updated": the result}, on a GPU."""
    import cuda.bindings.driver as driver

    def done(found) -> Any:
        if found[0] != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(found[0].name)
        return found[1] if found[1:] else None
    gpu = g.own_handle.device
    size = 4 * ROWS * COLUMNS
    buffers = [gpu.alloc(x.nbytes) for x in arrays]
    places, space = [gpu.alloc(size) for _ in range(3)], gpu.alloc(max(g.get_workspace_size(), 1))
    for buffer, x in zip(buffers, arrays):
        gpu.copy_in(buffer, x)
    packs = [dict(zip(tensors, (*buffers, place))) for place in places]
    g.execute(packs[0], space)
    graph = done(driver.cuGraphCreate(0))
    print(f"{g.populate_cuda_graph(g.own_handle, packs[1], space, int(graph))} nodes")
    for pack in packs[1:]:
        g.update_cuda_graph(g.own_handle, pack, space, int(graph))
        runs = done(driver.cuGraphInstantiate(graph, 0))
        done(driver.cuGraphLaunch(runs, 0))
        gpu.synchronize()
        done(driver.cuGraphExecDestroy(runs))
    done(driver.cuGraphDestroy(graph))
    read = lambda place: gpu.copy_out(place, np.empty((1, ROWS, COLUMNS), "f4"))
    return {name: read(place) for name, place in zip(("execute", "nodes", "updated"), places)}


def main(device=None) -> dict:
    device = str(devices.get(device).name)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, *dims), dtype="f4") * 0.3 for dims in ((ROWS, INNER), (INNER, COLUMNS))]
    g, tensors = network(device)
    if devices.get(device).facts.kind == "cuda" and device.startswith("cuda"):
        found = launched(g, tensors, arrays)
        same = all(np.array_equal(found["execute"].view("u4"), one.view("u4")) for one in found.values())
        print(f"bits of execute, nodes and updated nodes equal: {same}")
    else:
        y = np.empty((1, ROWS, COLUMNS), "f4")
        g.execute(dict(zip(tensors, (*arrays, y))), np.empty(max(g.get_workspace_size(), 1), np.uint8))
        found, same = dict(execute=y), True
        print(f"{device} has no CUDA graphs; the plan ran alone")
    error = max(float(np.abs(one - expected(*arrays)).max()) for one in found.values())
    print(f"largest difference from float64: {error:.1e}")
    return dict(error=error, same=same)


if __name__ == "__main__":
    main(*sys.argv[1:2])
