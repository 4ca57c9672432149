"""Batch norm with what stands around it in a residual network, in one run: BnAddRelu (training, the sum
with the shortcut, ReLU and its packed mask) and DReluForkDBn (the gradient of ReLU by that mask, kept for the
shortcut, and of batch norm), beside torch's kernels one after the other, and a copy of the bytes that move.
``python benchmarks/batch_norm_fused.py [n,c,h,w …] [--type bf16] [--layout nhwc] [--engine N]``.

x of the forward pass is read twice, and so are x and what the first launch makes of dy in the backward pass:
no chip holds them. Each result is compared with torch's, in float32, before it is timed.
"""
from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from cydnn import bench, device as devices, plan as plans                  # noqa: E402
from cydnn.graph import Graph, Node, Tensor                                # noqa: E402
from cydnn.heuristics import Wish                                          # noqa: E402
from cydnn.heuristics.wish import ANYTHING                                 # noqa: E402
from cydnn.ops import BatchNormBwd, BatchNormTraining, Pointwise           # noqa: E402
from cydnn.tensor import TensorDesc                                        # noqa: E402

X, SCALE, BIAS, Z, NORMAL, SUM, Y, MEAN, RSTD, MASK, ZERO, DY, DZ, DX, DSCALE, DBIAS = range(1, 17)
SIZES = ("256,256,56,56", "128,256,56,56", "128,512,28,28", "128,1024,14,14", "128,2048,7,7", "32,256,28,28")


class Layer:
    """One layer in torch's memory."""

    def __init__(self, dims, kind, layout, torch):
        n, c, h, w = dims
        strides = (c * h * w, 1, w * c, c) if layout == "nhwc" else (c * h * w, h * w, w, 1)
        self.torch, self.dims = torch, dims
        self.type = dict(bf16=torch.bfloat16, f16=torch.float16, f32=torch.float32)[kind]
        self.big = lambda of=kind: TensorDesc(of, dims, strides)
        self.thin = TensorDesc("f32", (1, c, 1, 1), (c, 1, 1, 1))
        empty = lambda: torch.empty(n * c * h * w, device="cuda", dtype=self.type).as_strided(dims, strides)
        thin = lambda: torch.empty((1, c, 1, 1), device="cuda")
        self.of = {u: empty() for u in (X, Z, Y, DY, DZ, DX)}
        self.of |= {u: thin() for u in (SCALE, BIAS, MEAN, RSTD, DSCALE, DBIAS)}
        self.of[MASK] = torch.empty(n * c * h * w // 8, device="cuda", dtype=torch.uint8)
        self.of[X].normal_(0.5, 2)
        for uid in (Z, DY, SCALE, BIAS):
            self.of[uid].normal_(0, 1)
        self.rooms = []

    def forward(self) -> Graph:
        kept = {u: self.big() for u in (X, Z, Y)} | {u: self.thin for u in (SCALE, BIAS, MEAN, RSTD)}
        tensors = [*(Tensor(u, d) for u, d in kept.items()), Tensor(MASK, self.big("bool")),
                   *(Tensor(u, self.big("f32"), "virtual") for u in (NORMAL, SUM)),
                   Tensor(ZERO, TensorDesc.packed("f32", (1, 1, 1, 1)), "value")]
        return Graph([Node(BatchNormTraining(mode="spatial"),
                           dict(x=X, scale=SCALE, bias=BIAS, y=NORMAL, mean=MEAN, rstd=RSTD)),
                      Node(Pointwise(mode="add"), dict(x=NORMAL, b=Z, y=SUM)),
                      Node(Pointwise(mode="relu_fwd"), dict(x=SUM, y=Y)),
                      Node(Pointwise(mode="cmp_gt"), dict(x=SUM, b=ZERO, y=MASK))], tensors)

    def backward(self) -> Graph:
        tensors = [*(Tensor(u, self.big()) for u in (X, DY, DZ, DX)), Tensor(MASK, self.big("bool")),
                   *(Tensor(u, self.thin) for u in (SCALE, MEAN, RSTD, DSCALE, DBIAS))]
        return Graph([Node(Pointwise(mode="mul"), dict(x=DY, b=MASK, y=DZ)),
                      Node(BatchNormBwd(mode="spatial"), dict(x=X, dy=DZ, scale=SCALE, mean=MEAN, rstd=RSTD,
                                                              dx=DX, dscale=DSCALE, dbias=DBIAS))], tensors)

    def call(self, graph, device, wish):
        plan = plans.build(graph, device, wish)
        room = self.torch.empty(max(plan.workspace_bytes, 1), device="cuda", dtype=self.torch.uint8)
        self.rooms.append(room)
        pointers = tuple(self.of[u].data_ptr() if u in self.of else 0.0 for u in graph.slots)
        return (lambda: plan.execute(pointers, room.data_ptr())), plan

    # ---- torch ----

    def wrong(self, uids, wants) -> str:
        """The outputs that differ by more than two roundings of their largest value."""
        room = 2 * self.torch.finfo(self.type).eps
        error = lambda u, want: float((self.of[u].double() - want.double()).abs().max() / want.abs().max())
        return " ".join(f"{u}:{error(u, want):.2g}" for u, want in zip(uids, wants)
                        if not error(u, want) <= (room if self.of[u].dtype == self.type else 1e-4))

    def normal(self):
        x = self.of[X].double()
        mean = x.mean((0, 2, 3), keepdim=True)
        rstd = ((x - mean).square().mean((0, 2, 3), keepdim=True) + 1e-5).rsqrt()
        return x, mean, rstd

    def wrong_forward(self) -> str:
        x, mean, rstd = self.normal()
        total = (x - mean) * rstd * self.of[SCALE] + self.of[BIAS] + self.of[Z]
        bits = self.mask()
        clear = (total.abs() > 1e-3 * total.abs().max()) & (bits != (total > 0))
        return self.wrong((Y, MEAN, RSTD), (total.clamp(min=0), mean, rstd)) + " mask" * bool(clear.any())

    def mask(self):
        bits = (self.of[MASK][:, None] >> self.torch.arange(8, device="cuda")) & 1
        return bits.flatten().as_strided(self.dims, self.of[X].stride()).bool()

    def wrong_backward(self) -> str:
        x, mean, rstd = self.normal()
        dz = self.of[DY].double() * self.mask()
        fold = lambda t: t.sum((0, 2, 3), keepdim=True)
        normal, count = (x - mean) * rstd, x.numel() // x.shape[1]
        dbias, dscale = fold(dz), fold(dz * normal)
        dx = self.of[SCALE] * rstd * (dz - dbias / count - normal * dscale / count)
        return self.wrong((DZ, DX, DSCALE, DBIAS), (dz, dx, dscale, dbias))

    def torch_forward(self):
        f = self.torch.nn.functional
        scale, bias = self.of[SCALE].flatten(), self.of[BIAS].flatten()
        return lambda: f.relu_(f.batch_norm(self.of[X], None, None, scale, bias, True).add_(self.of[Z]))

    def torch_backward(self):
        aten, scale = self.torch.ops.aten, self.of[SCALE].flatten()
        saved = self.of[MEAN].flatten(), self.of[RSTD].flatten()
        def call():
            dz = aten.threshold_backward(self.of[DY], self.of[Y], 0)
            aten.native_batch_norm_backward(dz, self.of[X], scale, None, None, *saved, True, 1e-5, [True] * 3)
        return call


def rows(args):
    """(name, dims, engine, us, bytes that move, us of their copy, torch's us, what is wrong)."""
    import torch
    device = devices.get(args.device)
    clock, wish = bench.Clock(device), Wish(engines=(args.engine,)) if args.engine else ANYTHING
    for text in args.sizes:
        layer = Layer(tuple(map(int, text.split(","))), args.type, args.layout, torch)
        size, bits = layer.of[X].numel() * layer.of[X].element_size(), layer.of[MASK].numel()
        for name, graph, check, theirs, moved in (
                ("BnAddRelu", layer.forward(), layer.wrong_forward, layer.torch_forward(), 4 * size + bits),
                ("DReluForkDBn", layer.backward(), layer.wrong_backward, layer.torch_backward(),
                 6 * size + bits)):
            call, plan = layer.call(graph, device, wish)
            call()
            device.synchronize()
            note = check()
            found = [statistics.median(t) for t in clock.times([call, theirs], args.repeat)]
            yield name, text, plan.name, found[0], moved, clock.copy_us(moved), found[1], note
        plans.forget()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", default=SIZES)
    parser.add_argument("--type", default="bf16")
    parser.add_argument("--layout", default="nhwc")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--engine", type=int, default=0)
    args = parser.parse_args()
    print("| pattern | n,c,h,w | engine | us | GB/s | of a copy | torch us | ratio | note |")
    print("|---|---|---|--:|--:|--:|--:|--:|---|")
    for name, text, engine, us, moved, copy, theirs, note in rows(args):
        print(f"| {name} | {text} | {engine} | {us:.1f} | {moved / us * 1e-3:.0f} | {copy / us:.2f} | "
              f"{theirs:.1f} | {theirs / us:.2f} | {note} |", flush=True)


if __name__ == "__main__":
    main()
