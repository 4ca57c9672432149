"""Launches as a plan has them, run by the interpreter: programs at several marks, numbers given at
execute."""
from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from cydnn import kernels
from cydnn.device.cuda import pack
from cydnn.device.ptx import Finding, PtxDevice
from cydnn.fusion import At, Extra, Fused, Program, Step, bases
from cydnn.status import BadParam, NotSupported
from cydnn.steps import Launch, Pointer, Scalar
from support.draw import handmade
from support.draw.handwritten import (KEEP, LATE, MEET, OWN, RELAY, SWAP, TILE, X, box, keep_plan, one, run,
                                      tile_plan)

OFF = At((("off", 1),))
ADD = Program("f32", (Step("add", ("t0", "s0")),), (Extra("f32", OFF),), result="n0", scalars=1)
STORE = Program("f32", (), (Extra("f32", OFF),), (("v", "t0"),))
COUNT = 1500


# ---- Programs at marks ----

def added(scalar):
    fuse = {"value": Fused(ADD, (Pointer(0),), (scalar,)), "store": Fused(STORE, (Pointer(1),))}
    step = Launch("pointwise_any_f32_1", dict(count=COUNT), {}, fuse)
    return handmade.plan([handmade.tensor(1, "f32", (COUNT,)), handmade.tensor(2, "f32", (COUNT,))], [step],
                         [((2, "alpha"), 0.25)])


@pytest.mark.parametrize("scalar, want", [(Scalar(0, 0.25), 1.5), (2.0, 2.0)])
def test_two_programs_share_the_fuse_block(ptx90, scalar, want):
    x = np.arange(COUNT, dtype=np.float32)
    _, y = run(ptx90, added(scalar), [x, np.zeros(COUNT, np.float32)], (1.5,))
    assert (y == x + np.float32(want)).all()


def test_the_block_grows_to_what_the_programs_need():
    packed, kernel = pack(added(Scalar(0, 0.25)).steps[0]), kernels.get("pointwise_any_f32_1")
    at, offset = bases({"value": ADD, "store": STORE}), kernel.fuse_offset
    assert len(packed.data) == offset + at[""] > kernel.param_bytes == offset + 8
    assert dict(packed.pointers) == {offset + at["value"]: Pointer(0), offset + at["store"]: Pointer(1)}
    assert packed.scalars == [(offset + at["value"] + 8, "f32", Scalar(0, 0.25))]


def test_a_kernel_without_programs_keeps_eight_bytes():
    kernel = kernels.get("pointwise_any_f32_1")
    assert len(pack(Launch(kernel.name, dict(count=1))).data) == kernel.fuse_offset + 8


# ---- Tensor maps ----

@pytest.fixture
def tile(tmp_path):
    """tile(x, y, column): y = the box of x at (column, 1)."""
    params = ["CUtensorMap x", "f32* y", "int column"]
    with handmade.installed(tmp_path, tile=(params, TILE, dict(block=[128, 1, 1]))):
        yield tile_plan


@pytest.mark.parametrize("column", [-4, 0, 8, 16])
def test_a_box_of_a_tensor_map(tile, ptx90, column):
    x = np.arange(200, dtype=np.float32)
    _, y = run(ptx90, tile(), [x, np.zeros(128, np.float32)], (column,))
    np.testing.assert_array_equal(y.reshape(8, 16), box(x, column))


def test_what_the_hardware_refuses_is_refused_when_a_plan_is_compiled(tile, ptx90):
    with pytest.raises(BadParam, match=r"^tile: x: strides must be multiples of 16 bytes; got \(88,\)"):
        ptx90.compile(tile(replace(X, strides=(88,))))


def test_an_address_that_no_map_can_have_is_refused(tile, ptx90):
    x, y = ptx90.alloc(1024), ptx90.alloc(512)
    with pytest.raises(BadParam, match=r"^t1: must be aligned to 16 bytes; got 0x[0-9a-f]+8"):
        ptx90.compile(tile(alignment=4)).execute([x.ptr + 8, y])


# ---- Numbers ----

@pytest.fixture(scope="module")
def keep(tmp_path_factory):
    """keep(y, seed, count): y = (seed, count), by one thread."""
    params = ["u8* y", "int64_t seed", "int count"]
    with handmade.installed(tmp_path_factory.mktemp("keep"), keep=(params, KEEP, dict(block=[1, 1, 1]))):
        yield keep_plan()


@settings(max_examples=40, deadline=None)
@given(seed=strategies.none() | strategies.integers(-2**63, 2**63 - 1),
       count=strategies.none() | strategies.integers(-2**31, 2**31 - 1))
def test_whole_numbers_lose_no_bit(keep, seed, count):
    y, = run(PtxDevice("sm_80"), keep, [np.zeros(12, np.uint8)], (seed, count))
    assert struct.unpack("<qi", y) == (5 if seed is None else seed, -3 if count is None else count)


@pytest.mark.parametrize("scalars, sentence", [
    ((2**63, 0), "^scalar seed: must be in -9223372036854775808 … 9223372036854775807; got 922337203"),
    ((0, 2**31), r"^scalar uid 9: must be in -2147483648 … 2147483647; got 2147483648"),
    ((0.5, 0), r"^scalar seed: must be a whole number, or an array of one in host memory; got 0\.5"),
    ((0,), r"^execute: scalars must have 2 entries; got 1"),
])
def test_what_is_out_of_range_is_refused_before_anything_runs(keep, scalars, sentence):
    device = PtxDevice("sm_80")
    place = device.alloc(12)
    device.copy_in(place.ptr, np.zeros(12, np.uint8))
    with pytest.raises(BadParam, match=sentence):
        device.compile(keep).execute([place], scalars)
    assert not device.copy_out(place.ptr, np.empty(12, np.uint8)).any()


# ---- Launch attributes ----

@pytest.fixture
def handwritten(tmp_path):
    """handwritten(name, parameters, text, contract): a kernel by that name."""
    with handmade.installer(tmp_path) as make:
        yield make


def test_a_cluster_that_the_launch_asks_for(handwritten, ptx90):
    name = handwritten("swap", ["u32* y"], SWAP, grid=[6, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1])
    y, = run(ptx90, one(name, 6), [np.zeros(6, np.int32)])
    assert y.tolist() == [1, 0, 3, 2, 5, 4]


def test_addresses_of_shared_memory_name_the_block(handwritten, ptx90):
    name = handwritten("own", ["u32* y"], OWN, grid=[6, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1])
    y, = run(ptx90, one(name, 6), [np.ones(6, np.int32)])
    assert not y.any()


def test_a_cluster_must_be_the_compiled_one(handwritten, ptx90):
    compiled = SWAP.replace("{ .shared", ".reqnctapercluster 2, 1, 1\n{ .shared")
    name = handwritten("swap", ["u32* y"], compiled, grid=[8, 1, 1], block=[32, 1, 1], cluster=[4, 1, 1])
    sentence = r"swap: cluster must be the one that is compiled in, \(2, 1, 1\); got \(4, 1, 1\)"
    with pytest.raises(NotSupported, match=sentence):
        run(ptx90, one(name, 8), [np.zeros(8, np.int32)])


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_the_blocks_of_a_cooperative_launch_wait_for_each_other(handwritten, ptx80, seed):
    """More blocks than one batch has."""
    name = handwritten("meet", ["u32* c", "u32* y"], MEET, grid=[200, 1, 1], block=[1, 1, 1],
                       cooperative=True)
    ptx80.seed = seed
    try:
        _, y = run(ptx80, one(name, 400, 1), [np.zeros(1, np.int32), np.zeros(400, np.int32)])
    finally:
        ptx80.seed = None
    assert y[200:].tolist() == [*range(1, 200), 0]


@pytest.mark.parametrize("seed", [None, 1])
def test_a_block_that_asks_does_not_keep_another_from_running(handwritten, ptx80, seed):
    """The loop stands before what it waits for, which is behind a barrier."""
    name = handwritten("relay", ["u32* y"], RELAY, grid=[3, 1, 1], block=[64, 1, 1], cooperative=True)
    ptx80.seed = seed
    try:
        y, = run(ptx80, one(name, 2), [np.zeros(2, np.int32)])
    finally:
        ptx80.seed = None
    assert y.tolist() == [7, 7]


def test_more_blocks_than_the_device_holds_cannot_wait_for_each_other(handwritten, ptx80):
    name = handwritten("meet", ["u32* c", "u32* y"], MEET, grid=[5000, 1, 1], block=[128, 1, 1],
                       cooperative=True)
    sentence = "meet: a cooperative launch must have at most the .* blocks that 108 SMs hold at.*; got 5000"
    with pytest.raises(NotSupported, match=sentence):
        run(ptx80, one(name, 10000, 1), [np.zeros(1, np.int32), np.zeros(10000, np.int32)])


def test_a_dependent_launch_waits_before_it_touches_memory(handwritten, ptx90):
    for text, contract in ((LATE, dict(dependent=True)), (LATE.replace("griddepcontrol.wait;", ""), {})):
        name = handwritten("late", ["u32* y"], text, block=[32, 1, 1], **contract)
        y, = run(ptx90, one(name, 32), [np.zeros(32, np.int32)])
        assert y.tolist() == list(range(32))
    name = handwritten("late", ["u32* y"], LATE.replace("griddepcontrol.wait;", ""), block=[32, 1, 1],
                       dependent=True)
    sentence = r"late: dependent: block \(0,0,0\) thread \(0,0,0\) writes global memory before griddepcontrol"
    with pytest.raises(Finding, match=sentence):
        run(ptx90, one(name, 32), [np.zeros(32, np.int32)])
