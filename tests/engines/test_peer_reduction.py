"""Statistics of several GPUs: threads that exchange them on the NumPy device, one of them after the other on
the interpreter, and both on one card and on two."""
from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import cydnn.frontend as cudnn
from cydnn import device as devices, plan
from cydnn.bench import graph_of
from cydnn.heuristics import Wish
from cydnn.ops import Problem, peer_reduction
from cydnn.status import BadParam, CydnnError, ExecutionFailed

C, IMAGES, TYPE = 6, (2, 3, 5), cudnn.data_type.FLOAT
GEN = np.random.default_rng(7)
X, DY = (GEN.normal(3, 2, (sum(IMAGES), C, 4, 5)).astype(np.float32) for _ in range(2))
THIN = {name: np.abs(GEN.normal(1, 0.3, (1, C, 1, 1))).astype(np.float32)
        for name in ("scale", "bias", "running_mean", "running_var")}


def norm(g, images, peers, rank):
    """(tensors read, tensors written) of training and its gradient on one part of the batch."""
    big = lambda name: g.tensor([images, C, 4, 5], [C * 20, 20, 5, 1], TYPE, name=name)
    thin = lambda name: g.tensor([1, C, 1, 1], [C, 1, 1, 1], TYPE, name=name)
    read = dict(x=big("x"), dy=big("dy")) | {name: thin(name) for name in THIN}
    boxes = [g.tensor([peers, 4 * C, 1, 1], [4 * C, 1, 1, 1], TYPE, name=f"box{i}") for i in range(peers)]
    number = lambda name, value: g.tensor_scalar(value, cudnn.scalar_type.COMPILE_TIME_CONST).set_name(name)
    y, mean, rstd, *running = g.batchnorm(
        read["x"], read["scale"], read["bias"], read["running_mean"], read["running_var"],
        number("epsilon", 1e-5), number("momentum", 0.3), peer_stats=boxes, rank=rank)
    back = g.batchnorm_backward(read["dy"], read["x"], read["scale"], mean, rstd, peer_stats=boxes, rank=rank)
    for t in (y, mean, rstd, *running, *back):
        t.set_output(True).set_data_type(TYPE)
    for image in (y, back[0]):
        image.set_dim([images, C, 4, 5]).set_stride([C * 20, 20, 5, 1])
    return read, boxes, (y, mean, rstd, *running, *back)


class Part:
    """One of several peers: its graph, and its share of the batch."""

    def __init__(self, device, images, start, peers, rank, stream=0):
        self.handle = cudnn.create_handle(device)
        g = cudnn.pygraph(handle=self.handle, intermediate_data_type=TYPE, compute_data_type=TYPE)
        self.graph = g
        self.read, self.boxes, self.written = norm(g, images, peers, rank)
        g.build([cudnn.heur_mode.A])
        here = slice(start, start + images)
        self.values = dict(THIN, x=X[here], dy=DY[here])

    def run(self, mail):
        """What the graph writes; ``mail``: the mailboxes of all peers."""
        found = [np.full(t.get_dim(), np.nan, np.float32) for t in self.written]
        pack = {t: self.values[name] for name, t in self.read.items()} | dict(zip(self.written, found))
        self.graph.execute(pack | dict(zip(self.boxes, mail)), np.empty(
            self.graph.get_workspace_size(), np.uint8), handle=self.handle)
        return found


def parts(places):
    """Of all peers, by the names of their devices."""
    return [Part(place, n, int(start), len(IMAGES), rank)
            for rank, (place, n, start) in enumerate(zip(places, IMAGES, STARTS))]


@pytest.fixture(scope="module")
def whole():
    """What one device makes of the whole batch. dscale and dbias of peers are averages."""
    found = Part("numpy", sum(IMAGES), 0, 1, 0).run([np.zeros((1, 4 * C), np.float32)])
    return [*found[:6], *(v / len(IMAGES) for v in found[6:])]


def told(first, second, share) -> np.ndarray:
    """The words of a message, as any peer writes them."""
    values = np.concatenate([first.ravel(), second.ravel()]).astype(np.float32)
    return values.view(np.uint32).astype(np.uint64) | np.uint64(share) << np.uint64(32)


def test_threads_of_several_peers(whole, monkeypatch):
    """Batches of other sizes, thrice without a memset, one always late: as the whole batch, equal bits."""
    monkeypatch.setattr(peer_reduction, "PATIENCE_S", 30)
    mail, found = [np.zeros((len(IMAGES), 4 * C), np.float32) for _ in IMAGES], {}

    def work(rank, part):
        for _ in range(3):
            time.sleep(0.02 * (rank == 1))
            found[rank] = part.run(mail)

    threads = [threading.Thread(target=work, args=row) for row in enumerate(parts(3 * ["numpy"]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(box.any() for box in mail)
    for i in (0, 5):
        np.testing.assert_allclose(np.concatenate([found[rank][i] for rank in range(3)]), whole[i],
                                   rtol=1e-5, atol=1e-5)
    for i in (1, 2, 3, 4, 6, 7):
        np.testing.assert_allclose(found[0][i], whole[i], rtol=1e-5, atol=1e-5)
        assert all(np.array_equal(found[0][i], found[rank][i]) for rank in range(3))


STARTS = np.cumsum([0, *IMAGES])
IMAGE, THIN_TEXT, MAIL = f"{C}x4x5:f32@nhwc", f"1x{C}x1x1:f32", "+".join(3 * [f"3x{4 * C}:f32"])


def here(rank):
    return slice(STARTS[rank], STARTS[rank + 1])


def image(values):
    """As NHWC lies."""
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def execute(text, rank, messages, arrays, wish, kernel):
    """Run a problem of ``rank`` with the mailboxes at the place of None in ``arrays``; a message of each
    other peer is in the own one: it is taken, and the own one left in all others."""
    mail = [np.zeros((3, 4 * C), np.float32) for _ in IMAGES]
    words = [box.view(np.uint64).reshape(3, -1) for box in mail]
    for r in {0, 1, 2} - {rank}:
        words[rank][r] = messages[r]
    graph, without = graph_of(Problem.parse(f"{text} rank={rank}")), tuple(map(int, wish[1:]))
    built = plan.build(graph, wish[0], Wish(without=without))
    assert kernel in built.explain()
    given = [array for each in arrays for array in (mail if each is None else [each])]
    built.execute(given, np.empty(built.workspace_bytes, np.uint8))
    assert not mail[rank].any()
    for r in {0, 1, 2} - {rank}:
        values, own = (np.uint32(w & 0xFFFFFFFF).view(np.float32) for w in (words[r][rank], messages[rank]))
        np.testing.assert_allclose(values, own, rtol=1e-4, atol=1e-5)
        assert (words[r][rank] >> np.uint64(32) == IMAGES[rank] * 20).all() and not words[r][r].any()


@pytest.mark.parametrize("wish", [("ptx:sm_80",), ("ptx:sm_90",), ("ptx:sm_90", "408")], ids="-".join)
@pytest.mark.parametrize("rank", range(3))
def test_a_peer_whose_partners_were_there(wish, rank, whole):
    mine = [X[here(r)] for r in range(3)]
    messages = [told(x.mean((0, 2, 3)), x.var((0, 2, 3)), len(x) * 20) for x in mine]
    big = f"{IMAGES[rank]}x{IMAGE}"
    x, y = image(X[here(rank)]), image(np.full_like(X[here(rank)], np.nan))
    mean, rstd = (np.full((1, C, 1, 1), np.nan, np.float32) for _ in range(2))
    execute(f"batch_norm_training x={big} scale={THIN_TEXT} bias={THIN_TEXT} peer_stats={MAIL}", rank,
            messages, [x, THIN["scale"], THIN["bias"], None, y, mean, rstd], wish,
            "peer_reduction_moments" if wish[1:] else "peer_parts_0")
    for got, want in ((y, whole[0][here(rank)]), (mean, whole[1]), (rstd, whole[2])):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wish", [("ptx:sm_80",), ("ptx:sm_90", "409")], ids="-".join)
@pytest.mark.parametrize("rank", range(3))
def test_gradients_of_a_peer_whose_partners_were_there(wish, rank, whole):
    """Shares differ: dx is that of all numbers, dscale and dbias the averages of the peers."""
    normal = (X - whole[1]) * whole[2]
    messages = [told(DY[here(r)].sum((0, 2, 3)), (DY * normal)[here(r)].sum((0, 2, 3)), IMAGES[r] * 20)
                for r in range(3)]
    big = f"{IMAGES[rank]}x{IMAGE}"
    dx = image(np.full_like(X[here(rank)], np.nan))
    dscale, dbias = (np.full((1, C, 1, 1), np.nan, np.float32) for _ in range(2))
    execute(f"batch_norm_bwd x={big} dy={big} scale={THIN_TEXT} mean={THIN_TEXT} rstd={THIN_TEXT} "
            f"peer_stats={MAIL}", rank, messages,
            [image(X[here(rank)]), image(DY[here(rank)]), THIN["scale"], whole[1], whole[2], None, dx, dscale,
             dbias], wish, "peer_reduction_sums" if wish[1:] else "peer_parts_1")
    for got, want in ((dx, whole[5][here(rank)]), (dscale, whole[6]), (dbias, whole[7])):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def second():
    """The second GPU."""
    try:
        return devices.get("cuda:1")
    except CydnnError:
        pytest.skip("needs a second CUDA device")


@pytest.mark.gpu
@pytest.mark.parametrize("cards", [1, 2])
def test_peers_on_cards(cards, gpu, whole, monkeypatch):
    """Each on a stream of its own; the first one waits on its card for those that are launched later."""
    monkeypatch.setattr(peer_reduction, "PATIENCE_S", 60)
    places = [gpu, gpu if cards == 1 else second(), gpu]
    streams = [place.create_stream() for place in places]
    mail = [place.alloc(4 * 4 * C * len(IMAGES)) for place in places]
    for place, box in zip(places, mail):
        place.memset(box, 0, box.bytes)
    found, kept = [], []
    for part, place, stream in zip(parts([place.name for place in places]), places, streams):
        cudnn.set_stream(part.handle, stream)
        held = {t: place.alloc(v.nbytes) for name, t in part.read.items() for v in (part.values[name],)}
        for name, t in part.read.items():
            place.copy_in(held[t], np.ascontiguousarray(part.values[name]))
        out = {t: place.alloc(4 * int(np.prod(t.get_dim()))) for t in part.written}
        kept.append((part, held, out, place.alloc(max(part.graph.get_workspace_size(), 1))))
    for _ in range(3):
        for place in places:
            place.synchronize()
        for part, held, out, space in kept:
            part.graph.execute(held | out | dict(zip(part.boxes, mail)), space, handle=part.handle)
    for place, (part, _, out, _) in zip(places, kept):
        place.synchronize()
        found.append([place.copy_out(out[t], np.empty(t.get_dim(), np.float32)) for t in part.written])
    for i in (0, 5):
        np.testing.assert_allclose(np.concatenate([one[i] for one in found]), whole[i], rtol=1e-4, atol=1e-4)
    for i in (1, 2, 3, 4, 6, 7):
        np.testing.assert_allclose(found[0][i], whole[i], rtol=1e-4, atol=1e-4)
        assert all(np.array_equal(found[0][i], one[i]) for one in found)
    boxes = [place.copy_out(box, np.empty(4 * C * 3, np.float32)) for place, box in zip(places, mail)]
    assert not any(box.any() for box in boxes)


@pytest.mark.parametrize("line, sentence", [
    ("peers=48:f32+48:f32 rank=2", "rank must be below 2, the number of peers; got 2"),
    ("peers=24:f32+48:f32", "peers must each be 48 packed elements of f32, 4 for each of 6 channels and 2 "),
    ("peers=48:f64+48:f64", "peers must each be 48 packed elements of f32"),
    ("peers=48:f32+48:f32 compute=f64", "compute must be f32, as messages are; got f64"),
    ("peers=" + "+".join(["792:f32"] * 33), "peers must be at most 32 tensors; got 33"),
    ("peers=48:f32+48:f32 share=4294967296", "share must be at most 2147483647; got 4294967296")])
def test_what_is_refused(line, sentence):
    with pytest.raises(BadParam, match=sentence):
        Problem.parse(f"peer_reduction a=1x6:f32 b=1x6:f32 {line}")


def test_a_peer_that_does_not_come(monkeypatch):
    monkeypatch.setattr(peer_reduction, "PATIENCE_S", 0.05)
    part = Part("numpy", 2, 0, 2, 0)
    with pytest.raises(ExecutionFailed, match="peer_reduction: peer 1 must come within 0.05 s; it did not"):
        part.run([np.zeros((2, 4 * C), np.float32) for _ in range(2)])


def test_rank_is_nothing_without_peers():
    with pytest.raises(BadParam, match="rank must be 0 without peer_stats; got 1"):
        Problem.parse("batch_norm_training 2x3x4x4 rank=1")
    with pytest.raises(BadParam, match="compute must be f32 with peer_stats; got f64"):
        Problem.parse("batch_norm_training x=2x3x4x4:f64 scale=1x3x1x1:f64 bias=1x3x1x1:f64 "
                      "peer_stats=12:f32 compute=f64")
