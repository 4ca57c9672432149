"""Sliding windows: output sizes, strided views and sums, shared by references."""
from __future__ import annotations

import numpy as np


def window_out(sizes, window, pre_pad, post_pad, stride, dilation) -> tuple:
    """Output size of each spatial dim: (i + pre + post - dilation*(r-1) - 1) // stride + 1; may be < 1."""
    return tuple((i + a + b - d * (r - 1) - 1) // s + 1
                 for i, r, a, b, s, d in zip(sizes, window, pre_pad, post_pad, stride, dilation))


def padded(x, pre_pad, post_pad, fill=0.0):
    """x with its spatial dims padded; negative room at the end is cut by ``views``."""
    return np.pad(x, [(0, 0), (0, 0), *zip(pre_pad, post_pad)], constant_values=fill)


def views(x_padded, out, window, stride, dilation):
    """Yield (tap index, view of shape (n, c, *out)) for every tap of the window, in row-major order."""
    for tap in np.ndindex(*window):
        cut = tuple(slice(t * d, t * d + s * (o - 1) + 1, s)
                    for t, d, s, o in zip(tap, dilation, stride, out))
        yield tap, x_padded[(slice(None), slice(None), *cut)]


def neighbours(window: int) -> tuple:
    """(cells behind, cells ahead) of a window around a cell; an even one reaches one further ahead."""
    return (window - 1) // 2, window // 2


def window_sum(x, axis: int, behind: int, ahead: int):
    """Sums of x over i - behind to i + ahead of one dim, cut at the ends."""
    room = np.pad(x, [(behind, ahead) if a == axis else (0, 0) for a in range(x.ndim)])
    before = (slice(None),) * axis
    return sum(room[(*before, slice(k, k + x.shape[axis]))] for k in range(behind + ahead + 1))
