# Printed by tools/print_stubs.py.

from typing import Any, ContextManager, Sequence

from torch import Tensor

from .torch_names import NAMES as NAMES

Ints = int | Sequence[int]

def matmul(input: Tensor, other: Tensor, *, dtype: Any = ...) -> Tensor:
    """The matrix product, as NumPy and torch have it: batch dims broadcast; of an array of one dim it is that
    with a vector."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = ..., *, dtype: Any = ...) -> Tensor:
    """input @ weight.T + bias: input (…, k), weight (n, k), bias (n,)."""
def grouped_matmul(input: Tensor, weight: Tensor, offsets: Tensor, *, dtype: Any = ...) -> Tensor:
    """Rows of groups, each times the matrix of its group: the experts of a mixture.

    input (rows, k), weight (experts, k, n), offsets (experts,) of i32 or i64: the row at which each group
    begins, in rising order; the last one ends with the rows, or where one offset more says. Rows of no group
    give 0. The device reads the offsets. Offsets of a multiple of the experts: these take turns."""
def conv(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: Ints = ..., padding: Ints | str = ..., dilation: Ints = ..., groups: int = ..., *, dtype: Any = ...) -> Tensor:
    """The convolution (cross-correlation) of images with filters, and a bias for each channel.

    input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (k, c / groups,
    window…), bias (k,).
    ``padding``: zeros at both ends, "valid" for none, "same" for a result of the input's size."""
def max_pool(input: Tensor, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., *, dtype: Any = ...) -> Tensor:
    """The largest value of each window; a NaN wins. ``stride``: the window's size where it is None.
    A list ``kernel_size`` shows whether input (c, spatial…) is one image.
    ``ceil_mode``: a last window that reaches beyond the padding counts too."""
def avg_pool(input: Tensor, kernel_size: Ints, stride: Ints | None = ..., padding: Ints = ..., ceil_mode: bool = ..., count_include_pad: bool = ..., *, dtype: Any = ...) -> Tensor:
    """The mean of each window, in which the padding counts or does not; what lies beyond it does not.
    A list ``kernel_size`` shows whether input (c, spatial…) is one image.
    ``ceil_mode``: a last window that reaches there counts too."""
def softmax(input: Tensor, dim: int = ..., *, dtype: Any = ...) -> Tensor:
    """exp(x) over its sum along a dim."""
def log_softmax(input: Tensor, dim: int = ..., *, dtype: Any = ...) -> Tensor:
    """The logarithm of the softmax along a dim."""
def layer_norm(input: Tensor, normalized_shape: Ints, weight: Tensor | None = ..., bias: Tensor | None = ..., eps: float = ..., *, dtype: Any = ...) -> Tensor:
    """weight * (x - mean) / sqrt(var + eps) + bias, with the statistics of the last dims."""
def rms_norm(input: Tensor, normalized_shape: Ints, weight: Tensor | None = ..., eps: float | None = ..., *, dtype: Any = ...) -> Tensor:
    """weight * x / sqrt(mean of squares + eps), over the last dims; eps None: that of input's type."""
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = ..., bias: Tensor | None = ..., eps: float = ..., *, dtype: Any = ...) -> Tensor:
    """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each group of channels of each
    image, and a weight and a bias for each channel. input (n, c, any dims…), of which three dims have the
    last two one behind the other in memory."""
def instance_norm(input: Tensor, running_mean: Tensor | None = ..., running_var: Tensor | None = ..., weight: Tensor | None = ..., bias: Tensor | None = ..., use_input_stats: bool = ..., momentum: float = ..., eps: float = ..., *, dtype: Any = ...) -> Tensor:
    """weight * (x - mean) / sqrt(var + eps) + bias with the statistics of each channel of each image, or,
    where ``use_input_stats`` is False, with the running ones, which do not move."""
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
    others grow; ``seed``, which must be given then, and ``offset`` say which, as in operation ``rng``:
    numbers, or arrays of one whole number."""
def hardtanh(input: Tensor, min_val: float = ..., max_val: float = ..., *, dtype: Any = ...) -> Tensor:
    """x, not below ``min_val`` and not above ``max_val``."""
def relu6(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """x, not below 0 and not above 6."""
def hardsigmoid(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """(x + 3) / 6, not below 0 and not above 1."""
def hardswish(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """x times its hardsigmoid."""
def mish(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """x * tanh(softplus(x))."""
def selu(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """scale * elu(x, alpha), of the numbers that keep mean and variance."""
def celu(input: Tensor, alpha: float = ..., *, dtype: Any = ...) -> Tensor:
    """x above 0, alpha * (exp(x / alpha) - 1) below."""
def logsigmoid(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """The logarithm of the sigmoid."""
def softsign(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """x / (1 + |x|)."""
def tanhshrink(input: Tensor, *, dtype: Any = ...) -> Tensor:
    """x - tanh(x)."""
def softshrink(input: Tensor, lambd: float = ..., *, dtype: Any = ...) -> Tensor:
    """x less ``lambd`` toward 0, and 0 where it is nearer."""
def hardshrink(input: Tensor, lambd: float = ..., *, dtype: Any = ...) -> Tensor:
    """x where it is further than ``lambd`` from 0, else 0."""
def threshold(input: Tensor, threshold: float, value: float, *, dtype: Any = ...) -> Tensor:
    """x above the threshold, else ``value``; NaN stays."""
def prelu(input: Tensor, weight: Tensor, *, dtype: Any = ...) -> Tensor:
    """x above 0, weight * x below: weight (1,), or (c,) for input (n, c, …)."""
def softmin(input: Tensor, dim: int = ..., *, dtype: Any = ...) -> Tensor:
    """exp(-x) over its sum along a dim."""
def dropout(input: Tensor, p: float = ..., training: bool = ..., *, seed: Tensor | float = ..., offset: Tensor | float = ..., dtype: Any = ...) -> Tensor:
    """x / (1 - p) where it is kept, else 0; x where ``training`` is False. ``p``: the probability that an
    element is dropped; ``seed``, which must be given then, and ``offset`` say which, as in operation
    ``rng``: numbers, or arrays of one whole number."""
def conv_transpose(input: Tensor, weight: Tensor, bias: Tensor | None = ..., stride: Ints = ..., padding: Ints = ..., output_padding: Ints = ..., groups: int = ..., dilation: Ints = ..., *, dtype: Any = ...) -> Tensor:
    """The transposed convolution: the adjoint of ``conv``, and a bias for each channel.

    input (n, c, spatial…) of 1 to 3 spatial dims, or one image (c, spatial…), weight (c, k / groups,
    window…), bias (k,), result
    (n, k, (i - 1) * stride - 2 * padding + dilation * (r - 1) + output_padding + 1, …)."""
def adaptive_avg_pool(input: Tensor, output_size: Ints, *, dtype: Any = ...) -> Tensor:
    """The means of as many windows as the result has cells, all of one size. ``output_size``: None in a list
    for a dim that stays; a list shows whether input (c, spatial…) is one image."""
def adaptive_max_pool(input: Tensor, output_size: Ints, *, dtype: Any = ...) -> Tensor:
    """The largest value of as many windows as the result has cells, all of one size; a NaN wins. A list
    ``output_size`` shows whether input (c, spatial…) is one image."""
def interpolate(input: Tensor, size: Ints | None = ..., scale_factor: float | None = ..., mode: str = ..., align_corners: bool | None = ..., recompute_scale_factor: bool | None = ..., *, dtype: Any = ...) -> Tensor:
    """Images of another size: input (n, c, spatial…) of 1 to 3 spatial dims.

    ``mode``: "nearest"; "area", means as of ``adaptive_avg_pool``; or between neighbours "linear",
    "bilinear", "trilinear", for 1, 2, 3 spatial dims.
    ``align_corners``: the middles of the corners' cells stay where they are, else the corners of the image.
    Places are exact fractions, not rounded to f32."""
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
def softplus(input: Tensor, beta: float = ..., threshold: float = ..., *, dtype: Any = ...) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
def where(condition: Tensor, input: Tensor | float, other: Tensor | float, *, dtype: Any = ...) -> Tensor:
    """input where the condition is not 0, else other. One of the two may be a number; both where ``dtype`` is
    given."""
def replaced() -> ContextManager[None]:
    """Inside, functions of torch.nn.functional that ours stand for are ours."""
def report(reset: bool = ...) -> str:
    """How often replaced() called what; what went to torch, with the reason."""
