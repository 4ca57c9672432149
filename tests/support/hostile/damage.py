"""Damage: what a file becomes where bytes, characters or entries of it are others."""
from __future__ import annotations

import json

from .attack import Attack

JSON_VALUES = ["NaN", "Infinity", "-Infinity", "1e999", "1" * 400, "1" * 5000, "-0", '"\\ud800"', '"\\u0000"',
               "[" * 3000, "{" * 3000, '{"a":' * 3000, "null", "true", "[]", "{}", '""', "1.5", "-1", '"x"',
               "9" * 25, "[null]", '"' + "a" * 20000 + '"', "[" + "0," * 20000 + "0]", '"../../etc/passwd"']


def bytes_of(a: Attack, data: bytes) -> bytes:
    """Bytes changed, dropped, doubled, moved, cut off, or another file's in their place."""
    one, draw = bytearray(data), a.random
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        at = draw.randrange(len(one) + 1)
        end = min(len(one), at + draw.choice((1, 1, 4, 100, 1000)))
        way = draw.randrange(7)
        if way == 0 and at < len(one):
            one[at] ^= 1 << draw.randrange(8)
        elif way == 1:
            one[at:at + 1] = bytes([draw.choice(b'0123456789-"[]{},:.ex \x00\xff\n\\')])
        elif way == 2:
            del one[at:end]
        elif way == 3:
            one[at:at] = one[at:end] * draw.choice((1, 2, 50))
        elif way == 4:
            del one[at:]
        elif way == 5:
            one[at:end] = draw.randbytes(end - at)
        else:
            one[at:at] = draw.choice(JSON_VALUES).encode()[:1000]
    return bytes(one)


def entry_of(a: Attack, text: str) -> str:
    """JSON with another entry: of another kind, gone, twice, or of a name that nobody knows."""
    row, draw = json.loads(text), a.random
    for _ in range(draw.choice((1, 1, 2))):
        found = places(row, [])
        if not found:
            break
        inside, key = draw.choice(found)
        way = draw.random()
        if way < .15:
            del inside[key]
        elif way < .25 and isinstance(inside, dict):
            inside[draw.choice(("extra", "__class__", ""))] = inside[key]
        elif way < .4:
            inside[key] = json.loads(json.dumps(draw.choice(found)[0]))
        elif way < .6 and type(inside[key]) in (int, float):
            inside[key] = draw.choice((-inside[key], inside[key] + 1, inside[key] * 10 ** 6, 0, 2 ** 62,
                                       1e308))
        else:
            inside[key] = "@@"
    return json.dumps(row).replace('"@@"', draw.choice(JSON_VALUES))


def places(x, found) -> list:
    for key in (x if isinstance(x, dict) else range(len(x))):
        found.append((x, key))
        if isinstance(x[key], (dict, list)) and x[key]:
            places(x[key], found)
    return found


def damaged(a: Attack, text: str) -> str:
    """A JSON text damaged in one of these ways; what is no text any more is one in another encoding."""
    way = a.random.random()
    if way < .6:
        return entry_of(a, text)
    return a.misspelt(text) if way < .8 else bytes_of(a, text.encode()).decode(errors="surrogateescape")


def is_same(given: str, mine: str) -> bool:
    """The same JSON; a number and its float are one."""
    return json.dumps(json.loads(given), sort_keys=True) == json.dumps(json.loads(mine), sort_keys=True)
