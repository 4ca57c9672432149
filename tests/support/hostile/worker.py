"""The child process: some rounds of one seed. Each finding is a line of JSON when it is made, the counts are
the last line; where it stands is in a file of two numbers, which is there when the process is not."""
from __future__ import annotations

import argparse
import faulthandler
import json
import mmap
import signal
import struct
import sys

from .attack import Attack

LONGEST, WAITS = 20, 300                         # seconds of a round on the processor, and by the clock
TIMERS = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
PLACE = struct.Struct("qq")                      # the round that runs, calls before it


def watch():
    """A crash says where it is; so does a round that hangs, which ends the process."""
    faulthandler.enable(sys.__stderr__)
    for number in TIMERS:
        signal.signal(number, signal.SIG_DFL)
        faulthandler.register(number, file=sys.__stderr__, chain=True)


def wait(*seconds):
    """Until which the next round must have ended; 0: it may take its time."""
    for timer, most in zip(TIMERS.values(), seconds):
        signal.setitimer(timer, most)


def numbers(text: str) -> range:
    """``5``, or ``5:9`` for 5 to 8."""
    first, _, last = text.partition(":")
    return range(int(first), int(last) if last else int(first) + 1)


def main(words=None, table=None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rounds", type=numbers, required=True)
    parser.add_argument("--api")
    parser.add_argument("--place")
    parser.add_argument("--calls", type=int, default=sys.maxsize)
    args = parser.parse_args(words)
    watch()
    place = bytearray(PLACE.size)
    if args.place:
        with open(args.place, "r+b") as file:
            place = mmap.mmap(file.fileno(), PLACE.size)
    attack, said = Attack(args.seed), set()

    def goes_on(number):
        calls = attack.counts["files"] if args.api == "files" else attack.counts.total()
        PLACE.pack_into(place, 0, number, calls)
        wait(LONGEST, WAITS)
        for what in attack.found.keys() - said:
            say(attack, what)
            said.add(what)
        return calls < args.calls
    attack.run(table or rounds(args.api), args.rounds, goes_on)
    for what in attack.found.keys() - said:
        say(attack, what)
    wait(0, 0)
    attack.close()
    print(json.dumps(dict(counts=attack.counts, rounds=attack.rounds, files=attack.files, drawn=attack.drawn,
                          slowest=attack.slowest, next=attack.number)), flush=True)
    return 1 if attack.found else 0


def rounds(api) -> list:
    from .rounds import ROUNDS                   # it imports the whole library
    return [row for row in ROUNDS if api in (None, row[0]) or api == "calls" != row[0] != "files"]


def say(attack, what):
    example, number = attack.found[what]
    print(json.dumps(dict(what=what, example=example, round=number)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
