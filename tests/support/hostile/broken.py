"""Programs that break something on a GPU, and what must then be said; each in a process of its own, as its
context is lost: ``-m support.hostile.broken NAME`` prints "right" or fails. All but ``FOR_REAL`` do so on
the fake driver, which knows these kernels by name.
"""
from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import numpy as np

from cydnn import _core, plan as plans
from cydnn.bench import graph_of
from cydnn.device import guarded
from cydnn.device.cuda import CudaDevice
from cydnn.operand import Operand
from cydnn.ops import Problem
from cydnn.status import CydnnError, ExecutionFailed
from cydnn.steps import mapped
from cydnn.tensor import TensorDesc

DESC = TensorDesc.packed("f32", (4, 8))
PROBLEM, TOLD = "scale_tensor 4x8 f32", "CUDA_ERROR_ILLEGAL_ADDRESS (700)"
HEAD = """.version 7.0
.target sm_75
.address_size 64
.visible .entry {0}(.param .u64 {0}_y, .param .u64 {0}_size, .param .u64 {0}_x, .param .u64 {0}_space)
{{ .reg .b64 %y, %size; .reg .b32 %v; ld.param.u64 %y, [{0}_y]; ld.param.u64 %size, [{0}_size];
{1} ret; }}
"""
BODIES = {                                       # what kernels of these names do; others do nothing
    "illegal_k": "mov.u64 %y, 16; st.global.u32 [%y], 7;",
    "before_k": "mov.u32 %v, 7; st.global.u8 [%y+-1], %v;",
    "behind_k": "add.u64 %y, %y, %size; mov.u32 %v, 7; st.global.u8 [%y], %v;",
    "nan_k": "mov.u32 %v, 0x7fffffff; st.global.u32 [%y], %v;",
    "nan_of_workspace": "ld.param.u64 %size, [nan_of_workspace_space]; ld.global.u32 %v, [%size]; "
                        "st.global.u32 [%y], %v;"}
FAR = 1 << 44                                    # bytes: no memory is there


def text(name: str) -> bytes:
    return HEAD.format(name, BODIES.get(name, "")).encode()


def armed(words: str) -> CudaDevice:
    """A device that was made with CYDNN_DEBUG."""
    os.environ["CYDNN_DEBUG"] = words
    return CudaDevice(0)


def tape_of(place, *names, workspace_bytes=0):
    """Launches that are given y, its size, x and the workspace."""
    tape = _core.Tape(place.context, [Operand("y", DESC.bytes, 16, True, desc=DESC),
                                      Operand("x", DESC.bytes, 16, desc=DESC)], [],
                      workspace_bytes, problem=PROBLEM)
    for name in names:
        space = [(24, -1, 0)] if workspace_bytes else []
        tape.launch(place.context.load(text(name), name), 1, 1, 0,
                    bytes(8) + DESC.bytes.to_bytes(8, "little") + bytes(16), [(0, 0, 0), (16, 1, 0), *space])
    return tape


def ran(place, tape, *extra):
    y, x = place.alloc(DESC.bytes), place.alloc(DESC.bytes)
    place.memset(y, 0, DESC.bytes), place.memset(x, 0, DESC.bytes)
    tape.execute((y, x), *extra)
    return y, x


def says(call, *words):
    """The call raises ExecutionFailed with all of these words."""
    try:
        call()
    except ExecutionFailed as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} not in: {error}"
        print(f"{str(error)[:600]}")
        return
    raise AssertionError(f"nothing was raised; wanted {words}")


# ---- Programs ----

def later():
    """At a call behind it, with the last launches by name; and every call after that."""
    place = armed("")
    first, second = tape_of(place, *(f"k{i}" for i in range(5))), tape_of(place, "illegal_k", "after")
    place.synchronize()

    def calls():
        ran(place, first), ran(place, second)
        place.synchronize()
    says(calls, TOLD, "Last launches (newest last): ", "k4 of", "illegal_k", f"of {PROBLEM}")
    says(lambda: place.alloc(16), "failed earlier: ", "illegal_k")


def sync():
    """The very launch."""
    place = armed("sync")
    tape = tape_of(place, "one", "two", "illegal_k", "four")
    says(lambda: ran(place, tape), TOLD, f"kernel illegal_k of {PROBLEM}, step 3 of 4, each waited for")


def guard(words, kernel, sentence, workspace_bytes=0):
    def program():
        place = armed(words)
        tape = tape_of(place, "one", kernel, workspace_bytes=workspace_bytes)
        space = place.alloc(max(workspace_bytes, 1))
        place.memset(space, 0, space.bytes)
        extra = (None, space, workspace_bytes) if workspace_bytes else ()
        others = guarded.WORDS - set(words.split(",")) - {"sync"}
        if "init" not in words:                  # not asked for: not looked for
            ran(place, guarded.Guarded(tape, place, others), *extra)
        says(lambda: ran(place, guarded.Guarded(tape, place, place.guards), *extra), PROBLEM, sentence,
             f"kernels one, {kernel}")
    return program


def init():
    """Buffers of ours are NaN until they are written."""
    place = armed("init")
    buffer = place.alloc(1000)
    found = place.copy_out(buffer, np.empty(1000, np.uint8))
    assert (found == 0xFF).all()


def pointer():
    """A shipped kernel of a plan, one of whose pointers leads nowhere."""
    place, problem = armed("sync"), Problem.parse("softmax_fwd 64x48 f32")
    layout = plans.build(graph_of(problem), place).layout
    bad = SimpleNamespace(**{name: getattr(layout, name) for name in (
        "operands", "scalars", "workspace_bytes", "inplace", "inside", "periods", "text")},
        steps=[mapped(step, lambda p: p + FAR if hasattr(p, "addend") else p) for step in layout.steps])
    tape, kernel = place.compile(bad), layout.steps[0].kernel
    memory = [place.alloc(operand.bytes) for operand in layout.operands]
    says(lambda: tape.execute(memory), TOLD, f"kernel {kernel}", "softmax_fwd x=64x48:f32")


def alive():
    """After an error that is none of the GPU's, all goes on."""
    place = armed("redzone")
    tape = guarded.Guarded(tape_of(place, "behind_k"), place, place.guards)
    says(lambda: ran(place, tape), "behind it were written")
    ran(place, guarded.Guarded(tape_of(place, "one"), place, place.guards))
    place.synchronize()
    try:
        tape.execute((0, 0))
    except CydnnError as error:
        assert "must not be null" in str(error)
    assert place.context.lost is None


PROGRAMS = {
    "later": later, "sync": sync, "init": init, "pointer": pointer, "alive": alive,
    "before": guard("redzone", "before_k", "y: 1 bytes in front of it were written, the nearest 1 away"),
    "behind": guard("redzone", "behind_k", "y: 1 bytes behind it were written, the nearest 1 away"),
    "nan": guard("nan", "nan_k", "y: 1 elements are NaN, the first (0, 0), and no input has one"),
    "unset": guard("init,nan", "nan_of_workspace", "y: 1 elements are NaN, the first (0, 0)", 64)}
FOR_REAL = {"pointer"}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
    print("right", flush=True)
    os._exit(0)                                  # what a lost context leaves is not what is tested
