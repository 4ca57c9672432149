"""build_ptx.py and what it made: ptx/ is fresh, verified and small; builds are
repeatable; headers compile."""
import json
import lzma
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from toolchain import (COMPILER, PTX, SCALE, SRC, build_ptx, contract, needs_nvcc, needs_ptxas, packs,
                       run, tree, variants)

MANIFEST = build_ptx.read_manifest(PTX)
ROWS = {**MANIFEST["kernels"], **MANIFEST["functions"]}


# ---- What is in the repository ----

def test_fresh():
    assert build_ptx.check(build_ptx.Tree(SRC, []), PTX) == []


def test_on_a_disk_of_4_kib_blocks():
    sizes = [p.stat().st_size for p in PTX.rglob("*") if p.is_file()]
    assert len(sizes) <= 280 and sum(-(-size // 4096) * 4096 for size in sizes) <= 15 << 20


def test_streams_are_short():
    """What is unpacked for one image is at most a MiB, or the image alone."""
    ends = {}
    for _, images in packs.groups_of(MANIFEST).items():
        for image in images.values():
            start, _, at, size = image["lies"]
            ends.setdefault((image["file"], start), []).append((at, at + size))
    for spans in ends.values():
        spans.sort()
        assert [end for _, end in spans[:-1]] == [at for at, _ in spans[1:]] and spans[0][0] == 0
        assert len(spans) == 1 or spans[-1][1] <= packs.STREAM


def text_of(image):
    return packs.text_of(PTX, image).decode()


@pytest.mark.parametrize("name", sorted(MANIFEST["kernels"]))
def test_contract_against_ptx(name):
    """Entry, parameters, threads and marks, without a GPU or a compiler."""
    row = ROWS[name]
    variant = contract.Variant(name, "kernel", row["source"], "", (), row["axes"], row)
    assert set(row["targets"]) <= set(row["images"])
    for target, image in row["images"].items():
        text = text_of(image)
        build_ptx.check_entry(text, variant)
        assert re.search(r"(?m)^\.version (.*)$", text)[1] == image["version"] and f".target {target}" in text
        assert image["registers"] <= 255


# ---- The tool ----

@needs_ptxas
@needs_nvcc
@pytest.mark.parametrize("name", sorted(MANIFEST["kernels"])[::40])
def test_image_assembles(name):
    for target, image in ROWS[name]["images"].items():
        good, said = COMPILER.assemble(text_of(image), target, "kernel")
        assert good and build_ptx.usage(said)["registers"] == image["registers"], said


@needs_nvcc
def test_rebuild_gives_the_same_bytes_anywhere(tmp_path):
    for folder in ("a", "b/deeper"):
        src = tree(tmp_path / folder, scale=SCALE)
        code, said = run("--src", src, "--out", tmp_path / folder / "ptx")
        assert code == 0, said
    a, b = ({p.name: p.read_bytes() for p in (tmp_path / f / "ptx").rglob("*") if p.is_file()}
            for f in ("a", "b/deeper"))
    assert a == b and len(a) == 3                # a pack, the manifest, problems


@needs_nvcc
@pytest.mark.share(8)
@pytest.mark.parametrize("name, target", [(name, target) for name in sorted(MANIFEST["kernels"])
                                          for target in MANIFEST["kernels"][name]["images"]])
def test_rebuild_of_a_shipped_image(name, target, sources):
    shipped = MANIFEST["kernels"][name]["images"][target]
    text, facts = build_ptx.build_image(COMPILER, sources[name], target, SRC)
    lies = {key: shipped[key] for key in ("file", "lies")}
    assert facts | lies == {**shipped, "nvcc": COMPILER.version} and text.decode() == text_of(shipped)


@pytest.fixture(scope="module")
def sources() -> dict:
    """name -> the variant that it is built from."""
    return {variant.name: variant for variant in build_ptx.Tree(SRC, []).variants}


@needs_nvcc
def test_life_of_a_kernel(tmp_path):
    """Build, nothing to do, edit, check, another card, a vanished kernel."""
    src, out = tree(tmp_path / "src", scale=SCALE,
                    other=SCALE.replace("scale_", "other_").replace('"f32", ', "")), tmp_path / "ptx"
    tool = "--src", src, "--out", out
    assert "3 images built" in run(*tool)[1]
    assert run(*tool, "--check")[0] == 0
    assert "0 images built" in run(*tool)[1]
    (src / "test" / "scale.cu").write_text(SCALE.replace(
        "[128, 1, 1]\n", "[128, 1, 1]\nproblems = [\"transform {T} {count if T == f16 else 7}\"]\n"))
    code, said = run(*tool, "--check")
    assert code == 1 and "problems: 'count if T == f16 else 7' needs a value for count" in said
    (src / "test" / "scale.cu").write_text(SCALE.replace("y = alpha * x", "scales"))
    assert (run(*tool, "--check")[0] == 1 and "0 images built, 3 variants selected" in run(*tool)[1]
            and run(*tool, "--check")[0] == 0)
    (src / "test" / "scale.cu").write_text(SCALE + "\n")
    code, said = run(*tool, "--check")
    assert code == 1 and "scale_f16 must be rebuilt" in said and "other" not in said
    assert "2 images built, 1 variants" in run(*tool, "--only", "scale_f16", "--arch", "sm_80")[1]
    images = build_ptx.read_manifest(out)["kernels"]["scale_f16"]["images"]
    assert set(images) == {"sm_75", "sm_80"} and images["sm_80"]["version"] == "7.0"
    code, said = run(*tool, "--only", "scale_f64")
    assert code == 1 and "--only must match a variant or a file; got scale_f64" in said
    (src / "test" / "other.cu").unlink()
    assert "other_f16 is in the manifest and has no source" in run(*tool, "--check")[1]
    assert run(*tool)[0] == 0 and run(*tool, "--check")[0] == 0
    assert {p.name for p in out.rglob("*.xz")} == {"scale.sm_75.ptx.xz", "scale.sm_80.ptx.xz"}
    pack = out / "test" / "scale.sm_75.ptx.xz"
    for wrong in (lzma.compress(b"tampered"), pack.read_bytes()[:-4]):
        pack.write_bytes(wrong)
        assert "scale.sm_75.ptx.xz: must be the text the manifest names" in run(*tool, "--check")[1]


@needs_nvcc
def test_reproduce(tmp_path):
    """New words are no new image; new code is named, and nothing is written."""
    src, out = tree(tmp_path / "src", scale=SCALE), tmp_path / "ptx"
    tool, file = ("--src", src, "--out", out), src / "test" / "scale.cu"
    state = lambda: [p.read_bytes() for p in sorted(out.rglob("*.*"))]
    assert run(*tool)[0] == 0
    file.write_text(SCALE.replace("if (i", "/* i */ if (i"))
    assert "2 variants have a new hash" in run(*tool, "--reproduce")[1] and run(*tool, "--check")[0] == 0
    before = state()
    file.write_text(SCALE.replace("alpha * to_acc(x[i])", "T(3) == x[0] ? alpha : to_acc(x[i])"))
    code, said = run(*tool, "--reproduce", "--only", "f32")
    assert code == 1 and "scale_f32: the image for sm_75 must be what" in said and state() == before


@needs_nvcc
def test_builds_at_the_same_time(tmp_path):
    src = tree(tmp_path / "src", **{f"k{i}": SCALE.replace("scale_", f"k{i}_") for i in range(3)})
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(
            lambda i: run("--src", src, "--out", tmp_path / "ptx", "--only", f"k{i}_", "-j", 1), range(3)))
    assert [code for code, _ in answers] == [0, 0, 0], answers
    assert len(json.loads((tmp_path / "ptx" / "manifest.json").read_text())["kernels"]) == 6


@needs_nvcc
@pytest.mark.parametrize("old, new, sentence", [
    ("T* y, int count, Acc_T alpha) {", "T* y, int64_t count, Acc_T alpha) {",
     "params must be those of KERNEL"),
    ('extern "C" ', "", "must have one entry"),
    ("__launch_bounds__(128)", "__launch_bounds__(64)", r"block must fit __launch_bounds__\(64\)"),
    ('extern "C"', "static __device__ __noinline__ float late(float x) { return sinf(x); }\nextern \"C\"",
     "no internal linkage"),
    ("to_acc(x[i])", "to_acc(x[j])", r'identifier "j" is undefined'),
    ("if (i < count)", 'asm volatile("nonsense;"); if (i < count)', "must assemble for sm_75; ptxas says"),
    ("const int i", 'asm volatile("// @fuse.epilogue v=%0" :: "r"(count)); const int i', "marks must list"),
])
def test_broken_kernel(tmp_path, old, new, sentence):
    assert old in SCALE
    text = SCALE.replace(old, new).replace("alpha * to_acc",
                                           "late(alpha) * to_acc" if "late" in new else "alpha * to_acc")
    variant = variants(tmp_path, text)[0]
    with pytest.raises(contract.ContractError, match=sentence):
        build_ptx.build_image(COMPILER, variant, "sm_75", tmp_path / "src")


@needs_nvcc
@pytest.mark.parametrize("keys, bounds, sentence", [
    ("cluster = [2, 1, 1]", "__cluster_dims__(2, 1, 1)", None),
    ("cluster = [2, 1, 1]", "", None),
    ("", "__cluster_dims__(2, 1, 1)", None),
    ("cluster = [4, 1, 1]", "__cluster_dims__(2, 1, 1)", "must be the one that is compiled in, 2, 1, 1"),
    ("dependent = true", "", "a dependent kernel must wait for the launch before it with griddepcontrol"),
])
def test_attributes_against_the_ptx(tmp_path, keys, bounds, sentence):
    text = SCALE.replace('needs  = ["count >= 1"]', f'targets = ["sm_90"]\n{keys}')
    variant = variants(tmp_path, text.replace("__launch_bounds__", bounds + " __launch_bounds__"))[0]
    expected = pytest.raises(contract.ContractError, match=sentence) if sentence else nullcontext()
    with expected:
        build_ptx.build_image(COMPILER, variant, "sm_90", tmp_path / "src")


@needs_nvcc
def test_axes_of_one_letter(tmp_path):
    """cuda_runtime.h has templates over T and U: macros come after it. lib/ is called
    by no single capital letter."""
    text = SCALE.replace("T* y", "U* y").replace("scale_{T}", "scale_{T}_{U}_{N}").replace(
        "params ", 'U = ["f16"]\nN = [4]\nparams ')
    for variant in variants(tmp_path,
                            text.replace("from_acc<T>", "from_acc<U>").replace("types.cuh", "reduce.cuh")):
        build_ptx.build_image(COMPILER, variant, "sm_75", tmp_path / "src")


FUNCS = """/*@funcs
name  = "fops"
about = "Device functions for the splicer."
@*/
#include "lib/math.cuh"
extern "C" __device__ float op_sigmoid(float x) { return sigmoid(x); }
"""


@needs_nvcc
def test_function_library(tmp_path):
    out = tmp_path / "ptx"
    code, said = run("--src", tree(tmp_path / "src", fops=FUNCS), "--out", out)
    assert code == 0, said
    manifest = build_ptx.read_manifest(out)
    assert not manifest["kernels"] and b".func  (.param .b32 func_retval0) op_sigmoid" in packs.text_of(
        out, manifest["functions"]["fops"]["images"]["sm_75"])


USES_ALL = """/*@kernel
name   = "uses_{T}"
about  = "One call of everything in lib/."
T      = ["f16", "bf16"]
when   = ["T == f16 or sm >= 80"]
params = ["const T* x", "T* y", "int r", "FastDiv d", "Array<FastDiv, 2> e", "float alpha", "float beta",
          "Fuse fuse"]
block  = [128, 1, 1]
grid   = [1, 1, 1]
smem   = 4096
marks  = ["epilogue"]
@*/
#include "lib/epilogue.cuh"
#include "lib/mma.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(const T* x, T* y, int r, FastDiv d,
                                                         Array<FastDiv, 2> e, float alpha, float beta,
                                                         Fuse fuse) {
    extern __shared__ uint4 memory[];
    const unsigned at = shared_address(memory) + threadIdx.x * 16;
    cp_async<16>(at, x + 8 * threadIdx.x, r), cp_async<8>(at, x), cp_async_if<4>(r > 3, at, x);
    cp_async_commit(), cp_async_wait<0>();
    __syncthreads();
    unsigned a[4], turned[4];
    float c[4] = {};
    ldmatrix_x4(a, at), ldmatrix_x4_trans(turned, at);
    const unsigned b[2] = {turned[0], turned[1]};
    NO_UNROLL for (int i = 0; i < r; ++i) mma_m16n8<T>(c, a, b);
    c[0] = block_sum<128>(c[0]), c[1] = block_reduce<128>(c[1], Max{}),
    c[2] = warp_max(int(c[2])) + warp_sum(double(d.mul));
    c[3] = tanh_of(sigmoid(c[3])) + exp_fast(c[2]) + log_fast(c[1]) + div_fast(c[0], c[1]) + e[1].mod(r)
         + lowest<float>();
    const i64 off = 4 * threadIdx.x;
    UNROLL for (int i = 0; i < 4; ++i) c[i] = blend(alpha, c[i], beta, y + off + i);
    fuse_epilogue(c, off, int(off));
    auto z = Vec<T, 4>::load_stream(x + off), n = Vec<T, 4>::load_nc(x + off);
    UNROLL for (int i = 0; i < 4; ++i) c[i] += to_acc(z[i]) * to_acc(n[i]);
    Vec<T, 4>::of(c).store_stream(y + off);
}
"""


@needs_nvcc
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_120"])
def test_headers_compile(tmp_path, target):
    found = [v for v in variants(tmp_path, USES_ALL) if v.allows(target)] or pytest.skip("no variant")
    text, facts = build_ptx.build_image(COMPILER, found[-1] if target != "sm_75" else found[0],
                                        target, tmp_path / "src")
    assert facts["spills"] == 0 and float(facts["version"]) >= 7.4  # ld.global.nc.L1::no_allocate needs 7.4
    mark = re.search(r"// @fuse\.epilogue v=(%\w+),(%\w+),(%\w+),(%\w+) off=(%rd\d+) col=(%r\d+);",
                     text.decode())
    assert mark and len(set(mark.groups())) == 6


TYPES = """/*@kernel
name   = "types_{T}"
about  = "Conversions and vectors of every type."
T      = ["f64", "f32", "f16", "bf16", "i8", "u8", "i32", "i64"]
params = ["const T* x", "T* y", "Acc_T alpha"]
block  = [32, 1, 1]
grid   = [1, 1, 1]
@*/
#include "lib/reduce.cuh"
template <int Count> DEVICE void scale(const T* x, T* y, Acc_T alpha) {
    Acc_T v[Count];
    Vec<T, Count>::load(x).get(v);
    UNROLL for (int i = 0; i < Count; ++i) v[i] = Max{}(v[i] * alpha, to_acc(lowest<T>()));
    Vec<T, Count>::of(v).store(y);
}
extern "C" __global__ void KERNEL(const T* x, T* y, Acc_T alpha) {
    scale<1>(x, y, alpha), scale<2>(x, y, alpha), scale<4>(x, y, alpha),
    scale<8>(x, y, alpha), scale<16>(x, y, alpha);
    y[9] = from_acc<T>(1.5), y[10] = from_acc<T>(1.5f);
}
"""


@needs_nvcc
def test_every_type(tmp_path):
    src = tree(tmp_path / "src",
               types=TYPES.replace("y[10] = from_acc<T>(1.5f)", "y[10] = from_acc<T>(Acc_T(1.5))"))
    code, said = run("--src", src, "--out", tmp_path / "ptx")
    assert code == 0, said


@needs_nvcc
def test_a_target_that_nvcc_does_not_know_is_said_once(tmp_path):
    code, said = run("--arch", "sm_999", "--overlay", str(tmp_path))
    assert code == 1 and re.search("--arch must be one that nvcc .* compiles for, .*; got sm_999$", said)
    assert len(said.strip().splitlines()) == 1 and not any(tmp_path.iterdir())


def test_reads_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert run("--only", "pooling_bwd_whole_bf16", "--check")[0] == 0
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(contract.ContractError,
                       match="nvcc: must be in PATH, in CUDA_HOME/bin, or installed with"):
        build_ptx.Compiler()


PRODUCT = """/*@kernel
name    = "product_{T}"
about   = "One product."
T       = ["f16"]
targets = ["sm_90a"]
params  = ["float* y", "unsigned at"]
block   = [128, 1, 1]
grid    = [1, 1, 1]
@*/
#include "lib/hopper.cuh"

extern "C" __global__ __launch_bounds__(128, 1) void KERNEL(float* y, unsigned at) {
    registers_take<232>();
    float d[64];
    const uint64_t panel = swizzled_panel(at, 16, 1024);
    wgmma_begin(d);
    Wgmma<T, 128>::add<0, 0>(d, panel, panel, 0);
    wgmma_commit();
    wgmma_wait<0>(d);
    for (int i = 0; i < 64; ++i) y[i * 128 + threadIdx.x] = d[i];
}
"""


MANY = "float e[200]; UNROLL for (int i = 0; i < 200; ++i) e[i] = y[i];"
STORED = "= d[i]; UNROLL for (int i = 0; i < 200; ++i) y[i + 9000] = e[i];"


@needs_nvcc
@pytest.mark.parametrize("edits, sentence", [
    ({}, ""), ({"wgmma_wait<0>(d);": ""}, r"\(C7517\)"), ({"__launch_bounds__(128, 1)": ""}, r"\(C7508\)"),
    ({"wgmma_begin(d);": MANY + "wgmma_begin(d);", "= d[i];": STORED},
     "bytes of spills")])
def test_slow_wgmma_is_an_error(tmp_path, edits, sentence):
    text = PRODUCT
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    code, said = run("--src", tree(tmp_path / "src", product=text), "--out", tmp_path / "ptx")
    assert code == bool(sentence) and re.search(sentence, said), said
