"""Small kernels written in PTX, one for each thing that a launch can carry, and plans that launch them: for
the interpreter and for a GPU."""
from __future__ import annotations

import numpy as np

from cydnn.steps import Launch, Pointer, Scalar, TensorMap
from . import handmade
from ..guard.buffers import FILLS, Space

TILE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry tile(.param .align 128 .b8 tile_param_0[128], .param .u64 tile_param_1,
    .param .u32 tile_param_2)
{ .shared .align 128 .b8 s[512]; .shared .align 8 .b8 m[8]; .reg .b32 %s, %m, %x, %v, %t;
.reg .b64 %map, %y, %z; .reg .pred %lead, %done; mov.b64 %map, tile_param_0; cvta.param.u64 %map, %map;
ld.param.u64 %y, [tile_param_1]; ld.param.u32 %x, [tile_param_2]; mov.u32 %s, s; mov.u32 %m, m;
mov.u32 %t, %tid.x; setp.eq.u32 %lead, %t, 0; @%lead mbarrier.init.shared::cta.b64 [%m], 1;
fence.mbarrier_init.release.cluster; bar.sync 0; @!%lead bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 512;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%map, {%x, 1}], [%m];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %done, [%m], 0; @!%done bra WAIT;
shl.b32 %x, %t, 2; add.u32 %x, %x, %s; ld.shared.b32 %v, [%x]; mad.wide.u32 %z, %t, 4, %y;
st.global.b32 [%z], %v; ret; }
"""
X = TensorMap(Pointer(0, 64), "f32", (20, 5), (96,), (16, 8), fill_nan=True)
KEEP = """.version 7.0
.target sm_75
.address_size 64
.visible .entry keep(.param .u64 keep_param_0, .param .u64 keep_param_1, .param .u32 keep_param_2)
{ .reg .b64 %p, %v; .reg .b32 %w;
ld.param.u64 %p, [keep_param_0]; ld.param.u64 %v, [keep_param_1]; ld.param.u32 %w, [keep_param_2];
st.global.u64 [%p], %v; st.global.u32 [%p+8], %w; ret; }
"""
SWAP = """.version 8.0
.target sm_90
.address_size 64
.visible .entry swap(.param .u64 swap_param_0)
{ .shared .align 4 .b8 s[4]; .reg .b32 %s, %v, %other, %g; .reg .b64 %y, %z; .reg .pred %q; mov.u32 %s, s;
mov.u32 %g, %ctaid.x; st.shared.u32 [%s], %g;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.u32 %other, %cluster_ctarank; xor.b32 %other, %other, 1; mapa.shared::cluster.u32 %v, %s, %other;
ld.shared::cluster.u32 %v, [%v];
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ld.param.u64 %y, [swap_param_0]; mad.wide.u32 %z, %g, 4, %y; st.global.u32 [%z], %v; ret; }
"""
# How far a block's shared memory lies from where the cluster has it.
OWN = """.version 8.0
.target sm_90
.address_size 64
.visible .entry own(.param .u64 own_param_0)
{ .shared .align 4 .b8 s[4]; .reg .b32 %s, %v, %g; .reg .b64 %y, %z; mov.u32 %s, s;
mov.u32 %g, %ctaid.x; mov.u32 %v, %cluster_ctarank; mapa.shared::cluster.u32 %v, %s, %v; sub.u32 %v, %v, %s;
ld.param.u64 %y, [own_param_0]; mad.wide.u32 %z, %g, 4, %y; st.global.u32 [%z], %v; ret; }
"""
# Every block adds 1 to a counter, waits until all have, and stores what the block before it stored earlier.
MEET = """.version 8.0
.target sm_80
.address_size 64
.visible .entry meet(.param .u64 meet_param_0, .param .u64 meet_param_1)
{ .reg .b32 %g, %n, %v, %one; .reg .b64 %y, %c, %z; .reg .pred %q; ld.param.u64 %y, [meet_param_1];
ld.param.u64 %c, [meet_param_0]; mov.u32 %g, %ctaid.x; mov.u32 %n, %nctaid.x; mad.wide.u32 %z, %g, 4, %y;
st.global.u32 [%z], %g; atom.release.gpu.global.add.u32 %v, [%c], 1;
L: ld.acquire.gpu.global.u32 %v, [%c]; setp.lt.u32 %q, %v, %n; @%q bra L;
add.u32 %v, %g, 1; rem.u32 %v, %v, %n; mad.wide.u32 %z, %v, 4, %y; ld.global.u32 %v, [%z];
mad.wide.u32 %z, %n, 4, %y; mad.wide.u32 %z, %g, 4, %z; st.global.u32 [%z], %v; ret; }
"""
RELAY = """.version 8.0
.target sm_80
.address_size 64
.visible .entry relay(.param .u64 relay_param_0)
{ .reg .b32 %v; .reg .b64 %y; .reg .pred %q; ld.param.u64 %y, [relay_param_0];
mov.u32 %v, %ctaid.x; setp.eq.u32 %q, %v, 0; @%q bra G;
L: ld.relaxed.gpu.global.u32 %v, [%y]; setp.eq.u32 %q, %v, 0; @%q bra L;
st.relaxed.gpu.global.u32 [%y+4], %v; ret;
G: bar.sync 0; mov.u32 %v, 7; st.relaxed.gpu.global.u32 [%y], %v; ret; }
"""
LATE = """.version 7.8
.target sm_90
.address_size 64
.visible .entry late(.param .u64 late_param_0)
{ .reg .b32 %t; .reg .b64 %y; ld.param.u64 %y, [late_param_0]; mov.u32 %t, %tid.x;
griddepcontrol.wait;
mad.wide.u32 %y, %t, 4, %y; st.global.u32 [%y], %t; ret; }
"""


def run(device, plan, arrays, scalars=None):
    """Execute a plan, between zones of one fill and of the other; the contents of its slots afterwards, which
    are the same."""
    tape = device.compile(plan)
    first, second = (_between(device, tape, arrays, scalars, fill) for fill in FILLS)
    assert [a.tobytes() for a in first] == [b.tobytes() for b in second], "other bits beside other memory"
    return first


def _between(device, tape, arrays, scalars, fill):
    places = [Space(device, a.nbytes, fill=fill) for a in arrays]
    for place, array in zip(places, arrays):
        device.copy_in(place.ptr, array)
    tape.execute([place.ptr for place in places], scalars)
    found = [device.copy_out(p.ptr, np.empty_like(a)) for p, a in zip(places, arrays)]
    assert not any(place.changed_beside() for place in places), "bytes written beside a tensor"
    return found


def tile_plan(x=X, **facts):
    """y = the box of x at (column, 1)."""
    return handmade.plan(
        [handmade.tensor(1, "f32", (200,), **facts), handmade.tensor(2, "f32", (128,))],
        [Launch("tile", dict(x=x, y=Pointer(1), column=Scalar(0, 8)))], [((2, "column"), 8)])


def box(x, column):
    """What the plan of a tile stores: rows of 20 floats, 24 apart, from the 16th on; outside is NaN."""
    want = np.full((8, 16), np.nan, np.float32)
    for row in range(4):
        for i in range(16):
            if 0 <= column + i < 20:
                want[row, i] = x[16 + 24 * (row + 1) + column + i]
    return want


def keep_plan():
    """y = (seed, count), whole numbers given at execute."""
    return handmade.plan([handmade.tensor(7, "u8", (12,))],
                         [Launch("keep", dict(y=Pointer(0), seed=Scalar(0, 5), count=Scalar(1, -3)))],
                         [((7, "seed"), 5), (9, -3)])


def one(name, count, *more):
    """One launch of a kernel over i32 tensors of these counts, the output last."""
    slots = [handmade.tensor(i + 1, "i32", (n,)) for i, n in enumerate((*more, count))]
    args = dict(zip("cy" if more else "y", map(Pointer, range(2))))
    return handmade.plan(slots, [Launch(name, args)])
