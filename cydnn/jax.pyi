# Printed by tools/print_stubs.py.

from typing import Any, ContextManager, Sequence

from jax import Array

Ints = int | Sequence[int]

def matmul(input: Array, other: Array, *, dtype: Any = ...) -> Array:
    """The matrix product, as NumPy and torch have it: batch dims broadcast; of an array of one dim it is that
    with a vector."""
def linear(input: Array, weight: Array, bias: Array | None = ..., *, dtype: Any = ...) -> Array:
    """input @ weight.T + bias: input (…, k), weight (n, k), bias (n,)."""
def grouped_matmul(input: Array, weight: Array, offsets: Array, *, dtype: Any = ...) -> Array:
    """Rows of groups, each times the matrix of its group: the experts of a mixture.

    input (rows, k), weight (experts, k, n), offsets (experts,) of i32 or i64: the row at which each group
    begins, in rising order; the last one ends with the rows, or where one offset more says. Rows of no group
    give 0. The device reads the offsets. Offsets of a multiple of the experts: these take turns."""
def conv(input: Array, weight: Array, bias: Array | None = ..., stride: Ints = ..., padding: Ints | str = ..., dilation: Ints = ..., groups: int = ..., *, dtype: Any = ...) -> Array:
    """The convolution (cross-correlation) of images with filters, and a bias for each channel.

    input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (k, c / groups,
    window…), bias (k,).
    ``padding``: zeros at both ends, "valid" for none, "same" for a result of the input's size."""
def max_pool(input: Array, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., *, dtype: Any = ...) -> Array:
    """The largest value of each window; a NaN wins. ``stride``: the window's size where it is None.
    A list ``kernel_size`` shows whether input (c, spatial…) is one image.
    ``ceil_mode``: a last window that reaches beyond the padding counts too."""
def avg_pool(input: Array, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., count_include_pad: bool = ..., *, dtype: Any = ...) -> Array:
    """The mean of each window, in which the padding counts or does not; what lies beyond it does not.
    A list ``kernel_size`` shows whether input (c, spatial…) is one image.
    ``ceil_mode``: a last window that reaches there counts too."""
def softmax(input: Array, dim: int = ..., *, dtype: Any = ...) -> Array:
    """exp(x) over its sum along a dim."""
def log_softmax(input: Array, dim: int = ..., *, dtype: Any = ...) -> Array:
    """The logarithm of the softmax along a dim."""
def layer_norm(input: Array, normalized_shape: Ints, weight: Array | None = ..., bias: Array | None = ..., eps: float = ..., *, dtype: Any = ...) -> Array:
    """weight * (x - mean) / sqrt(var + eps) + bias, with the statistics of the last dims."""
def rms_norm(input: Array, normalized_shape: Ints, weight: Array | None = ..., eps: float | None = ..., *, dtype: Any = ...) -> Array:
    """weight * x / sqrt(mean of squares + eps), over the last dims; eps None: that of input's type."""
def group_norm(input: Array, num_groups: int, weight: Array | None = ..., bias: Array | None = ..., eps: float = ..., *, dtype: Any = ...) -> Array:
    """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each group of channels of each
    image, and a weight and a bias for each channel. input (n, c, any dims…), of which three dims have the
    last two one behind the other in memory."""
def instance_norm(input: Array, running_mean: Array | None = ..., running_var: Array | None = ..., weight: Array | None = ..., bias: Array | None = ..., use_input_stats: bool = ..., momentum: float = ..., eps: float = ..., *, dtype: Any = ...) -> Array:
    """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each channel of each image, or,
    where ``use_input_stats`` is False, with the running ones, which do not move."""
def batch_norm(input: Array, running_mean: Array | None, running_var: Array | None, weight: Array | None = ..., bias: Array | None = ..., training: bool = ..., momentum: float = ..., eps: float = ..., *, dtype: Any = ...) -> Array:
    """weight * (x - mean) / sqrt(var + eps) + bias for each channel: with the running statistics, or, where
    ``training``, with those of the batch; running statistics that are given then move by ``momentum``."""
def local_response_norm(input: Array, size: int, alpha: float = ..., beta: float = ..., k: float = ..., *, dtype: Any = ...) -> Array:
    """x / (k + alpha * the mean of squares of ``size`` neighbouring channels) ** beta."""
def attention(query: Array, key: Array, value: Array, attn_mask: Array | None = ..., dropout_p: float = ..., is_causal: bool = ..., scale: float | None = ..., enable_gqa: bool = ..., *, seed: Array | float = ..., offset: Array | float = ..., dtype: Any = ...) -> Array:
    """softmax(scale * query @ key.T + mask) @ value, for every head.

    query (b, h, s_q, e), key (b, h_k, s_kv, e), value (b, h_k, s_kv, e_v), or without b. ``scale``:
    1 / sqrt(e) where it is None. ``attn_mask`` broadcasts to (b, h, s_q, s_kv): truth values say who is seen,
    others are added. ``is_causal``: a query sees the keys up to its own place. ``enable_gqa``: h_k may divide
    h. A query that sees no key gives 0. ``dropout_p``: weights are dropped by this probability, and the
    others grow; ``seed``, which must be given then, and ``offset`` say which, as in operation ``rng``:
    numbers, or arrays of one whole number."""
def hardtanh(input: Array, min_val: float = ..., max_val: float = ..., *, dtype: Any = ...) -> Array:
    """x, not below ``min_val`` and not above ``max_val``."""
def relu6(input: Array, *, dtype: Any = ...) -> Array:
    """x, not below 0 and not above 6."""
def hardsigmoid(input: Array, *, dtype: Any = ...) -> Array:
    """(x + 3) / 6, not below 0 and not above 1."""
def hardswish(input: Array, *, dtype: Any = ...) -> Array:
    """x times its hardsigmoid."""
def mish(input: Array, *, dtype: Any = ...) -> Array:
    """x * tanh(softplus(x))."""
def selu(input: Array, *, dtype: Any = ...) -> Array:
    """scale * elu(x, alpha), of the numbers that keep mean and variance."""
def celu(input: Array, alpha: float = ..., *, dtype: Any = ...) -> Array:
    """x above 0, alpha * (exp(x / alpha) - 1) below."""
def logsigmoid(input: Array, *, dtype: Any = ...) -> Array:
    """The logarithm of the sigmoid."""
def softsign(input: Array, *, dtype: Any = ...) -> Array:
    """x / (1 + |x|)."""
def tanhshrink(input: Array, *, dtype: Any = ...) -> Array:
    """x - tanh(x)."""
def softshrink(input: Array, lambd: float = ..., *, dtype: Any = ...) -> Array:
    """x less ``lambd`` toward 0, and 0 where it is nearer."""
def hardshrink(input: Array, lambd: float = ..., *, dtype: Any = ...) -> Array:
    """x where it is further than ``lambd`` from 0, else 0."""
def threshold(input: Array, threshold: float, value: float, *, dtype: Any = ...) -> Array:
    """x above the threshold, else ``value``; NaN stays."""
def prelu(input: Array, weight: Array, *, dtype: Any = ...) -> Array:
    """x above 0, weight * x below: weight (1,), or (c,) for input (n, c, …)."""
def softmin(input: Array, dim: int = ..., *, dtype: Any = ...) -> Array:
    """exp(-x) over its sum along a dim."""
def dropout(input: Array, p: float = ..., training: bool = ..., *, seed: Array | float = ..., offset: Array | float = ..., dtype: Any = ...) -> Array:
    """x / (1 - p) where it is kept, else 0; x where ``training`` is False. ``p``: the probability that an
    element is dropped; ``seed``, which must be given then, and ``offset`` say which, as in operation
    ``rng``: numbers, or arrays of one whole number."""
def conv_transpose(input: Array, weight: Array, bias: Array | None = ..., stride: Ints = ..., padding: Ints = ..., output_padding: Ints = ..., groups: int = ..., dilation: Ints = ..., *, dtype: Any = ...) -> Array:
    """The transposed convolution: the adjoint of ``conv``, and a bias for each channel.

    input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (c, k / groups,
    window…), bias (k,), result
    (n, k, (i - 1) * stride - 2 * padding + dilation * (r - 1) + output_padding + 1, …)."""
def adaptive_avg_pool(input: Array, output_size: Ints, *, dtype: Any = ...) -> Array:
    """The means of as many windows as the result has cells, all of one size. ``output_size``: None in a list
    for a dim that stays; a list shows whether input (c, spatial…) is one image."""
def adaptive_max_pool(input: Array, output_size: Ints, *, dtype: Any = ...) -> Array:
    """The largest value of as many windows as the result has cells, all of one size; a NaN wins. A list
    ``output_size`` shows whether input (c, spatial…) is one image."""
def interpolate(input: Array, size: Ints | None = ..., scale_factor: float | None = ..., mode: str = ..., align_corners: bool | None = ..., recompute_scale_factor: bool | None = ..., *, dtype: Any = ...) -> Array:
    """Images of another size: input (n, c, spatial…) of 1 to 3 spatial dims.

    ``mode``: "nearest"; "area", means as of ``adaptive_avg_pool``; or between neighbours "linear",
    "bilinear", "trilinear", for 1, 2, 3 spatial dims.
    ``align_corners``: the middles of the corners' cells stay where they are, else the corners of the image.
    Places are exact fractions, not rounded to f32."""
def abs(input: Array, *, dtype: Any = ...) -> Array:
    """abs of every element."""
def neg(input: Array, *, dtype: Any = ...) -> Array:
    """neg of every element."""
def ceil(input: Array, *, dtype: Any = ...) -> Array:
    """ceil of every element."""
def floor(input: Array, *, dtype: Any = ...) -> Array:
    """floor of every element."""
def sqrt(input: Array, *, dtype: Any = ...) -> Array:
    """sqrt of every element."""
def rsqrt(input: Array, *, dtype: Any = ...) -> Array:
    """rsqrt of every element."""
def reciprocal(input: Array, *, dtype: Any = ...) -> Array:
    """reciprocal of every element."""
def exp(input: Array, *, dtype: Any = ...) -> Array:
    """exp of every element."""
def log(input: Array, *, dtype: Any = ...) -> Array:
    """log of every element."""
def sin(input: Array, *, dtype: Any = ...) -> Array:
    """sin of every element."""
def cos(input: Array, *, dtype: Any = ...) -> Array:
    """cos of every element."""
def tan(input: Array, *, dtype: Any = ...) -> Array:
    """tan of every element."""
def erf(input: Array, *, dtype: Any = ...) -> Array:
    """erf of every element."""
def sigmoid(input: Array, *, dtype: Any = ...) -> Array:
    """sigmoid of every element."""
def tanh(input: Array, *, dtype: Any = ...) -> Array:
    """tanh of every element."""
def relu(input: Array, *, dtype: Any = ...) -> Array:
    """relu of every element."""
def silu(input: Array, *, dtype: Any = ...) -> Array:
    """swish of every element."""
def add(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """add of two arrays, or of an array and a number, element by element with broadcast."""
def sub(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """sub of two arrays, or of an array and a number, element by element with broadcast."""
def mul(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """mul of two arrays, or of an array and a number, element by element with broadcast."""
def div(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """div of two arrays, or of an array and a number, element by element with broadcast."""
def pow(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """pow of two arrays, or of an array and a number, element by element with broadcast."""
def atan2(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """atan2 of two arrays, or of an array and a number, element by element with broadcast."""
def fmod(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """mod of two arrays, or of an array and a number, element by element with broadcast."""
def maximum(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """max of two arrays, or of an array and a number, element by element with broadcast."""
def minimum(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """min of two arrays, or of an array and a number, element by element with broadcast."""
def eq(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """eq of two arrays, or of an array and a number, element by element with broadcast."""
def ne(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """neq of two arrays, or of an array and a number, element by element with broadcast."""
def gt(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """gt of two arrays, or of an array and a number, element by element with broadcast."""
def ge(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """ge of two arrays, or of an array and a number, element by element with broadcast."""
def lt(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """lt of two arrays, or of an array and a number, element by element with broadcast."""
def le(input: Array, other: Array | float, *, dtype: Any = ...) -> Array:
    """le of two arrays, or of an array and a number, element by element with broadcast."""
def sum(input: Array, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Array:
    """add over one dim, some, or all of them."""
def mean(input: Array, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Array:
    """avg over one dim, some, or all of them."""
def amax(input: Array, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Array:
    """max over one dim, some, or all of them."""
def amin(input: Array, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Array:
    """min over one dim, some, or all of them."""
def prod(input: Array, dim: Ints | None = ..., keepdim: bool = ..., *, dtype: Any = ...) -> Array:
    """mul over one dim, some, or all of them."""
def gelu(input: Array, approximate: str = ..., *, dtype: Any = ...) -> Array:
    """x times the normal distribution's share below x; ``approximate`` "tanh": by a tanh."""
def elu(input: Array, alpha: float = ..., *, dtype: Any = ...) -> Array:
    """x above 0, alpha * (exp(x) - 1) below."""
def leaky_relu(input: Array, negative_slope: float = ..., *, dtype: Any = ...) -> Array:
    """x above 0, negative_slope * x below."""
def softplus(input: Array, beta: float = ..., threshold: float = ..., *, dtype: Any = ...) -> Array:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
def where(condition: Array, input: Array | float, other: Array | float, *, dtype: Any = ...) -> Array:
    """input where the condition is not 0, else other. One of the two may be a number; both where ``dtype`` is
    given."""
def channels_last() -> ContextManager[None]:
    """Inside, images lie with their channels innermost in memory."""
