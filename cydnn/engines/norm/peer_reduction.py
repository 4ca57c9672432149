"""Statistics of several GPUs, exchanged through mailboxes in their memory."""
from __future__ import annotations

from ...graph import core, source_of
from ...ops import PeerReduction, peer_reduction
from ...steps import Launch
from ..engine import Engine, wrong_device
from .view import RAMP_US

MOST = 2 ** 31 - 128
WORD = 8                                         # bytes of a message
EXCHANGE_US = 4.0                                # to another GPU and back, by the sheets of NVLink


def boxes_of(peers) -> tuple:
    """The mailboxes as kernels take them."""
    return (*map(source_of, peers), *[None] * (peer_reduction.MOST_PEERS - len(peers)))


class PeerReductionMail(Engine):
    """One launch: a thread a channel writes to all peers, and reads what they wrote."""
    index, takes = 268, core(PeerReduction)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        for name in ("a", "b", "a_all", "b_all", "count"):
            d = p.operands[name]
            if d.dtype.name != "f32" or not d.is_packed():
                yield f"{name} must be packed f32; got {d.desc}"
        if not 1 <= p.a.count < MOST:
            yield f"a must have 1 to {MOST - 1} channels; got {p.a.count}"
        for d in p.peers:
            if d.alignment % WORD:
                yield f"peers must be aligned to {WORD} bytes; got {d.alignment}"

    def cost(self, p, dev, config):
        return dev.launch_us + RAMP_US + (EXCHANGE_US if len(p.peers) > 1 else 0.0)

    def plan(self, p, dev, config):
        return [Launch(f"peer_reduction_{p.op.mode}", dict(
            a=p.ptr("a"), b=p.ptr("b"), a_all=p.ptr("a_all"), b_all=p.ptr("b_all"), count=p.ptr("count"),
            channels=p.a.count, peers=len(p.peers), rank=p.op.rank, share=p.op.share,
            patience=int(peer_reduction.PATIENCE_S * 1e9), boxes=boxes_of(p.peers)))]
