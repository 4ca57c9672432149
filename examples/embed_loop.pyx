"""A loop in C around a plan of cydnn: what a program of your own cimports (docs/embed.md)."""
from libc.stdint cimport uintptr_t

cimport cydnn

ABI_VERSION = cydnn.ABI_VERSION


def run_each(plan, addresses, steps, int count, uintptr_t workspace=0, uintptr_t stream=0):
    """Run a plan ``count`` times; before each next time, address i is ``steps[i]`` bytes further."""
    cdef cydnn.Executor executor = cydnn.executor(plan)
    cdef char *pointers[32]
    cdef Py_ssize_t bytes_of[32]
    cdef int i, j, n = executor.slot_count
    if n > 32 or not n == len(addresses) == len(steps):
        raise ValueError(f"run_each: addresses and steps must be {n}, at most 32")
    for i in range(n):
        pointers[i], bytes_of[i] = <char *><uintptr_t>addresses[i], steps[i]
    with nogil:                               # a plan for a GPU needs no Python here; others take the GIL
        for j in range(count):
            cydnn.run(executor, <void **>pointers, <void *>workspace, <void *>stream)
            for i in range(n):
                pointers[i] += bytes_of[i]
