"""``python -m support.opcodes --write FILE [--device cuda:0]``: ask every probe
and write the table of answers."""
from __future__ import annotations

import argparse
import time

from cydnn import device as devices

from . import PROBES, answers, run


def main():
    parser = argparse.ArgumentParser(prog="python -m support.opcodes", description=__doc__)
    parser.add_argument("--write", metavar="FILE", default=str(answers.FILE),
                        help="the table to write (default: the one that the tests read)")
    parser.add_argument("--device", default="cuda:0", help='the device that answers: "cuda:N", '
                                                           'or "ptx:sm_90" to try the probes without a GPU')
    given = parser.parse_args()
    device, start = devices.get(given.device), time.perf_counter()
    pairs = list(run.answers(device, PROBES))
    driver = getattr(device.facts, "driver", 0) or 0
    size = answers.write(given.write, device.facts.name,
                         f"CUDA {driver // 1000}.{driver % 1000 // 10}", pairs)
    failed = [(p.name, r) for p, r in pairs if isinstance(r, Exception)]
    print(f"{len(pairs)} probes on {device.facts.name} in {time.perf_counter() - start:.1f} s, "
          f"{len(failed)} failed; {given.write}: {size} bytes")
    for name, error in failed[:60]:
        print(f"  {name}: {type(error).__name__}: {str(error)[:160]}")


if __name__ == "__main__":
    main()
