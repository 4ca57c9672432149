"""Rounding modes, flushed denormals, approximations: none but where they are meant (check/forms.py). The
error of one is often below every tolerance, so the text is asked. ``CYDNN_ALL=1`` asks every image."""
from __future__ import annotations

import random

import pytest

from cydnn import kernels
from lab import sampling
from support.check.forms import ALLOWED, SPECIAL, is_allowed, strays, unfenced
from lab.mutants import statements

IMAGES, PLANTED = 120, 24
EVERY = [(name, target) for name in kernels.names() for target in kernels.get(name).images]
OTHERS = (("add|sub|mul|fma|div|sqrt|rcp", "rz"), ("cvt", "rz"), ("div|sqrt|rcp", "approx"),
          ("add|sub|mul|fma|div|sqrt|rcp|neg|abs|min|max|setp", "ftz"))


def text_of(name, target) -> str:
    return kernels.get(name).images[target].text().decode()


def test_images():
    wrong = {f"{name} {target}": found for name, target in sampling.of(EVERY, IMAGES, "forms")
             if (found := strays(text_of(name, target), kernels.get(name).source))}
    assert not wrong


def test_every_row_is_used():
    """By the images of the rooms that it names; some of each, until one has it."""
    left = {(form, room) for form, rooms in ALLOWED.items() for room in rooms}
    for name, target in random.Random(0).sample(EVERY, len(EVERY)):
        room = kernels.get(name).source.partition("/")[0]
        if any(r == room for _, r in left):
            found = SPECIAL.findall(text_of(name, target))
            left -= {(form, r) for form, r in left if r == room and form in found}
    assert not left


def planted(text, name, rng):
    """(what was, the text with one instruction of a form that its room does not have)."""
    source = kernels.get(name).source
    found = [s for s in statements(text, name) if s.opcode.endswith((".f32", ".f64", ".rn.f16.f32"))]
    for s in rng.sample(found, len(found)):
        verb, *rest = s.opcode.split(".")
        for verbs, word in rng.sample(OTHERS, len(OTHERS)):
            if verb in verbs.split("|") and not {"rz", "ftz", "approx"} & set(rest) and (
                    verb != "cvt" or rest[0] == "rn"):
                at = 1 if verb == "setp" else 0
                new = [verb, *rest[:at], word, *(w for w in rest[at:] if word == "ftz" or w != "rn")]
                form = ".".join(new)
                if not is_allowed(form, source):
                    return s.opcode, text[:s.start] + s.text().replace(s.opcode, form, 1) + text[s.end:]
    return None


@pytest.mark.parametrize("name, target", sampling.of(EVERY, PLANTED, "planted forms"))
def test_another_form_shows(name, target):
    text = text_of(name, target)
    if made := planted(text, name, random.Random(name)):
        assert strays(made[1], kernels.get(name).source), made[0]


PRODUCTS = [n for n in kernels.names() if any(w in n for w in ("wgmma", "first", "halo")) and "sm_90a" in
            kernels.get(n).images and "wgmma_rows" not in n]         # rows are read without a product


@pytest.mark.parametrize("name", sampling.of(PRODUCTS, 8, "fences of products"))
def test_a_dropped_fence_shows(name):
    """Whichever of a text's."""
    text, places = text_of(name, "sm_90a"), []
    while (place := text.find("wgmma.fence", places[-1] + 1 if places else 0)) >= 0:
        places.append(place)
    assert places and not unfenced(text)
    for place in places:
        assert unfenced(text[:place] + text[text.index(";", place) + 1:])
