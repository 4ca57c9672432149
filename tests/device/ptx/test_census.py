"""Every shipped image that test_coverage.py does not run is decoded: an instruction without a row fails here,
and parameters and shared memory are what the manifest says. A plain run takes
one source, and those that changed; ``CYDNN_ALL=1`` decodes all."""
from __future__ import annotations

import pytest

from cydnn import kernels
from cydnn.device.ptx import parse
from cydnn.device.ptx.code import Code
from lab import sampling

from lab.test_coverage import LONG, SOURCES


@pytest.mark.parametrize("source", SOURCES if sampling.ALL else sampling.of(LONG, len(LONG), "census"))
def test_every_instruction_has_a_row(source):
    seen = {}
    for name in (n for n in kernels.names() if kernels.get(n).source == source):
        kernel = kernels.get(name)
        for image in kernel.images.values():
            module = parse.module(image.text(), f"{name}.{image.target}.ptx")
            flat = parse.PtxProgram(module, name)
            assert flat.bytes["param"] == kernel.param_bytes, name
            assert flat.bytes["shared"] == image.smem_static, name
            forms = {(i.opcode,
                      tuple((o.kind, o.kind == "reg" and flat.registers[o.value][1]) for o in i.operands)): i
                     for i in flat.code}
            # decode each form once
            flat.code = [i for form, i in forms.items() if seen.setdefault(form, i) is i]
            Code(module, flat, {v: 1 << 36 for v in module.variables})


@pytest.mark.parametrize("library", ["pointwise_f32", "pointwise_f64", "pointwise_fast"])
def test_function_libraries_parse(library):
    for image in kernels.function(library).images.values():
        assert parse.module(image.text(), library).functions
