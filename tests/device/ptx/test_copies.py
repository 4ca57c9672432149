"""Bulk copies into one block or several, tensor copies against plain loops, and where
a finding says that it is."""
from __future__ import annotations

import itertools
import re
import struct

import numpy as np
import pytest

from cydnn.device.ptx import Finding, DecodedMap

import snippet

BARRIER = """.shared .align 128 .b8 s[512]; .shared .align 8 .b8 m[8]; .reg .b32 %s, %m, %x, %v, %one;
.reg .u64 %z; .reg .pred %lead, %done; mov.u32 %s, s; mov.u32 %m, m; mov.u32 %one, 1;
setp.eq.u32 %lead, %t, 0; @%lead mbarrier.init.shared::cta.b64 [%m], %one;
fence.mbarrier_init.release.cluster;
"""
WAIT = """WAIT: mbarrier.try_wait.parity.shared::cta.b64 %done, [%m], 0; @!%done bra WAIT;
shl.b32 %x, %t, 2; add.u32 %x, %x, %s; ld.shared.b32 %v, [%x]; """
CLUSTER = """barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""


def filled(device, array):
    return snippet.buffer(device, np.ascontiguousarray(array))


@pytest.mark.parametrize("mask,seed", [(1, None), (2, None), (3, None), (3, 1), (3, 2)])
def test_multicast_reaches_the_blocks_of_its_mask(ptx90, mask, seed):
    """Block 0 of a cluster of two sends; every block of the mask gets the bytes
    and its own barrier hears of them."""
    body = BARRIER + CLUSTER + f"""mov.u32 %v, 0; mov.u32 %x, %cluster_ctarank; shr.u32 %x, {mask}, %x;
    and.b32 %x, %x, 1; setp.eq.u32 %mine, %x, 1;
    and.pred %done, %mine, %lead; @%done mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 512;
    setp.eq.u32 %done, %g, 0; and.pred %done, %done, %lead; .reg .b16 %mask; mov.u16 %mask, {mask};
    @%done cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%s], [%p0], 512, [%m], %mask;
    @!%mine bra OUT; {WAIT} OUT: mad.lo.u32 %x, %g, 128, %t; mad.wide.u32 %z, %x, 4, %p1;
    st.global.b32 [%z], %v; {CLUSTER}"""
    code = snippet.kernel(f""".visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)
    .explicitcluster .reqnctapercluster 2, 1, 1
    .maxntid 128, 1, 1
    {{ .reg .u64 %p<2>; .reg .u32 %t, %g; .reg .pred %mine;
    ld.param.u64 %p0, [k_param_0]; ld.param.u64 %p1, [k_param_1]; mov.u32 %t, %tid.x;
    mov.u32 %g, %ctaid.x; {body} ret; }}""")
    data = np.arange(1, 129, dtype=np.uint32)
    places = [filled(ptx90, data), ptx90.alloc(1024)]
    ptx90.seed = seed
    try:
        snippet.launch(ptx90, code, places, blocks=2)
    finally:
        ptx90.seed = None
    got = ptx90.copy_out(places[1].ptr, np.empty((2, 128), np.uint32))
    assert [(row == data).all() for row in got] == [bool(mask & 1), bool(mask & 2)]


def copied(device, map_, rank, coordinates, how=""):
    """What a tensor copy brings into shared memory: 256 elements of two bytes."""
    places = ", ".join(f"%c{i}" for i in range(rank))
    body = BARRIER + "bar.sync 0; " + \
        f".reg .b32 %c<{rank}>; .reg .b16 %o<3>; mov.u16 %o0, 1; mov.u16 %o1, 2; mov.u16 %o2, 0;" + \
        "".join(f"mov.b32 %c{i}, {v};" for i, v in enumerate(coordinates)) + \
        f"""@!%lead bra WAIT; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 512;
    cp.async.bulk.tensor.{rank}d.shared::cluster.global{how and ".im2col"}.mbarrier::complete_tx::bytes
        [%s], [%p0, {{{places}}}], [%m]{how};
    {WAIT} mad.wide.u32 %z, %t, 4, %p1; st.global.b32 [%z], %v;"""
    out = device.alloc(512)
    words = struct.pack("<2Q", map_.ptr, out.ptr)
    device.launch(snippet.entry(body, 2), (1, 1, 1), (128, 1, 1), 0, words, {out.ptr}, 0, {map_.ptr: map_})
    return device.copy_out(out.ptr, np.empty(256, np.uint16))


def test_a_tile_is_zero_outside_its_tensor(ptx90):
    """4 x 8 x 8 elements of (5, 9, 24), from (-1, 3, 8) on."""
    x = np.arange(1, 5 * 9 * 24 + 1, dtype=np.uint16).reshape(5, 9, 24)
    place = filled(ptx90, x)
    got = copied(ptx90, DecodedMap(place.ptr, 2, (24, 9, 5), (48, 432), (8, 8, 4)), 3,
                 (8, 3, -1)).reshape(4, 8, 8)
    for d, h, w in itertools.product(range(4), range(8), range(8)):
        inside = 0 <= d - 1 < 5 and h + 3 < 9
        assert got[d, h, w] == (x[d - 1, h + 3, w + 8] if inside else 0)


def test_im2col_is_the_loop_over_pixels(ptx90):
    """Filter tap (1, 2) of a padded 3 x 3 convolution over (n, h, w, c) = (2, 5, 6, 8): 32 output pixels of 8
    channels, from (n, p, q) = (0, 1, 2) on."""
    x = np.arange(1, 2 * 5 * 6 * 8 + 1, dtype=np.uint16).reshape(2, 5, 6, 8)
    place = filled(ptx90, x)
    map_ = DecodedMap(place.ptr, 2, (8, 6, 5, 2), (16, 96, 480), (8, 32), corners=((-1, -1), (-1, -1)))
    got = copied(ptx90, map_, 4, (0, 2 - 1, 1 - 1, 0), ", {%o1, %o0}").reshape(32, 8)
    pixels = [(n, p, q) for n in range(3) for p in range(5) for q in range(6)][1 * 6 + 2:][:32]
    for row, (n, p, q) in zip(got, pixels):
        h, w = p - 1 + 1, q - 1 + 2
        assert (row == (x[n, h, w] if n < 2 and 0 <= h < 5 and 0 <= w < 6 else 0)).all(), (n, p, q)


def test_im2col_steps_over_pixels(ptx90):
    """The same tap with a stride of (2, 1), without padding on the left: 3 x 3 base pixels an image."""
    x = np.arange(1, 2 * 5 * 6 * 8 + 1, dtype=np.uint16).reshape(2, 5, 6, 8)
    place = filled(ptx90, x)
    map_ = DecodedMap(place.ptr, 2, (8, 6, 5, 2), (16, 96, 480), (8, 32), 0, (1, 2, 1, 1),
                     corners=((0, -1), (-1, -3)))
    got = copied(ptx90, map_, 4, (0, 2, 1 - 1, 0), ", {%o1, %o0}").reshape(32, 8)
    pixels = [(n, p, q) for n in range(5) for p in range(3) for q in range(3)][1 * 3 + 1:][:32]
    for row, (n, p, q) in zip(got, pixels):
        h, w = p - 1 + 1, 2 * q + 2
        assert (row == (x[n, h, w] if n < 2 and 0 <= h < 5 and 0 <= w < 6 else 0)).all(), (n, p, q)


@pytest.mark.parametrize("at", [(0, 1, 0, 0), (0, 6, 0, 0), (0, 0, 2, 0), (0, -2, 0, 0)])
def test_im2col_begins_at_a_base_pixel(ptx90, at):
    place = filled(ptx90, np.zeros((2, 5, 6, 8), np.uint16))
    map_ = DecodedMap(place.ptr, 2, (8, 6, 5, 2), (16, 96, 480), (8, 32), 0, (1, 2, 1, 1),
                     corners=((0, -1), (-1, -3)))
    with pytest.raises(Finding, match=re.escape(f"begins at {list(at)}, no base pixel of dims (8, 6, 5, 2)")):
        copied(ptx90, map_, 4, at, ", {%o1, %o0}")


def test_im2col_begins_at_whole_16_bytes(ptx90):
    map_ = DecodedMap(filled(ptx90, np.zeros((2, 5, 6, 8), np.uint16)).ptr, 2, (8, 6, 5, 2), (16, 96, 480),
                      (8, 32), corners=((-1, -1), (-1, -1)))
    with pytest.raises(Finding, match="begins at element 13 of a row; a tensor copy of pixels needs"):
        copied(ptx90, map_, 4, (13, 0, 0, 0), ", {%o1, %o0}")
    assert not copied(ptx90, map_, 4, (16, 0, 0, 0), ", {%o1, %o0}").any()


def sent(device, map_, coordinates):
    """32 pixels of 8 elements, 1 … 256, to a map of pixels."""
    body = ".shared .align 128 .b8 s[512]; .reg .b32 %s, %x, %v, %h; .reg .pred %lead; mov.u32 %s, s;" + \
        ".reg .b32 %c<4>;" + "".join(f"mov.b32 %c{i}, {v};" for i, v in enumerate(coordinates)) + \
        """shl.b32 %v, %t, 1; add.u32 %v, %v, 1; add.u32 %h, %v, 1; shl.b32 %h, %h, 16; or.b32 %v, %v, %h;
    shl.b32 %x, %t, 2; add.u32 %x, %x, %s; st.shared.b32 [%x], %v; fence.proxy.async.shared::cta; bar.sync 0;
    setp.eq.u32 %lead, %t, 0; @!%lead bra OUT;
    cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%p0, {%c0, %c1, %c2, %c3}], [%s];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; OUT:"""
    words = struct.pack("<Q", map_.ptr)
    device.launch(snippet.entry(body, 1), (1, 1, 1), (128, 1, 1), 0, words, {map_.ptr}, 0, {map_.ptr: map_})


def test_stored_pixels_walk_like_loaded_ones(ptx90):
    """Every second pixel along w of (n, h, w, c) = (2, 5, 6, 8), from (n, p, q) = (0, 1, 2) on; those past
    the last image are dropped."""
    place = filled(ptx90, np.zeros((2, 5, 6, 8), np.uint16))
    sent(ptx90, DecodedMap(place.ptr, 2, (8, 3, 5, 2), (32, 96, 480), (8, 32), corners=((0, 0), (0, 0))),
         (0, 2, 1, 0))
    got = ptx90.copy_out(place.ptr, np.empty((2, 5, 6, 8), np.uint16))
    want = np.zeros_like(got)
    pixels = [(n, p, q) for n in range(2) for p in range(5) for q in range(3)][1 * 3 + 2:]
    for row, (n, p, q) in zip(np.arange(1, 257).reshape(32, 8), pixels):
        want[n, p, 2 * q] = row
    assert (got == want).all()


def test_stored_pixels_have_no_corner_outside(ptx90):
    place = filled(ptx90, np.zeros((2, 5, 6, 8), np.uint16))
    map_ = DecodedMap(place.ptr, 2, (8, 6, 5, 2), (16, 96, 480), (8, 32), corners=((0, -1), (0, 0)))
    with pytest.raises(Finding, match="stores pixels whose corners .* lie outside the tensor"):
        sent(ptx90, map_, (0, 0, 0, 0))


def test_a_map_is_of_boxes_or_of_pixels(ptx90):
    place = filled(ptx90, np.zeros((2, 5, 6, 8), np.uint16))
    boxes = DecodedMap(place.ptr, 2, (8, 6, 5, 2), (16, 96, 480), (8, 4, 4, 2))
    with pytest.raises(Finding, match="names a tensor map of boxes"):
        copied(ptx90, boxes, 4, (0, 0, 0, 0), ", {%o1, %o0}")
    with pytest.raises(Finding, match="names a tensor map of pixels"):
        copied(ptx90, boxes._replace(box=(8, 32), corners=((0, 0), (0, 0))), 4, (0, 0, 0, 0))


def test_a_finding_names_the_source_line(ptx80):
    """Where the text has .loc, as nvcc -lineinfo writes it."""
    text = """.file 1 "kernel.cu"\n"""
    body = """mad.wide.u32 %a0, %t, 4, %p0;
    .loc 1 41 9
    add.u32 %g, %g, 1;
    .loc 1 42 5, function_name $L__info_string0, inlined_at 1 9 1
    st.global.u32 [%a0], %t;
    """
    with pytest.raises(Finding) as found:
        snippet.launch(ptx80, snippet.entry(body, 1, extra=text), [ptx80.alloc(508)])
    assert ("`st.global.u32 [%a0], %t` (kernel.cu:42)" in str(found.value)
            and found.value.facts["source"] == (1, 42))


def test_bytes_under_way_may_not_be_written(ptx80):
    """A copy that is under way may not be written over, and a second wait is harmless."""
    body = """.shared .align 16 .b8 s[2048]; .reg .b32 %x; mov.u32 %x, s; mad.lo.u32 %x, %t, 16, %x;
    mad.wide.u32 %a0, %t, 16, %p0; cp.async.cg.shared.global [%x], [%a0], 16; cp.async.commit_group;
    st.shared.u32 [%x], %t; cp.async.wait_group 0; cp.async.wait_all;"""
    place = filled(ptx80, np.zeros(512, np.uint32))
    with pytest.raises(Finding, match="in flight"):
        snippet.launch(ptx80, snippet.entry(body, 1), [place])
    snippet.launch(ptx80, snippet.entry(body.replace("st.shared.u32 [%x], %t;", ""), 1), [place])
