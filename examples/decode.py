"""Write with the small GPT of examples/gpt.py, a letter at a time, its keys and values in pages of a cache.

    python examples/decode.py [--device numpy|cuda:0] [--steps 300] [--letters 300]

Three graphs serve every layer and every length: projection, attention with what follows it, and the head. The
cache lies in pages in any order, which a table names; how many keys there are is a number on the device. No
length makes another plan, and a new letter's keys are written where its page has room.
"""
from __future__ import annotations

import argparse
import time

import numpy as np

from cydnn import device as devices, heur_mode, norm_forward_phase, pygraph
from cydnn import data_type
from gpt import HEADS, OPTIONS, PACKED, SIZE, WIDTH, Trainer, constant, train, turns_of
from text import LETTERS

START = "The "


class Part:
    """A graph over one letter, whose tensors have names."""

    def __init__(self, handle):
        self.g = pygraph(io_data_type=data_type.FLOAT, intermediate_data_type=data_type.FLOAT,
                         compute_data_type=data_type.FLOAT, handle=handle)
        self.tensors = {}

    def tensor(self, name, *dims, dtype=None):
        more = {} if dtype is None else dict(data_type=dtype)
        self.tensors[name] = self.g.tensor(list(dims), PACKED(dims), **more)
        return self.tensors[name]

    def output(self, name, t, stride=None):
        self.tensors[name] = t.set_output(True)
        if stride is not None:
            t.set_dim([1, HEADS, 1, SIZE]).set_stride(stride)

    def norm(self, x, name):
        scale, epsilon = self.tensor(name, 1, 1, WIDTH), constant(self.g, 1e-5)
        return self.g.rmsnorm(norm_forward_phase.INFERENCE, x, scale, None, epsilon)[0]

    def linear(self, x, name, depth, width):
        return self.g.matmul(x, self.tensor(name, 1, depth, width))

    def built(self, device):
        self.g.build([heur_mode.A])
        self.room = device.alloc(max(self.g.get_workspace_size(), 1))
        return self

    def __call__(self, **addresses):
        self.g.execute({self.tensors[name]: at for name, at in addresses.items()}, self.room)


def projection(handle, page):
    """q, k and v of a letter, turned by its place; k and v go into a page."""
    part = Part(handle)
    g, turns = part.g, {name: part.tensor(name, 1, 1, 1, SIZE // 2) for name in ("cos", "sin")}
    y = part.norm(part.tensor("x", 1, 1, WIDTH), "norm1")
    heads = lambda name: g.transpose(g.reshape(part.linear(y, name, WIDTH, WIDTH)).set_dim(
        [1, 1, HEADS, SIZE]).set_stride(PACKED([1, 1, HEADS, SIZE])), [0, 2, 1, 3])
    in_page = PACKED([1, HEADS, page, SIZE])
    part.output("q_made", g.rope(heads("q"), **turns), PACKED([1, HEADS, 1, SIZE]))
    part.output("k_made", g.rope(heads("k"), **turns), in_page)
    part.output("v_made", g.identity(heads("v")), in_page)
    return part


def attention(handle, page, pages):
    """What a block makes of a letter, of its q and of the cache."""
    part = Part(handle)
    g, x = part.g, part.tensor("x", 1, 1, WIDTH)
    q = part.tensor("q", 1, HEADS, 1, SIZE)
    k, v = (part.tensor(name, pages, HEADS, page, SIZE) for name in ("keys", "values"))
    integer = dict(dtype=data_type.INT32)
    table = part.tensor("table", 1, 1, pages, 1, **integer)
    lengths = [part.tensor(name, 1, 1, 1, 1, **integer) for name in ("len_q", "len_kv")]
    o, _ = g.sdpa(q, k, v, generate_stats=False, use_padding_mask=True, seq_len_q=lengths[0],
                  seq_len_kv=lengths[1], paged_attention_k_table=table, paged_attention_v_table=table,
                  paged_attention_max_seq_len_kv=page * pages, **OPTIONS)
    o.set_dim([1, HEADS, 1, SIZE]).set_stride([WIDTH, SIZE, WIDTH, 1])
    row = g.reshape(g.transpose(o, [0, 2, 1, 3])).set_dim([1, 1, WIDTH]).set_stride(PACKED([1, 1, WIDTH]))
    x = g.add(x, part.linear(row, "out", WIDTH, WIDTH))
    wide = g.gelu(part.linear(part.norm(x, "norm2"), "up", WIDTH, 4 * WIDTH))
    part.output("made", g.add(x, part.linear(wide, "down", 4 * WIDTH, WIDTH)))
    return part


def head(handle):
    """The scores of all letters."""
    part = Part(handle)
    part.output("scores", part.linear(part.norm(part.tensor("x", 1, 1, WIDTH), "norm"), "head", WIDTH,
                                      len(LETTERS)))
    return part


class Decoder:
    """``scores(letter)`` of what comes next; ``most`` letters at most, in pages of ``page``."""

    def __init__(self, trainer, layers, page=16, most=512, seed=0):
        self.device, self.weights, self.layers = trainer.device, trainer, layers
        self.page, self.pages, self.count, handle = page, -(-most // page), 0, trainer.device
        self.parts = [part.built(self.device) for part in (
            projection(handle, page), attention(handle, page, self.pages), head(handle))]
        of_cache = 4 * self.pages * HEADS * page * SIZE
        self.caches = [[self.device.alloc(of_cache) for _ in "kv"] for _ in range(layers)]
        self.order = np.random.default_rng(seed).permutation(self.pages).astype(np.int32)
        room = lambda size: self.device.alloc(4 * size)
        self.q, self.scores_made = room(WIDTH), room(len(LETTERS))
        self.rows, self.turns = [room(WIDTH) for _ in range(2)], [room(SIZE // 2) for _ in range(2)]
        self.table, self.len_q, self.len_kv = room(self.pages), room(1), room(1)
        self.device.copy_in(self.table, self.order)
        self.device.copy_in(self.len_q, np.ones(1, np.int32))

    def scores(self, letter: int):
        """Of every letter, to be the next one."""
        page, place = divmod(self.count, self.page)
        if page >= self.pages:
            raise SystemExit(f"decode: the cache has room for {self.pages * self.page} letters")
        at = 4 * (int(self.order[page]) * HEADS * self.page + place) * SIZE          # of its first head
        for buffer, values in zip(self.turns, turns_of(self.count, 1)):
            self.device.copy_in(buffer, values)
        self.count += 1
        self.device.copy_in(self.len_kv, np.full(1, self.count, np.int32))
        weight, (project, attend, last) = self.weights.address, self.parts
        x = weight("value", "letters") + 4 * int(letter) * WIDTH                     # a row of the embedding
        for i, (keys, values) in enumerate(self.caches):
            own = lambda *names: {name: weight("value", f"{i}.{name}") for name in names}
            project(x=x, cos=self.turns[0], sin=self.turns[1], q_made=self.q, k_made=int(keys.ptr) + at,
                    v_made=int(values.ptr) + at, **own("norm1", "q", "k", "v"))
            made = self.rows[i % 2]
            attend(x=x, q=self.q, keys=keys, values=values, table=self.table, len_q=self.len_q,
                   len_kv=self.len_kv, made=made, **own("out", "norm2", "up", "down"))
            x = made
        last(x=x, scores=self.scores_made, norm=weight("value", "norm"), head=weight("value", "head"))
        return self.device.copy_out(self.scores_made, np.empty(len(LETTERS), np.float32))


def run(device=None, steps=300, layers=2, letters=300, temperature=0.8, seed=0, say=print) -> dict:
    """Train, then write; the text, and letters written in a second."""
    trainer = Trainer(devices.get(device), layers, seed)
    train(device, steps, layers, seed, say, trainer)
    decoder, random = Decoder(trainer, layers, most=letters + len(START)), np.random.default_rng(seed)
    written, start = [LETTERS.index(c) for c in START], time.perf_counter()
    for i in range(len(START) + letters - 1):
        scores = decoder.scores(written[i]).astype(float) / temperature
        if i + 1 == len(written):
            p = np.exp(scores - scores.max())
            written.append(random.choice(len(LETTERS), p=p / p.sum()))
    seconds = time.perf_counter() - start
    return dict(text="".join(LETTERS[i] for i in written), letters_per_second=len(written) / seconds)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", help="cuda:0, which is the default where there is one, numpy")
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--letters", type=int, default=300)
    args = parser.parse_args()
    result = run(args.device, args.steps, letters=args.letters)
    print(f"\n{result['text']}\n\n{result['letters_per_second']:,.0f} letters a second")


if __name__ == "__main__":
    main()
