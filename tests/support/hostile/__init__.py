"""Calls that nobody should make, by the million: what may come out of each is a result, or an exception of
the library's own, a TypeError or a ValueError, whose sentence names function and argument.

    python -m support.hostile --calls 1000000 --seed 7 --workers 2        # from tests/
    python -m support.hostile --calls 1000000 --seed 7 --api files        # a million damaged files

A round is one attack of a kind (``rounds.ROUNDS``): single calls, every public function in its turn
(``entries``, ``each``), a sequence over v5 descriptors or pygraphs, such sequences in several threads, a
text, a few files. Its number and the seed draw all that it does, so that one line repeats it. Rounds
run in a child process (``worker``); one that crashes or hangs is a finding, and the next child goes on behind
it (``run``).
"""
