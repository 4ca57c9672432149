"""The names of v5 that are not built yet: each raises NotSupported and says so. One table;
an issue that builds a family deletes its row."""
from __future__ import annotations

from ..status import NotSupported
from .arguments import public

LATER = {                                        # family: names with their chapters
}


def _refusal(name: str, chapter: str, family: str):
    def function(*args, **kwargs):
        raise NotSupported(f"cudnn{name[0].upper()}{name[1:]}: {family} is not in this version of cydnn yet; "
                           "it comes with a later one")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Comes with a later version ({family})."
    function.is_later = True
    return public(chapter)(function)


for _family, _names in LATER.items():
    for _row in _names.split():
        _refusal(*_row.split("="), _family)
