"""Host time above the bare launch, with a driver that does nothing: the whole cost is ours.
Bars are loose here; the H200 run has the real ones."""
import timeit

from cydnn import _core


def best(statement, names, number=20000):
    return min(timeit.repeat(statement, globals=names, number=number, repeat=7)) / number * 1e9


def convolutionForward(handle, alpha, xDesc, x, wDesc, w, convDesc, algo, workSpace,
                       workSpaceSizeInBytes, beta, yDesc, y):
    """The shape of the legacy call: thirteen arguments, one table call."""
    if not handle.run(7, (xDesc, wDesc, convDesc, algo, yDesc), (x, w, y), (alpha, beta),
                      workSpace, workSpaceSizeInBytes, 0):
        raise AssertionError("the plan must be found")


def test_overhead(fake, context, kernel):
    x, w, y = (_core.Buffer(context, 1024).ptr for _ in range(3))
    keep = [_core.Buffer(context, 1024) for _ in range(3)]
    x, w, y = (b.ptr for b in keep)
    tape = _core.Tape(context, [("x", 1024, 16, False, False), ("w", 1024, 16, False, False),
                                ("y", 1024, 16, True, False)], [1.0, 0.0])
    tape.launch(kernel(), 4, 128, 0, bytes(40), [(0, 0, 0), (8, 1, 0), (16, 2, 0)],
                [(24, "f32", 0), (28, "f32", 1)])
    xd, wd, cd, yd = descs = [_core.Descriptor() for _ in range(4)]
    for i, d in enumerate(descs):
        d.set("tensor", (i,))
    table = _core.PlanTable()
    table.put(7, (xd, wd, cd, 1, yd), True, tape)
    fake.quick(1)
    names = dict(locals(), convolutionForward=convolutionForward)
    raw = _core.raw_launch_loop(kernel(), 4, 128, bytes(40), 0, 100000)
    rows = {"Tape.execute, 3 pointers": best("tape.execute((x, w, y), None, 0, 0, 0)", names),
            "Tape.execute, 3 pointers, 2 scalars": best(
                "tape.execute((x, w, y), (1.0, 0.0), 0, 0, 0)", names),
            "convolutionForward, 13 arguments": best(
                "convolutionForward(table, 1.0, xd, x, wd, w, cd, 1, 0, 0, 0.0, yd, y)", names)}
    fake.quick(0)
    for name, ns in rows.items():
        print(f"\n{name}: {ns - raw:.0f} ns above the bare launch", end="")
    assert (rows["convolutionForward, 13 arguments"] - raw < 700
            and rows["Tape.execute, 3 pointers"] - raw < 700)
