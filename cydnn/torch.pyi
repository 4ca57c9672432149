# Printed by tools/print_stubs.py.

from typing import Any, ContextManager, Sequence

from torch import Tensor

Ints = int | Sequence[int]

def conv(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: Ints = ..., padding: Ints | str = ..., dilation: Ints = ..., groups: int = ..., *, dtype: Any = ...) -> Tensor:
    """The convolution (cross-correlation) of images with filters, and a bias for each channel.

    input (n, c, spatial…) of 1 to 3 spatial dims, weight (k, c / groups, window…), bias (k,).
    ``padding``: zeros at both ends, "valid" for none, "same" for a result of the input's size."""
def matmul(input: Tensor, other: Tensor, *, dtype: Any = ...) -> Tensor:
    """The matrix product, as NumPy and torch have it: batch dims broadcast; of an array of one dim it is that
    with a vector."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = ..., *, dtype: Any = ...) -> Tensor:
    """input @ weight.T + bias: input (…, k), weight (n, k), bias (n,)."""
def max_pool(input: Tensor, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., *, dtype: Any = ...) -> Tensor:
    """The largest value of each window; a NaN wins. ``stride``: the window's size where it is None."""
def avg_pool(input: Tensor, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., count_include_pad: bool = ..., *, dtype: Any = ...) -> Tensor:
    """The mean of each window, in which the padding counts or does not."""
def softmax(input: Tensor, dim: int = ..., *, dtype: Any = ...) -> Tensor:
    """exp(x) over its sum along a dim."""
def log_softmax(input: Tensor, dim: int = ..., *, dtype: Any = ...) -> Tensor:
    """The logarithm of the softmax along a dim."""
def layer_norm(input: Tensor, normalized_shape: Ints, weight: Tensor | None = ..., bias: Tensor | None = ..., eps: float = ..., *, dtype: Any = ...) -> Tensor:
    """weight * (x - mean) / sqrt(var + eps) + bias, with the statistics of the last dims."""
def rms_norm(input: Tensor, normalized_shape: Ints, weight: Tensor | None = ..., eps: float | None = ..., *, dtype: Any = ...) -> Tensor:
    """weight * x / sqrt(mean of squares + eps), over the last dims; eps None: that of input's type."""
def instance_norm(input: Tensor, *, weight: Tensor | None = ..., bias: Tensor | None = ..., eps: float = ..., dtype: Any = ...) -> Tensor:
    """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each channel of each image."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = ..., bias: Tensor | None = ..., training: bool = ..., momentum: float = ..., eps: float = ..., *, dtype: Any = ...) -> Tensor:
    """weight * (x - mean) / sqrt(var + eps) + bias for each channel: with the running statistics, or, where
    ``training``, with those of the batch; running statistics that are given then move by ``momentum``."""
def local_response_norm(input: Tensor, size: int, alpha: float = ..., beta: float = ..., k: float = ..., *, dtype: Any = ...) -> Tensor:
    """x / (k + alpha * the mean of squares of ``size`` neighbouring channels) ** beta."""
def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = ..., dropout_p: float = ..., is_causal: bool = ..., scale: float | None = ..., enable_gqa: bool = ..., *, seed: Tensor | float = ..., offset: Tensor | float = ..., dtype: Any = ...) -> Tensor:
    """softmax(scale * query @ key.T + mask) @ value, for every head.

    query (b, h, s_q, e), key (b, h_k, s_kv, e), value (b, h_k, s_kv, e_v), or without b. ``scale``:
    1 / sqrt(e) where it is None. ``attn_mask`` broadcasts to (b, h, s_q, s_kv): truth values say who is seen,
    others are added. ``is_causal``: a query sees the keys up to its own place. ``enable_gqa``: h_k may divide
    h. A query that sees no key gives 0. ``dropout_p``: weights are dropped by this probability, and the
    others grow; ``seed``, which must be given then, and ``offset`` say which, as in operation ``rng``."""
def abs(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """abs of every element."""
def neg(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """neg of every element."""
def ceil(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """ceil of every element."""
def floor(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """floor of every element."""
def sqrt(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """sqrt of every element."""
def rsqrt(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """rsqrt of every element."""
def reciprocal(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """reciprocal of every element."""
def exp(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """exp of every element."""
def log(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """log of every element."""
def sin(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """sin of every element."""
def cos(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """cos of every element."""
def tan(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """tan of every element."""
def erf(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """erf of every element."""
def sigmoid(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """sigmoid of every element."""
def tanh(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """tanh of every element."""
def relu(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """relu of every element."""
def silu(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """swish of every element."""
def add(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """add of two arrays, or of an array and a number, element by element with broadcast."""
def sub(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """sub of two arrays, or of an array and a number, element by element with broadcast."""
def mul(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """mul of two arrays, or of an array and a number, element by element with broadcast."""
def div(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """div of two arrays, or of an array and a number, element by element with broadcast."""
def pow(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """pow of two arrays, or of an array and a number, element by element with broadcast."""
def atan2(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """atan2 of two arrays, or of an array and a number, element by element with broadcast."""
def fmod(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """mod of two arrays, or of an array and a number, element by element with broadcast."""
def maximum(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """max of two arrays, or of an array and a number, element by element with broadcast."""
def minimum(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """min of two arrays, or of an array and a number, element by element with broadcast."""
def eq(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """eq of two arrays, or of an array and a number, element by element with broadcast."""
def ne(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """neq of two arrays, or of an array and a number, element by element with broadcast."""
def gt(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """gt of two arrays, or of an array and a number, element by element with broadcast."""
def ge(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """ge of two arrays, or of an array and a number, element by element with broadcast."""
def lt(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """lt of two arrays, or of an array and a number, element by element with broadcast."""
def le(input: Tensor, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """le of two arrays, or of an array and a number, element by element with broadcast."""
def sum(input: Tensor, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Tensor:
    """add over one dim, some, or all of them."""
def mean(input: Tensor, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Tensor:
    """avg over one dim, some, or all of them."""
def amax(input: Tensor, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Tensor:
    """max over one dim, some, or all of them."""
def amin(input: Tensor, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Tensor:
    """min over one dim, some, or all of them."""
def prod(input: Tensor, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Tensor:
    """mul over one dim, some, or all of them."""
def gelu(input: Tensor, approximate: str = ..., *, dtype: Any = ...) -> Tensor:
    """x times the normal distribution's share below x; ``approximate`` "tanh": by a tanh."""
def elu(input: Tensor, alpha: float = ..., *, dtype: Any = ...) -> Tensor:
    """x above 0, alpha * (exp(x) - 1) below."""
def leaky_relu(input: Tensor, negative_slope: float = ..., *, dtype: Any = ...) -> Tensor:
    """x above 0, negative_slope * x below."""
def softplus(input: Tensor, beta: float = ..., *, dtype: Any = ...) -> Tensor:
    """log(1 + exp(beta * x)) / beta."""
def where(condition: Tensor, input: Tensor, other: Tensor, *, dtype: Any = ...) -> Tensor:
    """input where the condition is not 0, else other."""
def replaced() -> ContextManager[None]:
    """Inside, functions of torch.nn.functional that ours stand for are ours."""
def report(reset: bool = ...) -> str:
    """How often replaced() called what; what went to torch, with the reason."""
