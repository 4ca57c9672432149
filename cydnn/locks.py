"""Locks that a forked child finds open, maps that threads share, values that are computed once without one.

``fork`` copies a lock that another thread of the parent holds, and copies no such thread: nobody would open
it. What the locks guard is whole at every moment a fork can come, as single steps of dicts are.
"""
from __future__ import annotations

import concurrent.futures.thread                 # noqa: F401  its place among what a fork calls
import logging                                   # noqa: F401  the same
import os
import threading
from collections import OrderedDict
from itertools import count
from typing import Any
from weakref import WeakSet

_all: WeakSet = WeakSet()


def watched(lock):
    """A lock that is open in a child; it has ``_at_fork_reinit``, as those of ``threading`` have."""
    _all.add(lock)
    return lock


def lock():
    return watched(threading.Lock())


def rlock():
    return watched(threading.RLock())


def _open_all():
    for one in list(_all):
        one._at_fork_reinit()


# Held around imports that come late: a fork waits for them. A module that another thread was importing would
# stay half in the child, behind a lock of Python's that nobody opens. What is imported may have a lock that a
# fork takes too, as loggers and pools of threads have: they are here first, so their turn is behind this one.
importing = threading.RLock()

if hasattr(os, "register_at_fork"):              # where there is fork
    os.register_at_fork(after_in_child=_open_all)
    os.register_at_fork(before=importing.acquire, after_in_parent=importing.release,
                        after_in_child=importing.release)


class numbers:
    """1, 2, 3, …: no two threads get the same. ``itertools.count`` promises that with a GIL only."""

    def __init__(self):
        self._next, self._lock = count(1), lock()

    def __next__(self):
        with self._lock:
            return next(self._next)

    def __iter__(self):
        return self


class Bounded:
    """A map that threads share, of at most so many entries: the one not asked for longest is forgotten."""

    def __init__(self, most: int):
        self.most, self._rows, self._lock = most, OrderedDict(), lock()

    def __len__(self):
        return len(self._rows)

    def get(self, key):
        """The value of a key, or None."""
        with self._lock:
            row = self._rows.get(key)
            return None if row is None else self._used(*row)

    def setdefault(self, key, value):
        """The value that a key has; the one given, where it has none."""
        with self._lock:
            return self._used(*self._rows.setdefault(key, (key, value)))

    def _used(self, key, value):
        self._rows.move_to_end(key)
        while len(self._rows) > self.most:
            self._rows.popitem(last=False)
        return value

    def clear(self):
        with self._lock:
            self._rows.clear()


class once:
    """``functools.cached_property`` as it is from Python 3.12 on: without a lock for all objects of a class.
    Two threads may compute a value at once; either serves."""

    def __init__(self, compute):
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, one, owner=None) -> Any:
        if one is None:
            return self
        value = one.__dict__[self.name] = self.compute(one)
        return value
