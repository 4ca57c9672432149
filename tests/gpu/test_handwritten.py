"""What a launch can carry, on a GPU: tensor maps, whole numbers, clusters, cooperative and dependent
launches."""
from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from cydnn.status import BadParam, NotSupported
from support.draw import handmade
from support.draw.handwritten import KEEP, LATE, MEET, OWN, SWAP, TILE, X, box, keep_plan, one, run, tile_plan

pytestmark = pytest.mark.gpu


@pytest.fixture
def install(tmp_path):
    """install(name, parameters, text, contract): a kernel by that name."""
    with handmade.installer(tmp_path) as make:
        yield make


@pytest.fixture
def hopper(gpu):
    if gpu.facts.sm < 90:
        pytest.skip("needs sm_90")
    return gpu


@pytest.mark.parametrize("column", [-4, 0, 8, 16])
def test_a_box_of_a_tensor_map(install, hopper, column):
    install("tile", ["CUtensorMap x", "f32* y", "int column"], TILE, block=[128, 1, 1])
    x = np.arange(200, dtype=np.float32)
    _, y = run(hopper, tile_plan(), [x, np.zeros(128, np.float32)], (column,))
    np.testing.assert_array_equal(y.reshape(8, 16), box(x, column))


def test_a_map_that_the_hardware_refuses(install, hopper):
    install("tile", ["CUtensorMap x", "f32* y", "int column"], TILE, block=[128, 1, 1])
    with pytest.raises(BadParam, match=r"^tile: x: strides must be multiples of 16 bytes; got \(88,\)"):
        hopper.compile(tile_plan(replace(X, strides=(88,))))


@pytest.mark.parametrize("seed, count", [(None, None), (2**63 - 1, -2**31), (2**53 + 1, 2**31 - 1)])
def test_whole_numbers_lose_no_bit(install, gpu, seed, count):
    install("keep", ["u8* y", "int64_t seed", "int count"], KEEP, block=[1, 1, 1])
    y, = run(gpu, keep_plan(), [np.zeros(12, np.uint8)], (seed, count))
    assert struct.unpack("<qi", y) == (5 if seed is None else seed, -3 if count is None else count)


def test_a_cluster_that_the_launch_asks_for(install, hopper):
    name = install("swap", ["u32* y"], SWAP, grid=[6, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1])
    y, = run(hopper, one(name, 6), [np.zeros(6, np.int32)])
    assert y.tolist() == [1, 0, 3, 2, 5, 4]


def test_addresses_of_shared_memory_name_the_block(install, hopper):
    name = install("own", ["u32* y"], OWN, grid=[6, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1])
    y, = run(hopper, one(name, 6), [np.ones(6, np.int32)])
    assert not y.any()


def test_the_blocks_of_a_cooperative_launch_wait_for_each_other(install, gpu):
    name = install("meet", ["u32* c", "u32* y"], MEET, grid=[200, 1, 1], block=[1, 1, 1], cooperative=True)
    _, y = run(gpu, one(name, 400, 1), [np.zeros(1, np.int32), np.zeros(400, np.int32)])
    assert y[200:].tolist() == [*range(1, 200), 0]


def test_more_blocks_than_the_gpu_holds_cannot_wait_for_each_other(install, gpu):
    name = install("meet", ["u32* c", "u32* y"], MEET, grid=[100000, 1, 1], block=[128, 1, 1],
                   cooperative=True)
    with pytest.raises((BadParam, NotSupported), match="meet"):
        run(gpu, one(name, 200000, 1), [np.zeros(1, np.int32), np.zeros(200000, np.int32)])


def test_a_dependent_launch(install, hopper):
    name = install("late", ["u32* y"], LATE, block=[32, 1, 1], dependent=True)
    plan = one(name, 32)
    plan.steps *= 3
    y, = run(hopper, plan, [np.zeros(32, np.int32)])
    assert y.tolist() == list(range(32))
