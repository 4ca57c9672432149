"""Work in several threads at once, which change places often."""
from __future__ import annotations

import sys
import threading
from contextlib import contextmanager


@contextmanager
def quick_switches():
    """Threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(work, count: int) -> list[BaseException]:
    """``work(number)`` in every thread, all begun at once; what they raised."""
    failed, gate = [], threading.Barrier(count)

    def one(number):
        try:
            gate.wait()
            work(number)
        except BaseException as error:           # of any kind: the test says which
            failed.append(error)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed
