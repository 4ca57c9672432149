"""A kernel that is wrong, found without a GPU: the interpreter names both ends of a race that was planted.

    python examples/debug_a_kernel.py

Takes a kernel's shipped PTX, drops its barriers, and runs both texts on the interpreter. A GPU may give right
values all the same. docs/debug_a_kernel.md says what else is found.
"""
from __future__ import annotations

import numpy as np

from cydnn import kernels, ops, plan
from cydnn.bench import graph_of
from cydnn.device.ptx import PtxDevice
from cydnn.heuristics import Wish
from cydnn.status import ExecutionFailed

KERNEL, LINE = "transform_transpose_f32_f32", "transform x=1x70x6x11:f32 y=1x70x6x11:f32@nhwc"
ENGINE = 291                                     # transform_transpose: this small, another one would be taken


def run(text: str) -> np.ndarray:
    """The error of the problem's result, with this PTX in place of the kernel's own."""
    device = PtxDevice("sm_80")
    device.replaced[KERNEL] = text
    made = plan.build(graph_of(ops.Problem.parse(LINE)), device, Wish(engines=(ENGINE,)))
    x = np.arange(70 * 6 * 11, dtype="f4").reshape(1, 70, 6, 11)
    memory = [device.alloc(x.nbytes) for _ in made.slots]
    device.copy_in(memory[0], x)
    made.execute(memory)
    return device.copy_out(memory[1], np.empty((1, 6, 11, 70), "f4")) - x.transpose(0, 2, 3, 1)


def main() -> dict:
    """The facts of what was found."""
    text = kernels.get(KERNEL).image_for(80).text().decode()
    print(f"as shipped: largest error {abs(run(text)).max():.1g}")
    try:
        run(text.replace("bar.sync", "// bar.sync"))
    except ExecutionFailed as finding:
        print(f"without its barriers: {finding.args[0]}")
        return finding.facts
    raise SystemExit("debug_a_kernel: the race must be found; got none")


if __name__ == "__main__":
    main()
