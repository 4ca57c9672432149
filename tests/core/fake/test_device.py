"""The CUDA device on the fake driver: facts, copies, and a plan's steps turned into a tape."""
import logging
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from cydnn import device, fusion, kernels, plan as plans
from cydnn.device import assembled
from cydnn.device.cuda import CudaDevice
from cydnn.device.facts import KNOWN
from cydnn.fusion import At, Extra, Fused, Program, Step, bases
from cydnn.graph import Graph
from cydnn.operand import Operand
from cydnn.ops import SoftmaxFwd
from cydnn.steps import Launch, Memset, Pointer, ReferenceCall, Scalar
from cydnn.status import BadParam, NotSupported
from cydnn.tensor import TensorDesc

from conftest import PTX


@pytest.fixture
def gpu(fake):
    return device.get("cuda:0")


def test_default_is_the_gpu_and_is_said_once(fake, caplog):
    device._default.clear()
    with caplog.at_level(logging.INFO, "cydnn.device"):
        assert device.default() is device.default() is device.get("cuda") is device.get(None)
    assert [r.message for r in caplog.records] == ["default device: cuda:0 (Fake GPU 0, sm_90)"]


def test_names_and_refusals(gpu):
    assert (device.names() == ["cuda:0", "cuda:1", "numpy"] and device.get(gpu) is gpu
            and device.get("numpy").name == "numpy")
    assert device.get("ptx:sm_90") is device.get("ptx:sm_90") and device.get("ptx:sm_90").facts.sm == 90
    with pytest.raises(BadParam, match="device: must be .*, .numpy. or a device; got 'tpu'"):
        device.get("tpu")
    with pytest.raises(BadParam, match="ordinal must be in 0..1; got 5"):
        device.get("cuda:5")


def test_facts_come_from_the_driver(gpu):
    facts, sheet = gpu.facts, KNOWN["h200"]
    assert ((facts.kind, facts.sm, facts.sms, facts.smem_bytes, facts.l2_bytes)
            == ("cuda", 90, 132, sheet.smem_bytes, sheet.l2_bytes))
    assert (facts.driver == 13000 and facts.clock_mhz == 1980
            and abs(facts.bandwidth_gbs / sheet.bandwidth_gbs - 1) < 0.05)


@pytest.mark.parametrize("alignment, offset, bytes", [(16, 4, 16), (64, 16, 64), (8, 4, 8), (1, 2, 4)])
def test_an_address_keeps_to_what_is_promised(gpu, fake, alignment, offset, bytes):
    """And to its elements: nothing is launched."""
    desc = TensorDesc.packed("f32", (4, 8))
    built = plans.build(Graph.single(SoftmaxFwd(), dict(x=desc), alignment=alignment), gpu)
    x, y = gpu.alloc(192), gpu.alloc(192)
    before = fake.count("cuLaunchKernel")
    with pytest.raises(BadParam, match=f"^x: must be aligned to {bytes} bytes; got {x.ptr + offset:#x}"):
        built.execute([x.ptr + offset, y.ptr])
    assert fake.count("cuLaunchKernel") == before
    built.execute([x.ptr + bytes, y.ptr])
    assert fake.count("cuLaunchKernel") == before + 1


def test_copies_keep_every_type(gpu):
    for array in (np.arange(12.0).reshape(3, 4).T, np.zeros((0, 3), np.float32),
                  np.float16(3) * np.ones(5, np.float16), np.array(7)):
        buffer = gpu.alloc(array.nbytes)
        gpu.copy_in(buffer, array)
        assert (gpu.copy_out(buffer, np.empty(array.shape, array.dtype)) == array).all()
    with pytest.raises(BadParam, match="copy_out: array must be C-contiguous; got strides"):
        gpu.copy_out(buffer, np.empty((4, 4)).T[1:])


def test_sizes_and_bytes(gpu, fake):
    """What C would cut to a whole number, or to a byte, is refused before the driver is asked."""
    before = fake.count("cuMemAlloc")
    for size in (1.5, "8", None, -1, 2 ** 70):
        with pytest.raises(BadParam, match="alloc: bytes must be "):
            gpu.alloc(size)
    assert fake.count("cuMemAlloc") == before
    buffer = gpu.alloc(8)
    for value, size in ((256, 8), (-1, 8), (1.5, 8), (1, -8), (1, 1.5), (1, 2 ** 70)):
        with pytest.raises(BadParam, match="memset: (value|size_bytes) must be "):
            gpu.memset(buffer, value, size)
    for array in (np.zeros(2, object), "text"):
        with pytest.raises(BadParam, match="copy_in: array must be one of numbers"):
            gpu.copy_in(buffer, array)
    with pytest.raises(BadParam, match="copy_out: array must be a NumPy array of numbers"):
        gpu.copy_out(buffer, [1, 2])


def test_elapsed(gpu):
    calls = []
    assert gpu.elapsed(lambda: calls.append(1), repeat=5) == 1500.0 and len(calls) == 6


def test_everything_can_be_loaded_at_once(gpu, fake):
    fake.reset()
    assert gpu.preload() == len(kernels.names()) and fake.count("cuModuleLoadDataEx") <= len(kernels.names())
    fake.reset()
    gpu.preload()
    assert fake.count("cuModuleLoadDataEx") == 0                     # each image is loaded once


def plan(steps, **facts):
    return SimpleNamespace(**{**dict(operands=(Operand("x", 64, 16), Operand("y", 64, 16, True)), inplace=[],
                                     inside={}, periods={}, text="", scalars=[("alpha", 2.0)], steps=steps,
                                     workspace_bytes=0),
                              **facts})


@pytest.fixture
def scale(monkeypatch):
    """A kernel of the manifest, in small: x, y, alpha."""
    def pack(args, **extra):
        return kernels.Packed(bytes(24), [(0, args["x"]), (8, args["y"])], [(16, "f32", args["alpha"])],
                              (extra["blocks"], 1, 1), (64, 1, 1), 0)
    image = SimpleNamespace(text=lambda: PTX % b"scale_f32", sha256="0" * 64)
    class Kernel:
        fuse_offset = 128

        def __init__(self, name):
            self.name, self.pack, self.image_for = name, pack, lambda sm: image
    monkeypatch.setattr(kernels, "get", Kernel)


def test_a_plan_becomes_a_tape(fake, gpu, scale):
    tape = gpu.compile(plan(
        [Memset(Pointer(1), 64, 0),
         Launch("scale_f32", dict(x=Pointer(0, 4), y=Pointer(1), alpha=Scalar(0, 2.0)), dict(blocks=3))]))
    x, y = gpu.alloc(64), gpu.alloc(64)
    tape.execute((x, y))
    last = fake.last()
    assert ((last.name, last.grid[0], struct.unpack("<QQf", bytes(last.data[:20])))
            == (b"scale_f32", 3, (x.ptr + 4, y.ptr, 2.0)))


def test_reference_steps_do_not_run_on_a_gpu(gpu):
    with pytest.raises(NotSupported, match="cuda:0: a step must be one of Launch, Memset; got ReferenceCall"):
        gpu.compile(plan([ReferenceCall(None, {}, {})]))


def test_programs_are_spliced_and_their_parameters_follow_the_kernel_s_own(fake, gpu):
    """The block is as long as the spliced text says, and ends with what the programs of both marks read."""
    off = At((("off", 1),))
    add = Program("f32", (Step("add", ("t0", "s0")),), (Extra("f32", off),), result="n0", scalars=1)
    store = Program("f32", (), (Extra("f32", off),), (("v", "t0"),))
    fuse = {"value": Fused(add, (Pointer(0, 4),), (Scalar(0, 2.0),)), "store": Fused(store, (Pointer(1),))}
    tape = gpu.compile(plan([Launch("pointwise_any_f32_1", dict(count=15), {}, fuse)]))
    x, y = gpu.alloc(64), gpu.alloc(64)
    tape.execute((x, y), (1.5,))
    last, at = fake.last(), bases(fuse)
    assert last.bytes == 8 + at[""] == 8 + 8 + 16
    assert struct.unpack("<i4xQQf4x", bytes(last.data[:last.bytes])) == (15, y.ptr, x.ptr + 4, 1.5)
    assert gpu.function("pointwise_any_f32_1", fuse) is not None and fake.count("cuModuleLoadDataEx") == 1


def test_a_kernel_cache_keeps_machine_code(fake, tmp_path, monkeypatch):
    """Also of kernels that are loaded; a second device, as in another process, assembles nothing."""
    monkeypatch.setenv("CYDNN_CACHE", str(tmp_path / "cache"))
    name, gpu = "softmax_fwd_warp_f16_8", CudaDevice(0)
    text = kernels.get(name).image_for(90).text()
    loaded = gpu.function(name)
    assert not list(tmp_path.iterdir())
    with assembled.keeping():
        assert gpu.function(name) is loaded is gpu.function(name)
        assert CudaDevice(0).function(name).name == name
    assert assembled.find(text, 90) == text + b"// assembled" and fake.count("cuLinkComplete") == 1
    monkeypatch.setenv("CYDNN_CACHE", str(tmp_path / "other"))
    fake.fail("cuLinkAddData_v2")
    with assembled.keeping():
        assert CudaDevice(0).function(name).name == name
    assert not (tmp_path / "other").exists() and not assembled.keeps()


def test_a_spliced_text_that_is_kept_is_not_made_again(fake, tmp_path, monkeypatch):
    """Of the same kernel, programs and ways; a file that holds no hash is as if it were not there."""
    monkeypatch.setenv("CYDNN_CACHE", str(tmp_path))
    at, splice, made = At((("off", 1),), 1), fusion.splice, []
    fuse = {"value": Program("f32", (Step("add", ("t0", "t0")),), (Extra("f32", at),), result="n0"),
            "store": Program("f32", (), (Extra("f32", at),), (("v", "t0"),))}
    monkeypatch.setattr(fusion, "splice", lambda *given: made.append(given) or splice(*given))
    load = lambda: CudaDevice(0).function("pointwise_any_f32_1", fuse)
    with assembled.keeping():
        assert load() and load() and len(made) == 1
    note, = tmp_path.glob("*.text")
    note.write_bytes(b"../elsewhere")
    assert load() and len(made) == 2


@pytest.mark.parametrize("code, loads", [("{text}// assembled", 1), ("of another driver", 2), (None, 1)])
def test_machine_code_comes_before_the_compiler(fake, tmp_path, monkeypatch, code, loads):
    """What is kept for a text is loaded in its place; not what the driver refuses, or what is not whole."""
    monkeypatch.setenv("CYDNN_CACHE", str(tmp_path))
    name, gpu = "softmax_fwd_warp_f16_8", CudaDevice(0)
    text = kernels.get(name).image_for(90).text()
    path = assembled.keep(text, 90, code.replace("{text}", text.decode()).encode() if code else text + b"//")
    if code is None:
        path.write_bytes(path.read_bytes()[:-1])
    assert (assembled.find(text, 90) is None) == (code is None) and assembled.find(text, 80) is None
    before = fake.count("cuModuleLoadDataEx")
    assert gpu.function(name).name == name and fake.count("cuModuleLoadDataEx") - before == loads
