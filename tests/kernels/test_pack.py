"""kernels/: arguments to parameter bytes, launch shapes, and the choice of an image.
A manifest of its own, no compiler."""
import hashlib
import lzma
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from cydnn import kernels
from cydnn.steps import Pointer, Scalar
from cydnn.status import BadParam, InternalError, NotSupported
from support.draw.handmade import manifest_text
from toolchain import contract

PARAMS = ["const T* x", "T* y", "int rows", "int64_t count", "FastDiv d", "Array<FastDiv, 2> e",
          "Array<int64_t, 3> s", "float alpha", "double beta", "unsigned u", "Fuse fuse"]
ARGS = dict(x=None, y=None, rows=5, count=2**40, d=7, e=(3, 1),
            s=[1, -2, 3], alpha=1.5, beta=-2.5, u=2**32 - 1)


def make(folder, *, targets=("sm_75",), **changes):
    rows = contract.layout("k.cu", [contract.parameter("k.cu", text, {"T": "f16"}) for text in PARAMS])
    (folder / "test").mkdir(parents=True, exist_ok=True)
    images = {}
    for target in targets:
        text = f"// {target}".encode()
        (folder / f"test/k.{target}.ptx.xz").write_bytes(lzma.compress(text))
        images[target] = dict(file=f"test/k.{target}.ptx.xz", sha256=hashlib.sha256(text).hexdigest(),
                              version="7.0", nvcc="13.0.88", registers=8, smem_static=0, spills=0)
    row = dict(source="test/k.cu", source_sha256="", about="", params=rows,
               param_bytes=rows[-1]["offset"] + rows[-1]["bytes"], axes={"T": "f16"}, block=[32, 4, 1],
               grid=["ceil_div(rows, 4)", 1, 1], smem="rows * sizeof(T)", extra=[], needs=["rows <= 100"],
               marks=["epilogue"], targets=list(targets), images=images)
    (folder / "manifest.json").write_text(manifest_text({"k": {**row, **changes}}))
    return folder


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    def load(**changes):
        monkeypatch.setenv("CYDNN_PTX_DIR", str(make(tmp_path, **changes)))
        kernels.reload()
        return kernels.get("k")
    yield load
    kernels.reload()


def test_bytes(kernel):
    x, alpha, beta = Pointer(3, 16), Scalar((0, "alpha"), 1.0), Scalar((0, "beta"), 0.25)
    packed = kernel().pack({**ARGS, "x": x, "alpha": alpha, "beta": beta, "y": 2**63})
    words = struct.unpack("<QQi4xq3I6I4x3qf4xdI4x8x", packed.data)
    assert words[:4] == (0, 2**63, 5, 2**40)
    assert words[4:13] == (*kernels.fastdiv(7), *kernels.fastdiv(3), *kernels.fastdiv(1))
    assert words[13:] == (1, -2, 3, 1.0, 0.25, 2**32 - 1)
    offsets = {row["name"]: row["offset"] for row in kernel().row["params"]}
    assert packed.pointers == [(offsets["x"], x)]
    assert packed.scalars == [(offsets["alpha"], "f32", alpha), (offsets["beta"], "f64", beta)]
    assert (packed.grid, packed.block, packed.smem) == ((2, 1, 1), (32, 4, 1), 10)
    assert kernel().smem_bytes(rows=5) == packed.smem
    assert (kernel().fuse_offset == offsets["fuse"]
            and len(packed.data) == kernel().param_bytes == offsets["fuse"] + 8)


@pytest.mark.parametrize("kind, code, patch", [("float", "f4x", "f32"), ("double", "d", "f64"),
                                               ("int", "i4x", "i32"), ("int64_t", "q", "i64")])
def test_a_number_is_a_value_or_where_it_lies(kernel, kind, code, patch):
    rows = contract.layout("k.cu", [contract.parameter("k.cu", f"Number<{kind}> n", {})])
    one = kernel(params=rows, param_bytes=16, needs=[], grid=[1, 1, 1], smem=0)
    given, there = Scalar((0, "n"), 5), Pointer(3, 16)
    for value, found, pointers, scalars in ((7, 7, [], []), (given, 5, [], [(0, patch, given)]),
                                            (there, 0, [(8, there)], [])):
        packed = one.pack(dict(n=value))
        assert (struct.unpack(f"<{code}Q", packed.data), packed.pointers, packed.scalars) == (
            (found, 0), pointers, scalars)


def test_whole_numbers_given_at_execute_stay_exact(kernel):
    rows, count = Scalar((0, "rows"), 7), Scalar((0, "seed"), 2**53 + 1)
    packed = kernel(needs=[], grid=[1, 1, 1], smem=0).pack({**ARGS, "rows": rows, "count": count})
    offsets = {row["name"]: row["offset"] for row in kernel().row["params"]}
    assert packed.scalars == [(offsets["rows"], "i32", rows), (offsets["count"], "i64", count)]
    assert struct.unpack_from("<i4xq", packed.data, offsets["rows"]) == (7, 2**53 + 1)


def test_a_number_beyond_f32_is_infinite(kernel):
    offset = next(row["offset"] for row in kernel().row["params"] if row["name"] == "alpha")
    assert struct.unpack_from("<f", kernel().pack({**ARGS, "alpha": -1e300}).data, offset) == (float("-inf"),)


def test_numpy_numbers_are_numbers(kernel):
    assert (kernel().pack({**ARGS, "rows": np.int64(5), "s": np.array([1, -2, 3]), "alpha": np.float32(1.5)})
            == kernel().pack(ARGS))


@pytest.mark.parametrize("name, value, sentence", [
    ("rows", 2**31, "k: rows must be in -2147483648 … 2147483647; got 2147483648"),
    ("rows", 2.0, "k: rows must be int; got 2.0"),
    ("rows", Scalar(1, 1.0), "k: rows must be int; got 1.0"),
    ("rows", Scalar(1, 2**31), "k: rows must be in -2147483648 … 2147483647; got 2147483648"),
    ("u", Scalar(1, 1), "k: u is unsigned: only int, int64_t, float, double can be given at execute"),
    ("x", Scalar(1, 1), r"k: x is const f16\*: only int, int64_t, float, double can be given at execute"),
    ("u", -1, "k: u must be in 0 … 4294967295; got -1"),
    ("d", 0, "k: d must be in 1 … 2147483647; got 0"),
    ("e", (1, 2, 3), r"k: e must have 2 entries; got \(1, 2, 3\)"),
    ("e", 4, "k: e must be a sequence of 2; got 4"),
    ("x", "here", "k: x must be a Pointer, None or an address; got 'here'"),
    ("alpha", None, "k: alpha must be float; got None"),
    ("alpha", 10**400, "k: alpha must be float; got 1000"),
])
def test_refused_argument(kernel, name, value, sentence):
    with pytest.raises(BadParam, match=sentence):
        kernel().pack({**ARGS, name: value})


def test_refused_names(kernel):
    with pytest.raises(BadParam, match="k: arguments must be .*; got no rows"):
        kernel().pack({n: v for n, v in ARGS.items() if n != "rows"})
    with pytest.raises(BadParam, match="; got row"):
        kernel().pack({**ARGS, "row": 1})
    with pytest.raises(BadParam, match="k: extra names must be none; got tiles"):
        kernel().pack(ARGS, tiles=1)


def test_needs_and_limits(kernel):
    with pytest.raises(NotSupported, match="k: needs rows <= 100; got rows=101"):
        kernel().pack({**ARGS, "rows": 101})
    with pytest.raises(NotSupported, match="grid.x must be in 1 … 2147483647; got 0"):
        kernel().pack({**ARGS, "rows": 0})
    with pytest.raises(NotSupported, match="grid.y must be in 1 … 65535; got 65536"):
        kernel(grid=[1, "tiles", 1], extra=["tiles"]).pack(ARGS, tiles=65536)
    with pytest.raises(NotSupported, match="a block must have 1 … 1024 threads"):
        kernel(block=["rows * 300", 1, 1]).pack(ARGS)
    with pytest.raises(BadParam, match="k: 'alpha \\* 2' needs a value for alpha"):
        kernel(smem="alpha * 2").pack({**ARGS, "alpha": Scalar(1, 1.0)})


def test_attributes_of_a_launch(kernel):
    assert kernel().pack(ARGS).attributes == (None, False, False)
    packed = kernel(cluster=["2 if rows > 4 else 1", 1, 1], cooperative=True).pack(ARGS)
    assert packed.attributes == ((2, 1, 1), True, False) and packed.grid == (2, 1, 1)
    assert kernel(dependent=True).pack(ARGS).attributes._asdict() == dict(
        cluster=None, cooperative=False, dependent=True)
    assert [kernel(dependent=True).pack(ARGS).attributes.on(sm).dependent for sm in (86, 90)] == [False, True]
    sentence = r"k: grid must be a multiple of the cluster \(4, 1, 1\); got \(2, 1, 1\)"
    with pytest.raises(NotSupported, match=sentence):
        kernel(cluster=[4, 1, 1]).pack(ARGS)
    for cluster in ([4, 4, 1], [0, 1, 1]):
        with pytest.raises(NotSupported, match=r"k: cluster must have 1 … 8 blocks; got \("):
            kernel(cluster=cluster).pack(ARGS)


def test_extra_pointers_and_arrays_in_expressions(kernel):
    packed = kernel(grid=["tiles", "e[0]", "2 if x else 1"], extra=["tiles"]).pack(
        {**ARGS, "x": Pointer(1)}, tiles=9)
    assert packed.grid == (9, 3, 2)


@pytest.mark.parametrize("sm, target",
                         [(75, "sm_75"), (86, "sm_80"), (89, "sm_80"), (90, "sm_90a"), (100, "sm_100a"),
                          (103, "sm_100f"), (110, "sm_100"), (120, "sm_120f"), (121, "sm_120f")])
def test_pick_target(sm, target):
    assert kernels.pick_target(["sm_75", "sm_80", "sm_90a", "sm_100", "sm_100a",
                                "sm_100f", "sm_120f"], sm) == target


def test_images(kernel):
    k = kernel(targets=("sm_80", "sm_90a"))
    assert k.image_for(90).text() == b"// sm_90a" and k.image_for(120).target == "sm_80"
    with pytest.raises(NotSupported, match="k: the device is sm_75 and the images are for sm_80, sm_90a. "
                                           ".*cydnn ptx k --build --arch sm_75"):
        k.image_for(75)
    k.image_for(80).path.write_bytes(lzma.compress(b"other"))
    with pytest.raises(InternalError, match="must have sha256"):
        k.image_for(80).text()
    assert len(kernels.verify()) == 1
    k.image_for(80).path.unlink()
    with pytest.raises(InternalError, match="must be readable"):
        k.image_for(80).text()


def test_unknown_kernel_and_folder(kernel, tmp_path, monkeypatch):
    kernel()
    with pytest.raises(NotSupported, match="kernel kk must be in .*there are k. Build it with .*--only kk"):
        kernels.get("kk")
    monkeypatch.setenv("CYDNN_PTX_DIR", str(tmp_path / "none"))
    with pytest.raises(NotSupported, match="manifest.json must be in .*none; got none"):
        kernels.names()


def umulhi_div(n, mul, shr):
    """FastDiv::div of lib/types.cuh, in 32-bit arithmetic."""
    doubled = (n + n).astype(np.uint32)
    return ((doubled.astype(np.uint64) * np.uint64(mul)) >> np.uint64(32)).astype(np.uint32) >> np.uint32(shr)


def test_fastdiv():
    """The proof is in types.cuh; this is its check at the values where a wrong magic number shows first."""
    rng = np.random.default_rng(0)
    edges = {2**k + e for k in range(31) for e in (-1, 0, 1)} | {2**31 - 1, 2**31 - 2, *range(1, 300)}
    for by in sorted(edges | set(rng.integers(1, 2**31, 2000).tolist())):
        if not 1 <= by < 2**31:
            continue
        mul, shr, _ = kernels.fastdiv(by)
        assert 0 < mul < 2**32 and 0 <= shr < 32 and by <= 2**shr and 0 <= mul * by - 2**(31 + shr) < by
        top = (2**31 - 1) // by
        q = np.unique(np.clip(np.concatenate([rng.integers(0, top + 1, 50), [0, 1, top - 1, top]]), 0,
                              top)).astype(np.int64)
        n = np.concatenate([q * by, q * by - 1, q * by + 1, q * by + by - 1, [2**31 - 1, 0]])
        n = n[(n >= 0) & (n < 2**31)].astype(np.uint32)
        np.testing.assert_array_equal(umulhi_div(n, mul, shr), n // np.uint32(by))


def test_duck_typed_pointers(kernel):
    stand_in = SimpleNamespace(uid=1, addend=0)
    assert kernel().pack({**ARGS, "x": stand_in}).pointers == [(0, stand_in)]
