"""Contracts: from the header of a kernel file to variants, offsets and hashes; no compiler needed."""
import pytest
from toolchain import ROOT, SCALE, SRC, build_ptx, contract, tree, variants


def test_variants(tmp_path):
    f32, f16 = variants(tmp_path, SCALE)
    assert (f32.name, f16.name, f32.family, f32.targets) == ("scale_f32", "scale_f16", "test", ("sm_75",))
    assert f16.macros() == "#define KERNEL scale_f16\n#define T f16\n#define Acc_T float\n"
    assert f16.contract["params"] == [dict(name="x", type="const f16*", offset=0, bytes=8),
                                      dict(name="y", type="f16*", offset=8, bytes=8),
                                      dict(name="count", type="int", offset=16, bytes=4),
                                      dict(name="alpha", type="float", offset=20, bytes=4)]
    assert f16.contract["param_bytes"] == 24


def test_axes_multiply_and_when_selects(tmp_path):
    text = SCALE.replace('"f16"]', '"f16"]\ntile = [32, 64]\ntargets = ["sm_75", "sm_80"]\n'
                                   'when = ["T != f16 or sm >= 80", "tile < 64 or T == f32"]')
    found = variants(tmp_path, text.replace("scale_{T}", "scale_{tile}_{T}"))
    assert {v.name: v.targets for v in found} == {
        "scale_32_f32": ("sm_75", "sm_80"), "scale_64_f32": ("sm_75", "sm_80"), "scale_32_f16": ("sm_80",)}
    assert ("#define tile 32\n" in found[0].macros() and found[0].allows("sm_120")
            and found[-1].allows("sm_120"))


@pytest.mark.parametrize("params, offsets, end", [
    (["int a", "double b", "int c"], [0, 8, 16], 20),
    (["int a", "FastDiv d", "Array<FastDiv, 3> e", "i64 f"], [0, 4, 16, 56], 64),
    (["const float* __restrict__ x", "Array<int64_t,2> s", "unsigned int n", "Fuse fuse"],
     [0, 8, 24, 32], 40),
    (["int a", "const CUtensorMap x", "double b"], [0, 128, 256], 264),
    (["int32_t a", "const Array< int , 5 > b", "float c"], [0, 4, 24], 28),
])
def test_layout(params, offsets, end):
    rows = contract.layout("k.cu", [contract.parameter("k.cu", text, {}) for text in params])
    assert [r["offset"] for r in rows] == offsets and rows[-1]["offset"] + rows[-1]["bytes"] == end


@pytest.mark.parametrize("old, new, sentence", [
    ("/*@kernel", "/* kernel", r"must begin with /\*@kernel"),
    ("[128, 1, 1]", "[128, 1]", "block must have 3 entries"),
    ('about  = "y = alpha * x"', "", "about must be a string"),
    ('"int count"', '"size_t count"', "a parameter must be a pointer.*got 'size_t'"),
    ("ceil_div(count, 128)", "ceil_div(cuont, 128)", "may use .*got cuont"),
    ("ceil_div(count, 128)", "count.real", "must be made of"),
    ("int count", "CUtensorMap count", "may use .*got count"),
    ("int count", "Array<Fuse, 2> count", "a parameter must be a pointer.*got 'Array<Fuse, 2>'"),
    ("scale_{T}", "scale", "name must have every axis"),
    ("scale_{T}", "scale_{U}", "for an axis; got {'U'}|for an axis; got {U}"),
    ('needs  = ["count >= 1"]', "tile = 4", "or an axis"),
    ('needs  = ["count >= 1"]', 'problems = ["add {U}"]', "problems: 'U' needs a value for U; there are T"),
    ('needs  = ["count >= 1"]', 'marks = ["epilogue"]', "must have `Fuse fuse`"),
    ('needs  = ["count >= 1"]', 'targets = ["80"]', "targets must be like sm_80"),
    ('needs  = ["count >= 1"]', 'needs = [', "must be TOML"),
    ('needs  = ["count >= 1"]', 'needs = ' + "[" * 5000, "must be TOML; maximum recursion"),
    ('needs  = ["count >= 1"]', 'when = ["(T == f32) == -f64"]', "when: .* has no value: bad operand type"),
    ('needs  = ["count >= 1"]', 'cluster = [2, 1]', "cluster must have 3 entries"),
    ('needs  = ["count >= 1"]', 'cluster = [2, 1, 1]', "cluster must be for sm_90 and newer; got .* sm_75"),
    ('needs  = ["count >= 1"]', 'cooperative = 1', "cooperative must be true, false or an expression; got 1"),
    ('needs  = ["count >= 1"]', 'targets = ["sm_90"]\ncluster = ["size", 1, 1]', "may use .*got size"),
    ('"lib/types.cuh"', '"lib/missing.cuh"', "must be beside it or in"),
])
def test_refusal(tmp_path, old, new, sentence):
    assert old in SCALE
    with pytest.raises(contract.ContractError, match=sentence):
        variants(tmp_path, SCALE.replace(old, new))


def test_hash_follows_includes(tmp_path):
    src = tree(tmp_path / "src", scale=SCALE.replace("types.cuh", "reduce.cuh"))
    path = src / "test" / "scale.cu"
    before = contract.source_hash(path, src, build_ptx.FLAGS)
    assert (before == contract.source_hash(path, src, build_ptx.FLAGS)
            != contract.source_hash(path, src, "-O2"))
    (src / "lib" / "mma.cuh").write_text("changed")                  # not included
    assert before == contract.source_hash(path, src, build_ptx.FLAGS)
    with open(src / "lib" / "types.cuh", "a") as header:        # included by math.cuh, included by reduce.cuh
        header.write("// changed\n")
    assert before != contract.source_hash(path, src, build_ptx.FLAGS)


def test_words_of_a_header_are_not_hashed(tmp_path):
    src = tree(tmp_path / "src", scale=SCALE,
               same=SCALE.replace("y = alpha * x", "other words").replace("count >= 1", "count >= 2"))
    scale, same = (src / "test" / f"{n}.cu" for n in ("scale", "same"))
    before = contract.source_hash(scale, src, build_ptx.FLAGS)
    scale.write_text(same.read_text())
    assert before == contract.source_hash(scale, src, build_ptx.FLAGS)
    scale.write_text(SCALE.replace("i < count", "i <= count"))
    assert before != contract.source_hash(scale, src, build_ptx.FLAGS)


def test_a_row_has_the_attributes_that_are_asked_for(tmp_path):
    keys = ('targets = ["sm_90", "sm_100a"]\ncluster = ["2 if T == f16 else 4", 1, 1]\n'
            'cooperative = true\ndependent = false')
    plain = variants(tmp_path / "plain", SCALE)[0].contract
    asked = variants(tmp_path / "asked", SCALE.replace('needs  = ["count >= 1"]', keys))[1].contract
    assert not {"cluster", "cooperative", "dependent"} & plain.keys()
    assert asked["cluster"] == ["2 if T == f16 else 4", 1, 1] and asked["cooperative"] is True
    assert "dependent" not in asked


def test_problem_lines(tmp_path):
    text = SCALE.replace('needs ', 'problems = ["transform 3x{32 // sizeof(T)} {T}", '
                                   '"{\'set_tensor 5\' if T == f16 else \'\'}"]\nneeds ')
    f32, f16 = variants(tmp_path, text)
    assert (f32.contract["problems"] == ["transform 3x8 f32"]
            and f16.contract["problems"] == ["transform 3x16 f16", "set_tensor 5"])


def test_lines_of_a_type(tmp_path):
    """A line of the tile programs has 128 bytes."""
    text = SCALE.replace('["count >= 1"]', '["count % {line(T)} == 0"]\nsmem = "{sizeof(T)} * count"')
    found = [(v.contract["needs"], v.contract["smem"]) for v in variants(tmp_path, text)]
    assert found == [(["count % 32 == 0"], "4 * count"), (["count % 64 == 0"], "2 * count")]


@pytest.mark.parametrize("path", sorted((SRC).rglob("*.cu")), ids=lambda p: p.stem)
def test_every_contract_of_ours(path):
    found = contract.read(path, SRC, build_ptx.FLAGS)
    assert found and all(v.contract["about"] for v in found)


def test_headers_are_small():
    sizes = {p.name: len(p.read_text().splitlines()) for p in (SRC / "lib").glob("*.cuh")}
    assert len(sizes) <= 11 and max(sizes.values()) <= 200, sizes
    for path in (ROOT / "tools").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
