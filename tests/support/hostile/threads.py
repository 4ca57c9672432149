"""The walks of ``v5`` and ``pygraphs`` by several threads at once: descriptors and handles that all of them
set, use and destroy; graphs of their own with one cache, one built graph and handles that are everybody's.

What must hold: no crash, nobody waits for ever, no foreign exception; what was built gives the same bits.
"""
from __future__ import annotations

import copy
import random
import sys
import threading
from collections import Counter
from contextlib import contextmanager

from . import pygraphs, v5
from .attack import Attack

MANY = 3
SWITCH = 1e-5                                    # seconds until another thread may run


def beside(a: Attack, number: int) -> Attack:
    """The same attack for another thread: what it finds is found by all, what it draws is its own."""
    b = copy.copy(a)
    b.random = random.Random(f"{a.seed} {a.number} {number}")
    b.counts, b.drawn = Counter(), Counter()
    return b


@contextmanager
def at_once(a: Attack):
    """``run(function, of one Attack)`` starts a thread; they have ended when the block has."""
    started, others, before = [], [], sys.getswitchinterval()

    def run(function):
        others.append(beside(a, len(others)))
        started.append(threading.Thread(target=guarded, args=(others[-1], function)))
    sys.setswitchinterval(SWITCH)
    try:
        yield run
        for thread in started:
            thread.start()
    finally:
        for thread in started:
            thread.join()
        sys.setswitchinterval(before)
    for b in others:
        a.counts.update(b.counts)
        a.drawn.update(b.drawn)


def guarded(b: Attack, function):
    """A mistake of the attack itself in another thread is a finding, too."""
    try:
        function(b)
    except Exception as error:
        b.wrong(f"the attack fails in a thread: {type(error).__name__} {error}", "")


def shared_descriptors(a: Attack):
    """One desk, several hands. Behind it the library computes what it did before."""
    desk = v5.Desk(a)
    desk.is_alone = False

    def walk(b):
        mine = copy.copy(desk)
        mine.a = b
        for _ in range(b.random.randint(3, 8)):
            v5.step(mine, b.random.choice(v5.STEPS))
            if mine.handle.is_destroyed:
                mine.handle = a.handle
    with at_once(a) as run:
        for _ in range(MANY):
            run(walk)
    v5.as_before(a)


def shared_graphs(a: Attack):
    """Sequences on graphs of their own; the cache, the handles and a graph that is built are everybody's."""
    first = pygraphs.Sequence(a)
    built, = first.graphs
    first.step("build")
    first.execute(built)

    def walk(b):
        mine = pygraphs.Sequence(b)
        mine.cache, mine.handles, mine.want, mine.is_alone = first.cache, first.handles, first.want, False
        for _ in range(b.random.randint(3, 8)):
            what = b.random.choice(pygraphs.STEPS)
            if b.random.random() < .3:
                mine.execute(built) if b.random.random() < .5 else mine.plan(built, pygraphs.ASKING)
            else:
                mine.step(what)
    with at_once(a) as run:
        for _ in range(MANY):
            run(walk)
    first.execute(built)
