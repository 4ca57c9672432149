"""YaRN: angles of a rotary embedding for contexts longer than the one of training (arXiv 2309.00071)."""
from __future__ import annotations

import math

from ..given import real, shown, whole
from ..status import BadParam


def yarn_get_mscale(scaling_factor: float, mscale_factor: float = 1.0) -> float:
    """The temperature of attention in a context ``scaling_factor`` times as long; 1 where it is no longer."""
    scale = real("yarn: scaling_factor", scaling_factor)
    return 1.0 if scale <= 1 else 0.1 * real("yarn: mscale_factor", mscale_factor) * math.log(scale) + 1.0


def compute_yarn_inv_freq(head_dim: int, *, base=10000.0, scaling_factor=1.0, original_max_position=4096,
                          beta_fast=32.0, beta_slow=1.0, device="cuda", dtype=None):
    """Angles between neighbours, one for each pair of a head's numbers (a torch tensor).

    Pairs that turn more than ``beta_fast`` times in ``original_max_position`` keep theirs, those that turn
    less than ``beta_slow`` times have ``scaling_factor`` times smaller ones; between them it is blended.
    """
    size = whole("yarn: head_dim", head_dim)
    if size < 2 or size % 2:
        raise BadParam(f"yarn: head_dim must be even and positive; got {shown(head_dim)}")
    torch = _torch()
    dtype = torch.float32 if dtype is None else dtype
    kept = 1.0 / base ** (torch.arange(0, size, 2, device=device, dtype=dtype) / size)
    if scaling_factor <= 1:
        return kept
    pair = lambda turns: size * math.log(original_max_position / (turns * 2 * math.pi)) / (2 * math.log(base))
    first, last = max(math.floor(pair(beta_fast)), 0), min(math.ceil(pair(beta_slow)), size - 1)
    numbers = torch.arange(size // 2, device=device, dtype=dtype)
    share = 1.0 - ((numbers - first) / (last - first if last != first else 0.001)).clip(0.0, 1.0)
    return kept / scaling_factor * (1.0 - share) + kept * share


def compute_yarn_freqs(max_seq_len: int, head_dim: int, *, scaling_factor=1.0, mscale_factor=1.0,
                       mscale_all_dim_factor=0.0, device="cuda", dtype=None, **more):
    """(angles of ``pygraph.rope``, its ``output_scale``) for positions up to ``max_seq_len``. ``more``: as
    ``compute_yarn_inv_freq`` has it; ``mscale_all_dim_factor``: of a temperature that is divided by."""
    step = compute_yarn_inv_freq(head_dim, scaling_factor=scaling_factor, device=device, dtype=dtype, **more)
    torch, most = _torch(), whole("yarn: max_seq_len", max_seq_len)
    angles = torch.zeros((most, 1, 1, 2 * len(step)), device=device, dtype=step.dtype)
    angles[:, 0, 0, :len(step)] = torch.arange(most, device=device, dtype=step.dtype)[:, None] * step
    own, other = (yarn_get_mscale(scaling_factor, f) for f in (mscale_factor, mscale_all_dim_factor))
    return angles, own / other


def _torch():
    """torch, which a caller of tensors has."""
    try:
        import torch
    except ImportError:
        raise BadParam("yarn: torch must be installed, as the angles are its tensors; got none") from None
    return torch
