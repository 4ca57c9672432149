"""The expressions of contracts: what they may say, and what they answer."""
import pytest

from cydnn.kernels.expressions import ceil_div, expression


@pytest.mark.parametrize("text, values, answer", [
    ("ceil_div(rows, 4)", dict(rows=9), 3),
    ("max(1, min(n // 2, 8)) * 2 ** k % 7 - -1", dict(n=20, k=3), 2),
    ("a if a > b else b", dict(a=3, b=5), 5),
    ("a < b <= 7 and not a == 4", dict(a=3, b=7), True),
    ("T in (f16, bf16) or sm >= 80", dict(T="f32", sm=75), False),
    ("dims[1] * sizeof(T)", dict(dims=(2, 3), T="bf16"), 6),
    ("(x << 3) + (x >> 1) + (x & 1)", dict(x=5), 43),
    (128, {}, 128),
])
def test_value(text, values, answer):
    assert expression(text)(values) == answer


@pytest.mark.parametrize("text", ["__import__('os')", "x.y", "open(x)", "[1 for i in x]",
                                  "lambda: 1", "x[1:2]", "max(x, key=y)", "1 +"])
def test_refused(text):
    with pytest.raises(ValueError, match="must be"):
        expression(text)


@pytest.mark.parametrize("text", ["(" * 500, "not " * 300 + "n", "\0", "1" * 5000, "n + " * 900 + "n"])
def test_what_is_too_deep_or_too_long_is_refused(text):
    with pytest.raises(ValueError, match="must"):
        expression(text)


@pytest.mark.parametrize("text", ["9 ** 9 ** 9 ** 9", "1 << 10 ** 9", "n << n << n", "'a' * n", "(1, 2) * n",
                                  "n ** n", "1 << -1", "2 ** -1", "2 ** 0.5"])
def test_nothing_large_comes_of_little(text):
    with pytest.raises(ValueError, match="has no value: a factor|has no value: an exponent"):
        expression(text)(dict(n=2 ** 40))


def test_names_and_errors():
    e = expression("ceil_div(rows, 4) + dims[0]")
    assert e.names == {"rows", "dims"} and e.show(dict(rows=1, dims=(2,), z=3)) == "dims=(2,) rows=1"
    with pytest.raises(ValueError, match="needs a value for dims; there are rows"):
        e(dict(rows=1))
    with pytest.raises(ValueError, match="has no value: .*zero.*got a=1 b=0"):
        expression("a // b")(dict(a=1, b=0))


def test_errors_have_a_bound():
    """What a manifest names a type is not repeated whole."""
    with pytest.raises(ValueError, match="has no value") as caught:
        expression("sizeof(T)")(dict(T="a" * 9999))
    assert len(str(caught.value)) < 300


def test_evaluation_reaches_no_builtins():
    assert set(expression("a").names) == {"a"}
    with pytest.raises(ValueError, match="needs a value for open"):
        expression("open")({})


@pytest.mark.parametrize("n, d", [(0, 3), (1, 3), (3, 3), (4, 3)])
def test_ceil_div(n, d):
    assert ceil_div(n, d) * d >= n > (ceil_div(n, d) - 1) * d
