"""Statistics of a batch whose parts lie on several GPUs, from those of each part."""
from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ..status import ExecutionFailed
from .attribute import choice, integer
from .op import Op

MOST_PEERS = 32                                  # the limit of the guide
MOST_SHARE = 2 ** 31 - 1
PATIENCE_S = 600                                 # until a peer that does not come is an error


@dataclass(frozen=True)
class PeerReduction(Op, reads="a b peers*", writes="a_all b_all count"):
    """Two statistics a channel of all peers together, from the own ones.

    moments  a, b  mean and biased variance of ``share`` numbers; a_all, b_all those of all numbers
    sums     a_all, b_all  the sums of all peers' a and b
    count    how many numbers those are, of all peers

    a, b, a_all, b_all, count  equal dims, f32
    peers    a mailbox of each peer in the order of their ranks, the same on all of them: packed f32, of
             4 * channels * peers elements, zero before its first use. ``rank`` is that of the own one
    The peer ``rank`` puts its statistics into its places of all other mailboxes, takes theirs out of its own
    one as they come, and leaves it zero, so that the next call needs no memset. All peers must be executed,
    at the same time or one after the other on streams of their own; one that comes late is waited for. They
    add in the order of their ranks, in f64: all get the same bits. Shares may differ.
    Spec: graph API, BnAddRelu and DReluForkDBn on several GPUs (its peer tensors).
    """
    mode: str = choice("moments", "sums", doc="what is made of the statistics of the peers")
    rank: int = integer(0, lo=0, doc="which of the peers is the own one")
    share: int = integer(1, lo=1, doc="how many numbers a and b are statistics of")

    scalars = {}
    fixed = frozenset(["peers"])
    shared = frozenset(["peers"])

    def check(self, a, b, peers):
        yield self.compute == "f32", f"compute must be f32, as messages are; got {self.compute}"
        yield self.share <= MOST_SHARE, f"share must be at most {MOST_SHARE}; got {self.share}"
        yield b.dims == a.dims, f"b must have dims {a.dims} like a; got {b.dims}"
        yield from peer_rules("peers", peers, self.rank, a.count)

    def infer(self, a, b, peers):
        return dict(a_all=a, b_all=a, count=a)

    def reference(self, a, b, peers):
        first, second, count = met(self.mode, self.rank, self.share, a, b, peers)
        return dict(a_all=first, b_all=second, count=np.full(a.shape, float(count)))

    def admit(self, name, values):
        """Of the own mailbox messages that have come: nothing is waited for."""
        return admitted(self, name, values) if name.startswith("peers") else np.abs(values)


def admitted(op, name: str, values):
    """Values of a mailbox ``name``: messages that have come are in the own one alone."""
    if int(name.rpartition(".")[2]) != op.rank:
        return np.zeros(values.shape)
    words = _message(np.abs(values.reshape(-1)[::2]), 1 + op.rank % 5)
    return words.view(np.float32).astype(np.float64).reshape(values.shape)


def peer_rules(operand: str, peers: tuple, rank: int, channels: int):
    """The rules of mailboxes, one for each peer."""
    many, size = len(peers), 4 * channels * len(peers)
    yield many <= MOST_PEERS, f"{operand} must be at most {MOST_PEERS} tensors; got {many}"
    yield rank < many, f"rank must be below {many}, the number of {operand}; got {rank}"
    for d in peers:
        yield (d.dtype.name == "f32" and d.count == size and d.is_packed(),
               f"{operand} must each be {size} packed elements of f32, 4 for each of {channels} channels and "
               f"{many} peers; got {d}")


def met(mode: str, rank: int, share: int, a, b, peers: tuple) -> tuple:
    """(first statistic, second statistic, count) of all peers: as PeerReduction says, by memory that the
    threads of this process share. Raises ExecutionFailed where a peer does not come."""
    if len(peers) == 1:
        return a, b, share
    boxes = [_words(peer).reshape(len(peers), -1) for peer in peers]
    own = _message(np.concatenate([np.ravel(a), np.ravel(b)]), share)
    for number, box in enumerate(boxes):
        if number != rank:
            place = box[rank]
            _wait(lambda: not place.any(), number)
            place[:] = own
    found = 0.0, 0.0, 0
    for number, place in enumerate(boxes[rank]):
        message = own
        if number != rank:
            _wait(lambda: (place >> np.uint64(32)).all(), number)
            message = place.copy()
            place[:] = 0
        values = message.astype(np.uint32).view(np.float32).astype(np.float64).reshape(2, *np.shape(a))
        found = _joined(mode, found, *values, int(message[0] >> np.uint64(32)) if message.size else share)
    return found


def _joined(mode, found, first, second, share) -> tuple:
    one, other, count = found
    if mode == "sums":
        return one + first, other + second, count + share
    apart, weight = first - one, share / (count + share)
    other = other * (1 - weight) + second * weight + apart * apart * (weight * (1 - weight))
    return one + apart * weight, other, count + share


def _words(peer) -> np.ndarray:
    """A mailbox as one word for each message, of the memory itself where it has the type."""
    return np.asarray(peer, np.float32).reshape(-1).view(np.uint64)


def _message(values, share: int) -> np.ndarray:
    """A number, and above its bits the share: never zero."""
    return values.astype(np.float32).view(np.uint32).astype(np.uint64) | np.uint64(share) << np.uint64(32)


def _wait(is_done, number: int):
    end = time.monotonic() + PATIENCE_S
    while not is_done():
        if time.monotonic() > end:
            raise ExecutionFailed(f"peer_reduction: peer {number} must come within {PATIENCE_S} s; "
                                  "it did not")
        time.sleep(0)
