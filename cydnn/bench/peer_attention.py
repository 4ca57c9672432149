"""The peer of attention's gradients: PyTorch's call of the closed library. Needs torch; only ``peer`` imports
it."""
from __future__ import annotations

import torch


def backward(op, t):
    """A call and the names of what it gives, of plain scores, all keys or those up to the query's own, from
    any o and statistics; None where the peer has no such call. Of 8 bits in bf16, as there is no other."""
    is_narrow = t["q"].dtype.itemsize == 1
    t = {name: x.bfloat16() if x.dtype.itemsize == 1 else x for name, x in t.items()}
    q, k, v = t["q"], t["k"].transpose(2, 3), t["v"]
    is_plain = not (op.score or op.score_bwd or op.left or op.right > 0)
    is_square = op.right < 0 or op.diagonal == "top_left" or q.shape[2] == k.shape[2]
    if not is_plain or not is_square or t.keys() & {"len_q", "len_kv", "sink", "extras"}:
        return None
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) if group > 1 else x for x in (k, v))
    if q.dtype == torch.float64:                             # the exact one
        return lambda: _plain(op, q, k, v, t, group), ["dq", "dk", "dv"]
    with torch.no_grad():
        made = torch.ops.aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, True, 0.0, op.right == 0, False, scale=1.0)
    stats = t["stats"].reshape(made[1].shape)
    call = lambda: torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        t["do"], q, k, v, t["o"], stats, made[6], made[7], None, None, None, q.shape[2], k.shape[2], 0.0,
        op.right == 0, scale=1.0)
    names = [None] * 3 if group > 1 or is_narrow else ["dq", "dk", "dv"]
    return call if group > 1 else lambda: _turned(call()), names


def _turned(found):
    """dk as the op has it: transposed."""
    return found[0], found[1].transpose(2, 3), found[2]


def _plain(op, q, k, v, t, group):
    s = q @ k.transpose(2, 3)
    if op.right == 0:
        s = s.masked_fill(torch.ones(s.shape[2:], dtype=torch.bool, device=s.device).triu(1), -torch.inf)
    p = torch.exp(s - t["stats"])
    ds = p * (t["do"] @ v.transpose(2, 3) - (t["do"] * t["o"]).sum(3, keepdim=True))
    shared = lambda x: x.unflatten(1, (-1, group)).sum(2)
    return ds @ k, shared(ds.transpose(2, 3) @ q).transpose(2, 3), shared(p.transpose(2, 3) @ t["do"])
