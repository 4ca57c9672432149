"""The one exception that the front end adds, and how refusals of the rooms below become it."""
from __future__ import annotations

from contextlib import contextmanager

from ..status import NotSupported


class cudnnGraphNotSupportedError(NotSupported):
    """No engine takes the graph, or the front end does not have what is asked for; the message says why."""


@contextmanager
def refusals():
    """What is not supported below is raised as cudnnGraphNotSupportedError, with the same sentence and
    facts."""
    try:
        yield
    except cudnnGraphNotSupportedError:
        raise
    except NotSupported as error:
        raise cudnnGraphNotSupportedError(error.args[0], **error.facts) from None
