"""The problems in a kernel's contract that launch it: with which engine, in which configuration
(cydnn/bench/trial.py). Everything that takes a problem is planned once, as the kernels of a source have the
same problems."""
from functools import lru_cache, partial

from cydnn import kernels
from cydnn.bench import trial
from cydnn.bench.trial import TrialCase

__all__ = ["SERVING", "TrialCase", "cases", "every_case"]

# Kernels that serve problems of one operation; sums.py has those that serve graphs alone.
SERVING = tuple(name for name in kernels.names() if kernels.get(name).problems)


@lru_cache(256)
def _launchers(problem, facts) -> list:
    return list(trial.launchers(problem, facts))


cases = partial(trial.cases, all_of=_launchers)
every_case = partial(trial.every_case, all_of=_launchers)
