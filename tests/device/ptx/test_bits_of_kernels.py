"""The comparison of tests/gpu/test_bits.py without a GPU: two interpreters agree;
one that rounds otherwise is found."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from cydnn.device.ptx import PtxDevice
from support.check import bits
from support.draw.cases import cases

FACTS = KNOWN["h200"]


def devices(kernel="", old="", new=""):
    """Two interpreters of sm_90; in the second one's text of a kernel ``old`` is ``new``."""
    one, other = PtxDevice("sm_90", FACTS), PtxDevice("sm_90", FACTS)
    if kernel:
        text = kernels.get(kernel).image_for(90).text().decode()
        assert old in text
        other.replaced[kernel] = text.replace(old, new)
    return one, other


@pytest.mark.parametrize("kernel,kind",
                         [("matmul_simt_f32_t64x64", "plain"), ("softmax_fwd_warp_f16_128", "approx"),
                          ("matmul_mma_bf16_64_am_bk", "tensor")])
def test_equal_programs_give_equal_bits(kernel, kind):
    for case in cases(kernel, FACTS)[:1]:
        assert bits.differences(case, *devices(), seed=1) == (kind, True, [])


def test_one_rounding_is_found():
    kernel = "matmul_simt_f32_t64x64"
    case = cases(kernel, FACTS)[0]
    kind, equal, texts = bits.differences(case, *devices(kernel, "fma.rn.f32", "fma.rz.f32"), seed=1)
    assert kind == "plain" and not equal and "elements differ" in texts[0]


def test_small_integers_owe_all_bits_to_tensor_cores():
    kernel = "matmul_mma_bf16_64_am_bk"
    case = max(cases(kernel, FACTS), key=lambda case: case.problem.operands["c"].count)
    pair = devices(kernel, ".f32.bf16.bf16.f32", ".f32.f16.f16.f32")
    assert "elements differ" in bits.differences(case, *pair, seed=1, exact=True)[2][0]
    assert "c: the interpreter" in bits.differences(case, *pair, seed=1)[2][0]
    assert "times the interpreter's" in bits.differences(case, *pair[::-1], seed=1)[2][-1]


def test_products_and_sums_without_rounding_may_be_fused():
    split = "mul.f32 %f3, %f1, %f2;\nadd.f32 %f4, {}, %f5;"
    assert bits.may_be_fused(split.format("%f3"))
    assert not bits.may_be_fused(split.format("%f1"))
    assert not bits.may_be_fused(split.format("%f3").replace("mul", "mul.rn"))
    assert not bits.may_be_fused(split.format("%f3").replace("add", "add.rn"))


def test_what_an_engine_may_lose_is_allowed():
    """A Winograd engine's intermediate sums are larger than the op's, and its products may be fused."""
    kernel = "conv_winograd_filter_f32_4"
    pair = devices(kernel, "mul.f32", "mul.rz.f32")
    kind, equal, texts = bits.differences(cases(kernel, FACTS)[0], *pair, seed=1)
    assert kind == "fused" and not equal and not texts


def test_a_recurrent_network_has_no_small_integers():
    case = cases("rnn_persist_f16_lstm_4x2", FACTS)[-1]
    kind, equal, texts = bits.differences(case, *devices(), seed=1)
    assert (kind, equal, texts) == ("approx", True, [])
    assert not bits.has_exact("tensor", case.problem)


def test_four_times_the_error():
    case = cases("matmul_simt_f32_t64x64", FACTS)[0]
    given = bits.setting(case, 1, False)
    want, desc = given.want["c"], case.problem.operands["c"]
    unit = bits.ROUNDING * np.max(given.magnitude["c"])
    side = lambda error: (desc, want + error, None)
    assert not list(bits._four_times(case, "c", side(3.9 * unit), side(0), given))
    assert list(bits._four_times(case, "c", side(4.1 * unit), side(0), given))
    assert not list(bits._four_times(case, "c", side(7.9 * unit), side(-2 * unit), given))
    assert list(bits._four_times(case, "c", side(np.nan), side(0), given))
