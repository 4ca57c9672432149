"""``python -m cydnn ptx NAME --run``: right kernels are right, and what is wrong says where."""
from __future__ import annotations

import re

import numpy as np
import pytest

from cydnn import kernels
from cydnn.bench import trial as debug
from cydnn.bench.run import Case, random_values
from cydnn.ops import Problem

# Their problems have windows wholly in padding, products of hundreds of factors, powers of denormal numbers.
RIGHT = ["lrn_bwd_channels_f32_w9", "lrn_fwd_strided_f32_w5_v1", "divisive_norm_fwd_strided_f32",
         "pooling_fwd_any_bf16_max", "pooling_fwd_nchw_strip_f16_max_nan_2_1", "pooling_fwd_nhwc_f32_max",
         "reduction_columns_prod_bf16_0", "reduction_rows_prod_f64_f64_1"]
# A kernel, its problem, an instruction and what stands in its place.
WRONG = [("pooling_fwd_any_f32_max", "pooling_fwd x=2x3x4x6x9:f32@737,245,61,10,1 "
          "y=2x3x2x4x11:f32@333,110,54,13,1 window=2,3,9 pre_pad=1,0,10 stride=3,1,2",
          "max.f32", "min.f32"),
         ("reduction_columns_prod_f32_0", "reduction x=2x60x45:f32@40000,64,1 y=1x1x45:f32 mode=mul",
          "mul.f32", "add.f32")]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_is_right(name):
    report = debug.run(name)
    assert report.ok, [t.verdict for t in report.trials if not t.ok]


@pytest.mark.parametrize("name, line, old, new", WRONG, ids=[w[0] for w in WRONG])
def test_what_is_wrong_names_element_count_got_want(name, line, old, new):
    text = kernels.get(name).image_for(80).text().decode()
    assert old in text
    verdict = debug.run(name, "sm_80", lines=[line], text=text.replace(old, new)).trials[0].verdict
    assert verdict.startswith("WRONG against reference: y: ")
    found = re.search(r"y: (\d+) of (\d+) elements; the worst is \(([\d, ]+)\): got (\S+), want (\S+)$",
                      verdict)
    assert found and 0 < int(found[1]) <= int(found[2]) and float(found[4]) != float(found[5]), verdict


@pytest.mark.parametrize("mode", ["mul", "mul_no_zeros"])
def test_products_of_many_do_not_vanish(mode):
    """Else a kernel that writes zeros would be right."""
    problem = Problem.parse(f"reduction x=900x40:f16 y=1x40:f32 mode={mode}")
    d = problem.operands["x"]
    x = d.dtype.decode(random_values(d, 1, lambda v: problem.op.admit("x", v)))
    product = np.abs(x.reshape(900, 40).prod(0))
    assert (product > 1e-30).all() and (product < 1e30).all() and (x < 0).any() and (x > 0).any()


def test_the_element_that_is_named_is_the_one():
    """A device that spoils one element."""
    from cydnn import device
    from cydnn.bench import verdict
    case = Case(Problem.parse("softmax_fwd 6x100 f32"), device.get("numpy"))
    assert verdict(case) == "error 0 against reference"
    execute = case.plan.execute

    def spoiled(pointers, workspace):
        execute(pointers, workspace)
        y = next(b for b, d in zip(case.buffers.values(), case.plan.slots) if d.name == "y")
        case.device.copy_in(y.ptr + 4 * 317, np.array([7], np.float32))
    case.plan.execute = spoiled
    text = verdict(case)
    assert text.startswith("WRONG against reference: y: 1 of 600 elements; "
                           "the worst is (3, 17): got 7.0, want 0")
    del case.plan.execute
