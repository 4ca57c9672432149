"""Our attention as torch's flash attention: what ``scaled_dot_product_attention`` runs on CUDA tensors of f16
and bf16, in models that know nothing of cydnn.

    import cydnn.torch
    torch.nn.attention.activate_flash_attention_impl("cydnn")
    torch.nn.attention.restore_flash_attention_impl()          # torch's own again

``cydnn.torch`` imports this module, which makes the name known; torch 2.13 and newer ask for it.
"""
from __future__ import annotations

import torch

from .functional import FUNCTIONS
from .given import shown
from .status import BadParam

ATTENTION, NAME = FUNCTIONS["attention"], "cydnn"
NO_OTHERS = (None,) * (len(ATTENTION.arrays) - 3)            # a mask, numbers of dropout


class Handle:
    """Keeps ours registered until torch removes it."""

    def __init__(self, library):
        self.library = library

    def remove(self):
        """Torch's own are what it runs again."""
        self.library = None


def _options(dropout_p: float, is_causal: bool, scale) -> tuple:
    """The options of ``attention``. Raises BadParam for dropout, which torch would draw in its own way."""
    if dropout_p:
        raise BadParam(f"attention: dropout_p must be 0 while cydnn is torch's flash attention; got "
                       f"{shown(dropout_p)}: call torch.nn.attention.restore_flash_attention_impl()")
    return 0.0, is_causal, scale, True, None


def forward(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    """aten::_scaled_dot_product_flash_attention: (o, the log of each row's sum, what torch's backward gets
    beside them and does not need)."""
    if return_debug_mask:
        raise BadParam("attention: return_debug_mask must be False while cydnn is torch's flash attention; "
                       "got True")
    options = _options(dropout_p, is_causal, scale)
    arrays = query, key, value, *NO_OTHERS
    with torch.no_grad():                        # autograd is above
        o, stats = ATTENTION._found(arrays, options, None, True).run(arrays)
    none = torch.empty(0, dtype=torch.int64, device=query.device)
    return o, stats.squeeze(-1), none, none, query.shape[2], key.shape[2], none, none, none


def backward(walked):
    """What computes the gradients; ``walked``: the backward pass of the operator ``attention``."""
    def run(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
            is_causal, philox_seed, philox_offset, *, scale=None):
        text = repr(({}, _options(dropout_p, is_causal, scale)))
        stats = logsumexp.unsqueeze(-1)
        return tuple(walked(grad_out, out, [stats], query, key, value, *NO_OTHERS, text, [0, 1, 2]))
    return run


def register(walked):
    """Make the name known to torch, where it asks for such; nothing is replaced yet."""
    try:
        from torch.nn.attention import register_flash_attention_impl
    except ImportError:                          # before torch 2.13
        return

    def activate():
        library = torch.library.Library("aten", "IMPL", "CUDA")
        library.impl("_scaled_dot_product_flash_attention", forward, "CUDA")
        library.impl("_scaled_dot_product_flash_attention_backward", backward(walked), "CUDA")
        return Handle(library)
    register_flash_attention_impl(NAME, register_fn=activate)
