"""Where tensors lie beside a mark: addresses made of a mark's coordinates, against strides, for every mark of
a kernel."""
from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest

from cydnn.engines.conv.view import image_site, point_site
from cydnn.engines.matmul.view import out_site
from cydnn.engines.pointwise.pointwise import any_site, memory_order
from cydnn.fusion import CannotPlace, Places, Site
from cydnn.graph import Lead, Tensor
from cydnn.tensor import TensorDesc
from support.draw import STORED, tensor


def lead_of(rng, rank, dtypes=("f32", "f16", "f64"), dense=False) -> Lead:
    """A tensor that a kernel walks."""
    dims = tuple(rng.choice([1, 2, 3, 4, 8]) for _ in range(rank))
    layout = rng.choice(["nchw", "nhwc", "permuted"] if dense else ["nchw", "nhwc", "permuted", "gaps"])
    return Lead(1, Tensor(1, tensor(rng, rng.choice(dtypes), dims, layout)), True)


def walked(rng) -> Site:
    """pointwise_any: one element, or the eight of a byte."""
    return any_site(lead_of(rng, rng.randint(1, 5), ("f32", "bool", "i8")))


def vectors(rng) -> Site:
    """pointwise_vector: a key that counts vectors."""
    lead = lead_of(rng, rng.randint(1, 5), dense=True)
    lanes = 16 // lead.tensor.dtype.bytes
    keys = (("vec", memory_order(lead.tensor)),)
    return Site(lead.tensor.dims, lead.tensor, keys, "vec", lanes, counts_vectors=True)


def image(rng) -> Site:
    """Convolutions: channels, where these are neighbours in memory perhaps eight at once; pixels are in the
    offset."""
    lead = lead_of(rng, rng.randint(3, 5))
    wide = lead.tensor.dims[1] % 8 == 0 and lead.tensor.strides[1] == 1
    return image_site(lead, rng.choice([1, 8, 8] if wide else [1]))


def matrix(rng) -> Site:
    """Products of matrices: columns, perhaps eight at once; batch and row are in the offset."""
    lead = lead_of(rng, rng.randint(2, 5))
    wide = lead.tensor.dims[-1] % 8 == 0 and lead.tensor.strides[-1] == 1
    return out_site(lead, rng.choice([1, 8, 8] if wide else [1]))


def points(rng) -> Site:
    """Operands of convolutions of any type: a coordinate for each dim; the mark's offset may count in
    nothing."""
    lead = lead_of(rng, rng.randint(3, 5))
    return point_site(lead.tensor, rng.choice([lead.tensor, None]))


def scores(rng) -> Site:
    """Scores of attention, which lie nowhere: batch, head, row and column, perhaps two columns at once."""
    dims = tuple(rng.choice([1, 2, 3, 4]) for _ in range(3)) + (rng.choice([1, 2, 4, 6]),)
    keys = tuple((name, (axis,)) for axis, name in enumerate(("batch", "head", "row", "col")))
    return Site(dims, None, keys, "col", rng.choice([1, 2]))


SITES = dict(walked=walked, vectors=vectors, image=image, matrix=matrix, points=points, scores=scores)


def beside(rng, site, uid=2) -> Tensor:
    """A tensor that broadcasts to the site's dims."""
    dims = rng.choice([site.dims, tuple(rng.choice([1, d]) for d in site.dims), (1,) * len(site.dims)])
    same = site.lead is not None and dims == site.dims and rng.random() < 0.3
    desc = tensor(rng, rng.choice((*STORED, "bool")), dims, rng.choice(["nchw", "nhwc", "permuted", "gaps"]))
    desc = desc.replace(strides=site.lead.strides) if same else desc
    return Tensor(uid, desc, alignment=rng.choice([1, 4, 16, 16, 16]))


def marks(site):
    """(values of the keys and of the offset, index of every lane) of every mark with all its lanes."""
    for index in np.ndindex(*site.dims):
        at = {name: int(np.ravel_multi_index([index[a] for a in axes], [site.dims[a] for a in axes]))
              for name, axes in site.keys}
        if site.along and at[site.along] % site.lanes:
            continue
        lanes = [lane for lane in (moved(site, index, i) for i in range(site.lanes)) if lane is not None]
        if len(lanes) < site.lanes:
            continue                             # a tail: marks of one lane, which have a key of their own
        if site.counts_vectors:
            at[site.along] //= site.lanes
        off = int(np.dot(index, strides(site.lead))) if site.lead is not None else 0
        yield {**at, "at": off}, lanes


def moved(site, index, lane):
    """The index ``lane`` steps further along the site's key; None behind its end."""
    index = list(index)
    for axis in reversed(dict(site.keys)[site.along] if site.along else ()):
        lane, index[axis] = divmod(index[axis] + lane, site.dims[axis])
    return None if lane else index


def strides(tensor):
    return np.array([0 if d == 1 else s for d, s in zip(tensor.dims, tensor.strides)])


def sees_all(site) -> bool:
    """Every lone element of the site can be told from its mark: a key for each dim, or no gaps in the
    lead."""
    named = {axis for _, axes in site.keys for axis in axes}
    return not site.counts_vectors and (len(named) == len(site.dims) or site.lead.desc.is_dense)


def source(places, keys, name, lane=0):
    """The value of a key or a digit."""
    if name in keys:
        return keys[name] + lane
    digit = places.digits[int(name[1:])]
    value = source(places, keys, digit.key, lane)
    value = value // places.divisors[int(digit.div[1:])] if digit.div else value
    return value % places.divisors[int(digit.mod[1:])] if digit.mod else value


def addresses(places, at, keys, lanes, unit):
    """What emitted code computes: elements (bits) of every lane."""
    def number(name):
        elements, rest = divmod(places.numbers[int(name[1:])], unit)
        assert rest == 0
        return elements

    def place(lane):
        total = 0
        for name, stride in at.terms:
            if name == "off":
                total += keys["at"]
            else:
                step = stride if isinstance(stride, int) else number(stride)
                total += source(places, keys, name, lane) * step
        return total
    if at.lanes == "each":
        return [place(lane) for lane in range(lanes)]
    step = at.lanes if isinstance(at.lanes, int) else number(at.lanes)
    return [place(0) + lane * step for lane in range(lanes)]


@pytest.mark.parametrize("kind", SITES)
@pytest.mark.parametrize("seed", range(60))
def test_every_lane_finds_its_element(kind, seed):
    rng = random.Random(f"{kind} {seed}")
    site = SITES[kind](rng)
    places, found = Places(site), []
    for uid in range(2, 6):
        t = beside(rng, site, uid)
        try:
            found.append((t, places.at(t)))
        except CannotPlace:
            assert not sees_all(site)
    for keys, lanes in marks(site):
        for t, at in found:
            got = addresses(places, at, keys, len(lanes), 1 if t.dtype.bits < 8 else t.dtype.bytes)
            assert got == [int(np.dot(i, strides(t))) for i in lanes], (site, t, at)
            check_accesses(t, at, got)


def check_accesses(t, at, got):
    """What is moved at once are neighbours, aligned as the tensor is."""
    if at.vector > 1:
        assert t.dtype.bits < 8 or at.vector * t.dtype.bytes <= min(16, t.alignment)
        for first in range(0, len(got) - at.vector + 1, at.vector):
            assert got[first] % at.vector == 0
            assert got[first:first + at.vector] == list(range(got[first], got[first] + at.vector))


@pytest.mark.parametrize("kind", SITES)
@pytest.mark.parametrize("seed", range(30))
def test_coordinates(kind, seed):
    """gen_index: the index along a dim, of every lane."""
    rng = random.Random(f"{kind} {seed}")
    site = SITES[kind](rng)
    places, axis = Places(site), rng.randrange(len(site.dims))
    if site.dims[axis] == 1:
        return                                   # the builder reads 0
    try:
        name, suffix = places.coordinate(axis)
    except CannotPlace:
        assert not sees_all(site)
        return
    for keys, lanes in marks(site):
        if suffix == "*":
            got = [source(places, keys, name, lane) for lane in range(len(lanes))]
        elif suffix:
            got = [source(places, keys, name) * int(suffix[1:]) + lane for lane in range(len(lanes))]
        else:
            got = [source(places, keys, name)] * len(lanes)
        assert got == [index[axis] for index in lanes], (site, axis, name, suffix)


def test_lines_of_places():
    """NHWC, eight channels at once: a bias has channels, a residual lies like the output, a number is one for
    all."""
    out = Tensor(1, TensorDesc.packed("f16", (2, 24, 5, 5), "nhwc"))
    places = Places(image_site(Lead(1, out, True), 8))
    say = lambda dims, dtype="f16", layout="nhwc", **k: str(
        places.at(Tensor(2, TensorDesc.packed(dtype, dims, layout), **k)))
    assert say((1, 24, 1, 1), "f32") == "col, 4 at once"
    assert say((1, 24, 1, 1), "f16", alignment=4) == "col, 2 at once"
    assert say((1, 1, 1, 1)) == "0, 1 at once"
    assert say((2, 24, 5, 5)) == "off, 8 at once"
    assert say((2, 24, 5, 5), alignment=2) == "off, 1 at once"
    assert say((2, 24, 5, 5), layout="nchw") == "col * k0 + d0 + d1 * k1, k0 apart, 1 at once"
    assert (places.numbers, [str(d) for d in places.digits], places.divisors) == (
        [50, 1200], ["at / f0 % f1", "at / f2"], [24, 25, 600])


def test_vectors_that_straddle():
    """Where a key counts vectors, what repeats inside of one has no place."""
    def at(dims, other):
        lead = Tensor(1, TensorDesc.packed("f32", dims))
        site = Site(dims, lead, (("vec", memory_order(lead)),), "vec", 4, counts_vectors=True)
        return Places(site).at(Tensor(2, TensorDesc.packed("f32", other)))
    with pytest.raises(CannotPlace, match="the dims of a tensor must be in multiples of 4 elements; got 6"):
        at((3, 6), (1, 6))
    with pytest.raises(CannotPlace, match="a tensor must repeat in multiples of 4 elements; got 6"):
        at((3, 6), (3, 1))
    assert str(at((3, 8), (1, 8))) == "d0 * 4, 4 at once"
    assert str(at((3, 8), (3, 1))) == "d0, one for all, 1 at once"


def test_what_has_no_place():
    lead = Tensor(1, TensorDesc.packed("f32", (2, 3, 4)))
    blind = Site(lead.dims, None, (("row", (0,)),))
    with pytest.raises(CannotPlace,
                       match=r"tensor b must have dims that are 1 or those of the output \(2, 3, 4\); "
                                          r"got \(2, 2, 4\)"):
        Places(blind).at(Tensor(2, TensorDesc.packed("f32", (2, 2, 4)), name="b"))
    with pytest.raises(CannotPlace, match="the kernel's marks do not have the coordinates of tensor b"):
        Places(blind).at(Tensor(2, TensorDesc.packed("f32", (1, 3, 1)), name="b"))
    with pytest.raises(CannotPlace, match="the kernel's marks do not have the index along dim 1"):
        Places(blind).coordinate(1)
    assert Places(blind).at(Tensor(2, TensorDesc.packed("f32", (2, 1, 1)))).terms
