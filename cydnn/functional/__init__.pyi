# Printed by tools/print_stubs.py.

from typing import Any, Generic, Literal, Protocol, Sequence, TypeVar, overload

from ..plan import ExecutionPlan
from .function import Function as Function, forget as forget

A = TypeVar("A")
Ints = int | Sequence[int]
FUNCTIONS: dict[str, Function]

class Prepared(Generic[A]):
    """A function made ready for arrays of one layout: called with others of that layout, it runs at once.

    ``plan``: what runs. Call it with the arrays in the order of the function's arguments, those that were
    absent left out or None."""
    plan: ExecutionPlan
    def explain(self) -> str: ...
    def __call__(self, *arrays: Any, out: A | None = ...) -> A: ...

class _matmul(Protocol):
    """The matrix product, as NumPy and torch have it: batch dims broadcast; of an array of one dim it is that
    with a vector."""
    @overload
    def __call__(self, input: A, other: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """The matrix product, as NumPy and torch have it: batch dims broadcast; of an array of one dim it is that
        with a vector."""
    @overload
    def __call__(self, input: A, other: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """The matrix product, as NumPy and torch have it: batch dims broadcast; of an array of one dim it is that
        with a vector."""
    @overload
    def prepare(self, input: A, other: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
matmul: _matmul
"""The matrix product, as NumPy and torch have it: batch dims broadcast; of an array of one dim it is that
with a vector."""

class _linear(Protocol):
    """input @ weight.T + bias: input (…, k), weight (n, k), bias (n,)."""
    @overload
    def __call__(self, input: A, weight: A, bias: A | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """input @ weight.T + bias: input (…, k), weight (n, k), bias (n,)."""
    @overload
    def __call__(self, input: A, weight: A, bias: A | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, weight: A, bias: A | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """input @ weight.T + bias: input (…, k), weight (n, k), bias (n,)."""
    @overload
    def prepare(self, input: A, weight: A, bias: A | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
linear: _linear
"""input @ weight.T + bias: input (…, k), weight (n, k), bias (n,)."""

class _grouped_matmul(Protocol):
    """Rows of groups, each times the matrix of its group: the experts of a mixture.

    input (rows, k), weight (experts, k, n), offsets (experts,) of i32 or i64: the row at which each group
    begins, in rising order; the last one ends with the rows, or where one offset more says. Rows of no group
    give 0. The device reads the offsets. Offsets of a multiple of the experts: these take turns."""
    @overload
    def __call__(self, input: A, weight: A, offsets: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """Rows of groups, each times the matrix of its group: the experts of a mixture.

        input (rows, k), weight (experts, k, n), offsets (experts,) of i32 or i64: the row at which each group
        begins, in rising order; the last one ends with the rows, or where one offset more says. Rows of no group
        give 0. The device reads the offsets. Offsets of a multiple of the experts: these take turns."""
    @overload
    def __call__(self, input: A, weight: A, offsets: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, weight: A, offsets: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """Rows of groups, each times the matrix of its group: the experts of a mixture.

        input (rows, k), weight (experts, k, n), offsets (experts,) of i32 or i64: the row at which each group
        begins, in rising order; the last one ends with the rows, or where one offset more says. Rows of no group
        give 0. The device reads the offsets. Offsets of a multiple of the experts: these take turns."""
    @overload
    def prepare(self, input: A, weight: A, offsets: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
grouped_matmul: _grouped_matmul
"""Rows of groups, each times the matrix of its group: the experts of a mixture.

input (rows, k), weight (experts, k, n), offsets (experts,) of i32 or i64: the row at which each group
begins, in rising order; the last one ends with the rows, or where one offset more says. Rows of no group
give 0. The device reads the offsets. Offsets of a multiple of the experts: these take turns."""

class _conv(Protocol):
    """The convolution (cross-correlation) of images with filters, and a bias for each channel.

    input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (k, c / groups,
    window…), bias (k,).
    ``padding``: zeros at both ends, "valid" for none, "same" for a result of the input's size."""
    @overload
    def __call__(self, input: A, weight: A, bias: A | None = ..., stride: Ints = ..., padding: Ints | str = ..., dilation: Ints = ..., groups: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """The convolution (cross-correlation) of images with filters, and a bias for each channel.

        input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (k, c / groups,
        window…), bias (k,).
        ``padding``: zeros at both ends, "valid" for none, "same" for a result of the input's size."""
    @overload
    def __call__(self, input: A, weight: A, bias: A | None = ..., stride: Ints = ..., padding: Ints | str = ..., dilation: Ints = ..., groups: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, weight: A, bias: A | None = ..., stride: Ints = ..., padding: Ints | str = ..., dilation: Ints = ..., groups: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """The convolution (cross-correlation) of images with filters, and a bias for each channel.

        input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (k, c / groups,
        window…), bias (k,).
        ``padding``: zeros at both ends, "valid" for none, "same" for a result of the input's size."""
    @overload
    def prepare(self, input: A, weight: A, bias: A | None = ..., stride: Ints = ..., padding: Ints | str = ..., dilation: Ints = ..., groups: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
conv: _conv
"""The convolution (cross-correlation) of images with filters, and a bias for each channel.

input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (k, c / groups,
window…), bias (k,).
``padding``: zeros at both ends, "valid" for none, "same" for a result of the input's size."""

class _max_pool(Protocol):
    """The largest value of each window; a NaN wins. ``stride``: the window's size where it is None.
    A list ``kernel_size`` shows whether input (c, spatial…) is one image.
    ``ceil_mode``: a last window that reaches beyond the padding counts too."""
    @overload
    def __call__(self, input: A, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """The largest value of each window; a NaN wins. ``stride``: the window's size where it is None.
        A list ``kernel_size`` shows whether input (c, spatial…) is one image.
        ``ceil_mode``: a last window that reaches beyond the padding counts too."""
    @overload
    def __call__(self, input: A, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """The largest value of each window; a NaN wins. ``stride``: the window's size where it is None.
        A list ``kernel_size`` shows whether input (c, spatial…) is one image.
        ``ceil_mode``: a last window that reaches beyond the padding counts too."""
    @overload
    def prepare(self, input: A, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
max_pool: _max_pool
"""The largest value of each window; a NaN wins. ``stride``: the window's size where it is None.
A list ``kernel_size`` shows whether input (c, spatial…) is one image.
``ceil_mode``: a last window that reaches beyond the padding counts too."""

class _avg_pool(Protocol):
    """The mean of each window, in which the padding counts or does not; what lies beyond it does not.
    A list ``kernel_size`` shows whether input (c, spatial…) is one image.
    ``ceil_mode``: a last window that reaches there counts too."""
    @overload
    def __call__(self, input: A, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., count_include_pad: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """The mean of each window, in which the padding counts or does not; what lies beyond it does not.
        A list ``kernel_size`` shows whether input (c, spatial…) is one image.
        ``ceil_mode``: a last window that reaches there counts too."""
    @overload
    def __call__(self, input: A, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., count_include_pad: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., count_include_pad: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """The mean of each window, in which the padding counts or does not; what lies beyond it does not.
        A list ``kernel_size`` shows whether input (c, spatial…) is one image.
        ``ceil_mode``: a last window that reaches there counts too."""
    @overload
    def prepare(self, input: A, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., count_include_pad: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
avg_pool: _avg_pool
"""The mean of each window, in which the padding counts or does not; what lies beyond it does not.
A list ``kernel_size`` shows whether input (c, spatial…) is one image.
``ceil_mode``: a last window that reaches there counts too."""

class _softmax(Protocol):
    """exp(x) over its sum along a dim."""
    @overload
    def __call__(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """exp(x) over its sum along a dim."""
    @overload
    def __call__(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """exp(x) over its sum along a dim."""
    @overload
    def prepare(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
softmax: _softmax
"""exp(x) over its sum along a dim."""

class _log_softmax(Protocol):
    """The logarithm of the softmax along a dim."""
    @overload
    def __call__(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """The logarithm of the softmax along a dim."""
    @overload
    def __call__(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """The logarithm of the softmax along a dim."""
    @overload
    def prepare(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
log_softmax: _log_softmax
"""The logarithm of the softmax along a dim."""

class _layer_norm(Protocol):
    """weight * (x - mean) / sqrt(var + eps) + bias, with the statistics of the last dims."""
    @overload
    def __call__(self, input: A, normalized_shape: Ints, weight: A | None = ..., bias: A | None = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """weight * (x - mean) / sqrt(var + eps) + bias, with the statistics of the last dims."""
    @overload
    def __call__(self, input: A, normalized_shape: Ints, weight: A | None = ..., bias: A | None = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, normalized_shape: Ints, weight: A | None = ..., bias: A | None = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """weight * (x - mean) / sqrt(var + eps) + bias, with the statistics of the last dims."""
    @overload
    def prepare(self, input: A, normalized_shape: Ints, weight: A | None = ..., bias: A | None = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
layer_norm: _layer_norm
"""weight * (x - mean) / sqrt(var + eps) + bias, with the statistics of the last dims."""

class _rms_norm(Protocol):
    """weight * x / sqrt(mean of squares + eps), over the last dims; eps None: that of input's type."""
    @overload
    def __call__(self, input: A, normalized_shape: Ints, weight: A | None = ..., eps: float | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """weight * x / sqrt(mean of squares + eps), over the last dims; eps None: that of input's type."""
    @overload
    def __call__(self, input: A, normalized_shape: Ints, weight: A | None = ..., eps: float | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, normalized_shape: Ints, weight: A | None = ..., eps: float | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """weight * x / sqrt(mean of squares + eps), over the last dims; eps None: that of input's type."""
    @overload
    def prepare(self, input: A, normalized_shape: Ints, weight: A | None = ..., eps: float | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
rms_norm: _rms_norm
"""weight * x / sqrt(mean of squares + eps), over the last dims; eps None: that of input's type."""

class _group_norm(Protocol):
    """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each group of channels of each
    image, and a weight and a bias for each channel. input (n, c, any dims…), of which three dims have the
    last two one behind the other in memory."""
    @overload
    def __call__(self, input: A, num_groups: int, weight: A | None = ..., bias: A | None = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each group of channels of each
        image, and a weight and a bias for each channel. input (n, c, any dims…), of which three dims have the
        last two one behind the other in memory."""
    @overload
    def __call__(self, input: A, num_groups: int, weight: A | None = ..., bias: A | None = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, num_groups: int, weight: A | None = ..., bias: A | None = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each group of channels of each
        image, and a weight and a bias for each channel. input (n, c, any dims…), of which three dims have the
        last two one behind the other in memory."""
    @overload
    def prepare(self, input: A, num_groups: int, weight: A | None = ..., bias: A | None = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
group_norm: _group_norm
"""weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each group of channels of each
image, and a weight and a bias for each channel. input (n, c, any dims…), of which three dims have the
last two one behind the other in memory."""

class _instance_norm(Protocol):
    """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each channel of each image, or,
    where ``use_input_stats`` is False, with the running ones, which do not move."""
    @overload
    def __call__(self, input: A, running_mean: A | None = ..., running_var: A | None = ..., weight: A | None = ..., bias: A | None = ..., use_input_stats: bool = ..., momentum: float = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each channel of each image, or,
        where ``use_input_stats`` is False, with the running ones, which do not move."""
    @overload
    def __call__(self, input: A, running_mean: A | None = ..., running_var: A | None = ..., weight: A | None = ..., bias: A | None = ..., use_input_stats: bool = ..., momentum: float = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, running_mean: A | None = ..., running_var: A | None = ..., weight: A | None = ..., bias: A | None = ..., use_input_stats: bool = ..., momentum: float = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each channel of each image, or,
        where ``use_input_stats`` is False, with the running ones, which do not move."""
    @overload
    def prepare(self, input: A, running_mean: A | None = ..., running_var: A | None = ..., weight: A | None = ..., bias: A | None = ..., use_input_stats: bool = ..., momentum: float = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
instance_norm: _instance_norm
"""weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each channel of each image, or,
where ``use_input_stats`` is False, with the running ones, which do not move."""

class _batch_norm(Protocol):
    """weight * (x - mean) / sqrt(var + eps) + bias for each channel: with the running statistics, or, where
    ``training``, with those of the batch; running statistics that are given then move by ``momentum``."""
    @overload
    def __call__(self, input: A, running_mean: A | None, running_var: A | None, weight: A | None = ..., bias: A | None = ..., training: bool = ..., momentum: float = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """weight * (x - mean) / sqrt(var + eps) + bias for each channel: with the running statistics, or, where
        ``training``, with those of the batch; running statistics that are given then move by ``momentum``."""
    @overload
    def __call__(self, input: A, running_mean: A | None, running_var: A | None, weight: A | None = ..., bias: A | None = ..., training: bool = ..., momentum: float = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, running_mean: A | None, running_var: A | None, weight: A | None = ..., bias: A | None = ..., training: bool = ..., momentum: float = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """weight * (x - mean) / sqrt(var + eps) + bias for each channel: with the running statistics, or, where
        ``training``, with those of the batch; running statistics that are given then move by ``momentum``."""
    @overload
    def prepare(self, input: A, running_mean: A | None, running_var: A | None, weight: A | None = ..., bias: A | None = ..., training: bool = ..., momentum: float = ..., eps: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
batch_norm: _batch_norm
"""weight * (x - mean) / sqrt(var + eps) + bias for each channel: with the running statistics, or, where
``training``, with those of the batch; running statistics that are given then move by ``momentum``."""

class _local_response_norm(Protocol):
    """x / (k + alpha * the mean of squares of ``size`` neighbouring channels) ** beta."""
    @overload
    def __call__(self, input: A, size: int, alpha: float = ..., beta: float = ..., k: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x / (k + alpha * the mean of squares of ``size`` neighbouring channels) ** beta."""
    @overload
    def __call__(self, input: A, size: int, alpha: float = ..., beta: float = ..., k: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, size: int, alpha: float = ..., beta: float = ..., k: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x / (k + alpha * the mean of squares of ``size`` neighbouring channels) ** beta."""
    @overload
    def prepare(self, input: A, size: int, alpha: float = ..., beta: float = ..., k: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
local_response_norm: _local_response_norm
"""x / (k + alpha * the mean of squares of ``size`` neighbouring channels) ** beta."""

class _attention(Protocol):
    """softmax(scale * query @ key.T + mask) @ value, for every head.

    query (b, h, s_q, e), key (b, h_k, s_kv, e), value (b, h_k, s_kv, e_v), or without b. ``scale``:
    1 / sqrt(e) where it is None. ``attn_mask`` broadcasts to (b, h, s_q, s_kv): truth values say who is seen,
    others are added. ``is_causal``: a query sees the keys up to its own place. ``enable_gqa``: h_k may divide
    h. A query that sees no key gives 0. ``dropout_p``: weights are dropped by this probability, and the
    others grow; ``seed``, which must be given then, and ``offset`` say which, as in operation ``rng``:
    numbers, or arrays of one whole number."""
    @overload
    def __call__(self, query: A, key: A, value: A, attn_mask: A | None = ..., dropout_p: float = ..., is_causal: bool = ..., scale: float | None = ..., enable_gqa: bool = ..., *, seed: A | float = ..., offset: A | float = ..., out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """softmax(scale * query @ key.T + mask) @ value, for every head.

        query (b, h, s_q, e), key (b, h_k, s_kv, e), value (b, h_k, s_kv, e_v), or without b. ``scale``:
        1 / sqrt(e) where it is None. ``attn_mask`` broadcasts to (b, h, s_q, s_kv): truth values say who is seen,
        others are added. ``is_causal``: a query sees the keys up to its own place. ``enable_gqa``: h_k may divide
        h. A query that sees no key gives 0. ``dropout_p``: weights are dropped by this probability, and the
        others grow; ``seed``, which must be given then, and ``offset`` say which, as in operation ``rng``:
        numbers, or arrays of one whole number."""
    @overload
    def __call__(self, query: A, key: A, value: A, attn_mask: A | None = ..., dropout_p: float = ..., is_causal: bool = ..., scale: float | None = ..., enable_gqa: bool = ..., *, seed: A | float = ..., offset: A | float = ..., out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, query: A, key: A, value: A, attn_mask: A | None = ..., dropout_p: float = ..., is_causal: bool = ..., scale: float | None = ..., enable_gqa: bool = ..., *, seed: A | float = ..., offset: A | float = ..., out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """softmax(scale * query @ key.T + mask) @ value, for every head.

        query (b, h, s_q, e), key (b, h_k, s_kv, e), value (b, h_k, s_kv, e_v), or without b. ``scale``:
        1 / sqrt(e) where it is None. ``attn_mask`` broadcasts to (b, h, s_q, s_kv): truth values say who is seen,
        others are added. ``is_causal``: a query sees the keys up to its own place. ``enable_gqa``: h_k may divide
        h. A query that sees no key gives 0. ``dropout_p``: weights are dropped by this probability, and the
        others grow; ``seed``, which must be given then, and ``offset`` say which, as in operation ``rng``:
        numbers, or arrays of one whole number."""
    @overload
    def prepare(self, query: A, key: A, value: A, attn_mask: A | None = ..., dropout_p: float = ..., is_causal: bool = ..., scale: float | None = ..., enable_gqa: bool = ..., *, seed: A | float = ..., offset: A | float = ..., out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
attention: _attention
"""softmax(scale * query @ key.T + mask) @ value, for every head.

query (b, h, s_q, e), key (b, h_k, s_kv, e), value (b, h_k, s_kv, e_v), or without b. ``scale``:
1 / sqrt(e) where it is None. ``attn_mask`` broadcasts to (b, h, s_q, s_kv): truth values say who is seen,
others are added. ``is_causal``: a query sees the keys up to its own place. ``enable_gqa``: h_k may divide
h. A query that sees no key gives 0. ``dropout_p``: weights are dropped by this probability, and the
others grow; ``seed``, which must be given then, and ``offset`` say which, as in operation ``rng``:
numbers, or arrays of one whole number."""

class _hardtanh(Protocol):
    """x, not below ``min_val`` and not above ``max_val``."""
    @overload
    def __call__(self, input: A, min_val: float = ..., max_val: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x, not below ``min_val`` and not above ``max_val``."""
    @overload
    def __call__(self, input: A, min_val: float = ..., max_val: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, min_val: float = ..., max_val: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x, not below ``min_val`` and not above ``max_val``."""
    @overload
    def prepare(self, input: A, min_val: float = ..., max_val: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
hardtanh: _hardtanh
"""x, not below ``min_val`` and not above ``max_val``."""

class _relu6(Protocol):
    """x, not below 0 and not above 6."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x, not below 0 and not above 6."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x, not below 0 and not above 6."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
relu6: _relu6
"""x, not below 0 and not above 6."""

class _hardsigmoid(Protocol):
    """(x + 3) / 6, not below 0 and not above 1."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """(x + 3) / 6, not below 0 and not above 1."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """(x + 3) / 6, not below 0 and not above 1."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
hardsigmoid: _hardsigmoid
"""(x + 3) / 6, not below 0 and not above 1."""

class _hardswish(Protocol):
    """x times its hardsigmoid."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x times its hardsigmoid."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x times its hardsigmoid."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
hardswish: _hardswish
"""x times its hardsigmoid."""

class _mish(Protocol):
    """x * tanh(softplus(x))."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x * tanh(softplus(x))."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x * tanh(softplus(x))."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
mish: _mish
"""x * tanh(softplus(x))."""

class _selu(Protocol):
    """scale * elu(x, alpha), of the numbers that keep mean and variance."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """scale * elu(x, alpha), of the numbers that keep mean and variance."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """scale * elu(x, alpha), of the numbers that keep mean and variance."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
selu: _selu
"""scale * elu(x, alpha), of the numbers that keep mean and variance."""

class _celu(Protocol):
    """x above 0, alpha * (exp(x / alpha) - 1) below."""
    @overload
    def __call__(self, input: A, alpha: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x above 0, alpha * (exp(x / alpha) - 1) below."""
    @overload
    def __call__(self, input: A, alpha: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, alpha: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x above 0, alpha * (exp(x / alpha) - 1) below."""
    @overload
    def prepare(self, input: A, alpha: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
celu: _celu
"""x above 0, alpha * (exp(x / alpha) - 1) below."""

class _logsigmoid(Protocol):
    """The logarithm of the sigmoid."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """The logarithm of the sigmoid."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """The logarithm of the sigmoid."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
logsigmoid: _logsigmoid
"""The logarithm of the sigmoid."""

class _softsign(Protocol):
    """x / (1 + |x|)."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x / (1 + |x|)."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x / (1 + |x|)."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
softsign: _softsign
"""x / (1 + |x|)."""

class _tanhshrink(Protocol):
    """x - tanh(x)."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x - tanh(x)."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x - tanh(x)."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
tanhshrink: _tanhshrink
"""x - tanh(x)."""

class _softshrink(Protocol):
    """x less ``lambd`` toward 0, and 0 where it is nearer."""
    @overload
    def __call__(self, input: A, lambd: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x less ``lambd`` toward 0, and 0 where it is nearer."""
    @overload
    def __call__(self, input: A, lambd: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, lambd: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x less ``lambd`` toward 0, and 0 where it is nearer."""
    @overload
    def prepare(self, input: A, lambd: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
softshrink: _softshrink
"""x less ``lambd`` toward 0, and 0 where it is nearer."""

class _hardshrink(Protocol):
    """x where it is further than ``lambd`` from 0, else 0."""
    @overload
    def __call__(self, input: A, lambd: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x where it is further than ``lambd`` from 0, else 0."""
    @overload
    def __call__(self, input: A, lambd: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, lambd: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x where it is further than ``lambd`` from 0, else 0."""
    @overload
    def prepare(self, input: A, lambd: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
hardshrink: _hardshrink
"""x where it is further than ``lambd`` from 0, else 0."""

class _threshold(Protocol):
    """x above the threshold, else ``value``; NaN stays."""
    @overload
    def __call__(self, input: A, threshold: float, value: float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x above the threshold, else ``value``; NaN stays."""
    @overload
    def __call__(self, input: A, threshold: float, value: float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, threshold: float, value: float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x above the threshold, else ``value``; NaN stays."""
    @overload
    def prepare(self, input: A, threshold: float, value: float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
threshold: _threshold
"""x above the threshold, else ``value``; NaN stays."""

class _prelu(Protocol):
    """x above 0, weight * x below: weight (1,), or (c,) for input (n, c, …)."""
    @overload
    def __call__(self, input: A, weight: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x above 0, weight * x below: weight (1,), or (c,) for input (n, c, …)."""
    @overload
    def __call__(self, input: A, weight: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, weight: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x above 0, weight * x below: weight (1,), or (c,) for input (n, c, …)."""
    @overload
    def prepare(self, input: A, weight: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
prelu: _prelu
"""x above 0, weight * x below: weight (1,), or (c,) for input (n, c, …)."""

class _softmin(Protocol):
    """exp(-x) over its sum along a dim."""
    @overload
    def __call__(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """exp(-x) over its sum along a dim."""
    @overload
    def __call__(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """exp(-x) over its sum along a dim."""
    @overload
    def prepare(self, input: A, dim: int = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
softmin: _softmin
"""exp(-x) over its sum along a dim."""

class _dropout(Protocol):
    """x / (1 - p) where it is kept, else 0; x where ``training`` is False. ``p``: the probability that an
    element is dropped; ``seed``, which must be given then, and ``offset`` say which, as in operation
    ``rng``: numbers, or arrays of one whole number."""
    @overload
    def __call__(self, input: A, p: float = ..., training: bool = ..., *, seed: A | float = ..., offset: A | float = ..., out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x / (1 - p) where it is kept, else 0; x where ``training`` is False. ``p``: the probability that an
        element is dropped; ``seed``, which must be given then, and ``offset`` say which, as in operation
        ``rng``: numbers, or arrays of one whole number."""
    @overload
    def __call__(self, input: A, p: float = ..., training: bool = ..., *, seed: A | float = ..., offset: A | float = ..., out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, p: float = ..., training: bool = ..., *, seed: A | float = ..., offset: A | float = ..., out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x / (1 - p) where it is kept, else 0; x where ``training`` is False. ``p``: the probability that an
        element is dropped; ``seed``, which must be given then, and ``offset`` say which, as in operation
        ``rng``: numbers, or arrays of one whole number."""
    @overload
    def prepare(self, input: A, p: float = ..., training: bool = ..., *, seed: A | float = ..., offset: A | float = ..., out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
dropout: _dropout
"""x / (1 - p) where it is kept, else 0; x where ``training`` is False. ``p``: the probability that an
element is dropped; ``seed``, which must be given then, and ``offset`` say which, as in operation
``rng``: numbers, or arrays of one whole number."""

class _conv_transpose(Protocol):
    """The transposed convolution: the adjoint of ``conv``, and a bias for each channel.

    input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (c, k / groups,
    window…), bias (k,), result
    (n, k, (i - 1) * stride - 2 * padding + dilation * (r - 1) + output_padding + 1, …)."""
    @overload
    def __call__(self, input: A, weight: A, bias: A | None = ..., stride: Ints = ..., padding: Ints = ..., output_padding: Ints = ..., groups: int = ..., dilation: Ints = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """The transposed convolution: the adjoint of ``conv``, and a bias for each channel.

        input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (c, k / groups,
        window…), bias (k,), result
        (n, k, (i - 1) * stride - 2 * padding + dilation * (r - 1) + output_padding + 1, …)."""
    @overload
    def __call__(self, input: A, weight: A, bias: A | None = ..., stride: Ints = ..., padding: Ints = ..., output_padding: Ints = ..., groups: int = ..., dilation: Ints = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, weight: A, bias: A | None = ..., stride: Ints = ..., padding: Ints = ..., output_padding: Ints = ..., groups: int = ..., dilation: Ints = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """The transposed convolution: the adjoint of ``conv``, and a bias for each channel.

        input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (c, k / groups,
        window…), bias (k,), result
        (n, k, (i - 1) * stride - 2 * padding + dilation * (r - 1) + output_padding + 1, …)."""
    @overload
    def prepare(self, input: A, weight: A, bias: A | None = ..., stride: Ints = ..., padding: Ints = ..., output_padding: Ints = ..., groups: int = ..., dilation: Ints = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
conv_transpose: _conv_transpose
"""The transposed convolution: the adjoint of ``conv``, and a bias for each channel.

input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (c, k / groups,
window…), bias (k,), result
(n, k, (i - 1) * stride - 2 * padding + dilation * (r - 1) + output_padding + 1, …)."""

class _adaptive_avg_pool(Protocol):
    """The means of as many windows as the result has cells, all of one size. ``output_size``: None in a list
    for a dim that stays; a list shows whether input (c, spatial…) is one image."""
    @overload
    def __call__(self, input: A, output_size: Ints, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """The means of as many windows as the result has cells, all of one size. ``output_size``: None in a list
        for a dim that stays; a list shows whether input (c, spatial…) is one image."""
    @overload
    def __call__(self, input: A, output_size: Ints, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, output_size: Ints, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """The means of as many windows as the result has cells, all of one size. ``output_size``: None in a list
        for a dim that stays; a list shows whether input (c, spatial…) is one image."""
    @overload
    def prepare(self, input: A, output_size: Ints, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
adaptive_avg_pool: _adaptive_avg_pool
"""The means of as many windows as the result has cells, all of one size. ``output_size``: None in a list
for a dim that stays; a list shows whether input (c, spatial…) is one image."""

class _adaptive_max_pool(Protocol):
    """The largest value of as many windows as the result has cells, all of one size; a NaN wins. A list
    ``output_size`` shows whether input (c, spatial…) is one image."""
    @overload
    def __call__(self, input: A, output_size: Ints, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """The largest value of as many windows as the result has cells, all of one size; a NaN wins. A list
        ``output_size`` shows whether input (c, spatial…) is one image."""
    @overload
    def __call__(self, input: A, output_size: Ints, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, output_size: Ints, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """The largest value of as many windows as the result has cells, all of one size; a NaN wins. A list
        ``output_size`` shows whether input (c, spatial…) is one image."""
    @overload
    def prepare(self, input: A, output_size: Ints, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
adaptive_max_pool: _adaptive_max_pool
"""The largest value of as many windows as the result has cells, all of one size; a NaN wins. A list
``output_size`` shows whether input (c, spatial…) is one image."""

class _interpolate(Protocol):
    """Images of another size: input (n, c, spatial…) of 1 to 3 spatial dims.

    ``mode``: "nearest"; "area", means as of ``adaptive_avg_pool``; or between neighbours "linear",
    "bilinear", "trilinear", for 1, 2, 3 spatial dims.
    ``align_corners``: the middles of the corners' cells stay where they are, else the corners of the image.
    Places are exact fractions, not rounded to f32."""
    @overload
    def __call__(self, input: A, size: Ints | None = ..., scale_factor: float | None = ..., mode: str = ..., align_corners: bool | None = ..., recompute_scale_factor: bool | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """Images of another size: input (n, c, spatial…) of 1 to 3 spatial dims.

        ``mode``: "nearest"; "area", means as of ``adaptive_avg_pool``; or between neighbours "linear",
        "bilinear", "trilinear", for 1, 2, 3 spatial dims.
        ``align_corners``: the middles of the corners' cells stay where they are, else the corners of the image.
        Places are exact fractions, not rounded to f32."""
    @overload
    def __call__(self, input: A, size: Ints | None = ..., scale_factor: float | None = ..., mode: str = ..., align_corners: bool | None = ..., recompute_scale_factor: bool | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, size: Ints | None = ..., scale_factor: float | None = ..., mode: str = ..., align_corners: bool | None = ..., recompute_scale_factor: bool | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """Images of another size: input (n, c, spatial…) of 1 to 3 spatial dims.

        ``mode``: "nearest"; "area", means as of ``adaptive_avg_pool``; or between neighbours "linear",
        "bilinear", "trilinear", for 1, 2, 3 spatial dims.
        ``align_corners``: the middles of the corners' cells stay where they are, else the corners of the image.
        Places are exact fractions, not rounded to f32."""
    @overload
    def prepare(self, input: A, size: Ints | None = ..., scale_factor: float | None = ..., mode: str = ..., align_corners: bool | None = ..., recompute_scale_factor: bool | None = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
interpolate: _interpolate
"""Images of another size: input (n, c, spatial…) of 1 to 3 spatial dims.

``mode``: "nearest"; "area", means as of ``adaptive_avg_pool``; or between neighbours "linear",
"bilinear", "trilinear", for 1, 2, 3 spatial dims.
``align_corners``: the middles of the corners' cells stay where they are, else the corners of the image.
Places are exact fractions, not rounded to f32."""

class _abs(Protocol):
    """abs of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """abs of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """abs of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
abs: _abs
"""abs of every element."""

class _neg(Protocol):
    """neg of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """neg of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """neg of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
neg: _neg
"""neg of every element."""

class _ceil(Protocol):
    """ceil of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """ceil of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """ceil of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
ceil: _ceil
"""ceil of every element."""

class _floor(Protocol):
    """floor of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """floor of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """floor of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
floor: _floor
"""floor of every element."""

class _sqrt(Protocol):
    """sqrt of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """sqrt of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """sqrt of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
sqrt: _sqrt
"""sqrt of every element."""

class _rsqrt(Protocol):
    """rsqrt of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """rsqrt of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """rsqrt of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
rsqrt: _rsqrt
"""rsqrt of every element."""

class _reciprocal(Protocol):
    """reciprocal of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """reciprocal of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """reciprocal of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
reciprocal: _reciprocal
"""reciprocal of every element."""

class _exp(Protocol):
    """exp of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """exp of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """exp of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
exp: _exp
"""exp of every element."""

class _log(Protocol):
    """log of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """log of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """log of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
log: _log
"""log of every element."""

class _sin(Protocol):
    """sin of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """sin of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """sin of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
sin: _sin
"""sin of every element."""

class _cos(Protocol):
    """cos of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """cos of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """cos of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
cos: _cos
"""cos of every element."""

class _tan(Protocol):
    """tan of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """tan of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """tan of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
tan: _tan
"""tan of every element."""

class _erf(Protocol):
    """erf of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """erf of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """erf of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
erf: _erf
"""erf of every element."""

class _sigmoid(Protocol):
    """sigmoid of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """sigmoid of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """sigmoid of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
sigmoid: _sigmoid
"""sigmoid of every element."""

class _tanh(Protocol):
    """tanh of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """tanh of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """tanh of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
tanh: _tanh
"""tanh of every element."""

class _relu(Protocol):
    """relu of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """relu of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """relu of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
relu: _relu
"""relu of every element."""

class _silu(Protocol):
    """swish of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """swish of every element."""
    @overload
    def __call__(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """swish of every element."""
    @overload
    def prepare(self, input: A, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
silu: _silu
"""swish of every element."""

class _add(Protocol):
    """add of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """add of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """add of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
add: _add
"""add of two arrays, or of an array and a number, element by element with broadcast."""

class _sub(Protocol):
    """sub of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """sub of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """sub of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
sub: _sub
"""sub of two arrays, or of an array and a number, element by element with broadcast."""

class _mul(Protocol):
    """mul of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """mul of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """mul of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
mul: _mul
"""mul of two arrays, or of an array and a number, element by element with broadcast."""

class _div(Protocol):
    """div of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """div of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """div of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
div: _div
"""div of two arrays, or of an array and a number, element by element with broadcast."""

class _pow(Protocol):
    """pow of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """pow of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """pow of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
pow: _pow
"""pow of two arrays, or of an array and a number, element by element with broadcast."""

class _atan2(Protocol):
    """atan2 of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """atan2 of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """atan2 of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
atan2: _atan2
"""atan2 of two arrays, or of an array and a number, element by element with broadcast."""

class _fmod(Protocol):
    """mod of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """mod of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """mod of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
fmod: _fmod
"""mod of two arrays, or of an array and a number, element by element with broadcast."""

class _maximum(Protocol):
    """max of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """max of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """max of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
maximum: _maximum
"""max of two arrays, or of an array and a number, element by element with broadcast."""

class _minimum(Protocol):
    """min of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """min of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """min of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
minimum: _minimum
"""min of two arrays, or of an array and a number, element by element with broadcast."""

class _eq(Protocol):
    """eq of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """eq of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """eq of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
eq: _eq
"""eq of two arrays, or of an array and a number, element by element with broadcast."""

class _ne(Protocol):
    """neq of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """neq of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """neq of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
ne: _ne
"""neq of two arrays, or of an array and a number, element by element with broadcast."""

class _gt(Protocol):
    """gt of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """gt of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """gt of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
gt: _gt
"""gt of two arrays, or of an array and a number, element by element with broadcast."""

class _ge(Protocol):
    """ge of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """ge of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """ge of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
ge: _ge
"""ge of two arrays, or of an array and a number, element by element with broadcast."""

class _lt(Protocol):
    """lt of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """lt of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """lt of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
lt: _lt
"""lt of two arrays, or of an array and a number, element by element with broadcast."""

class _le(Protocol):
    """le of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """le of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def __call__(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """le of two arrays, or of an array and a number, element by element with broadcast."""
    @overload
    def prepare(self, input: A, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
le: _le
"""le of two arrays, or of an array and a number, element by element with broadcast."""

class _sum(Protocol):
    """add over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """add over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """add over one dim, some, or all of them."""
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
sum: _sum
"""add over one dim, some, or all of them."""

class _mean(Protocol):
    """avg over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """avg over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """avg over one dim, some, or all of them."""
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
mean: _mean
"""avg over one dim, some, or all of them."""

class _amax(Protocol):
    """max over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """max over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """max over one dim, some, or all of them."""
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
amax: _amax
"""max over one dim, some, or all of them."""

class _amin(Protocol):
    """min over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """min over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """min over one dim, some, or all of them."""
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
amin: _amin
"""min over one dim, some, or all of them."""

class _prod(Protocol):
    """mul over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """mul over one dim, some, or all of them."""
    @overload
    def __call__(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """mul over one dim, some, or all of them."""
    @overload
    def prepare(self, input: A, dim: Ints | None = ..., keepdim: bool = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
prod: _prod
"""mul over one dim, some, or all of them."""

class _gelu(Protocol):
    """x times the normal distribution's share below x; ``approximate`` "tanh": by a tanh."""
    @overload
    def __call__(self, input: A, approximate: str = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x times the normal distribution's share below x; ``approximate`` "tanh": by a tanh."""
    @overload
    def __call__(self, input: A, approximate: str = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, approximate: str = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x times the normal distribution's share below x; ``approximate`` "tanh": by a tanh."""
    @overload
    def prepare(self, input: A, approximate: str = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
gelu: _gelu
"""x times the normal distribution's share below x; ``approximate`` "tanh": by a tanh."""

class _elu(Protocol):
    """x above 0, alpha * (exp(x) - 1) below."""
    @overload
    def __call__(self, input: A, alpha: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x above 0, alpha * (exp(x) - 1) below."""
    @overload
    def __call__(self, input: A, alpha: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, alpha: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x above 0, alpha * (exp(x) - 1) below."""
    @overload
    def prepare(self, input: A, alpha: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
elu: _elu
"""x above 0, alpha * (exp(x) - 1) below."""

class _leaky_relu(Protocol):
    """x above 0, negative_slope * x below."""
    @overload
    def __call__(self, input: A, negative_slope: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """x above 0, negative_slope * x below."""
    @overload
    def __call__(self, input: A, negative_slope: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, negative_slope: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """x above 0, negative_slope * x below."""
    @overload
    def prepare(self, input: A, negative_slope: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
leaky_relu: _leaky_relu
"""x above 0, negative_slope * x below."""

class _softplus(Protocol):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    @overload
    def __call__(self, input: A, beta: float = ..., threshold: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    @overload
    def __call__(self, input: A, beta: float = ..., threshold: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, input: A, beta: float = ..., threshold: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    @overload
    def prepare(self, input: A, beta: float = ..., threshold: float = ..., *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
softplus: _softplus
"""log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""

class _where(Protocol):
    """input where the condition is not 0, else other. One of the two may be a number; both where ``dtype`` is
    given."""
    @overload
    def __call__(self, condition: A, input: A | float, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> A:
        """input where the condition is not 0, else other. One of the two may be a number; both where ``dtype`` is
        given."""
    @overload
    def __call__(self, condition: A, input: A | float, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
    @overload
    def prepare(self, condition: A, input: A | float, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[False] = ...) -> Prepared[A]:
        """input where the condition is not 0, else other. One of the two may be a number; both where ``dtype`` is
        given."""
    @overload
    def prepare(self, condition: A, input: A | float, other: A | float, *, out: A | None = ..., dtype: Any = ..., device: Any = ..., explain: Literal[True]) -> str: ...
where: _where
"""input where the condition is not 0, else other. One of the two may be a number; both where ``dtype`` is
given."""
