"""What other versions, bindings and libraries call what is here: tables that errors are worded by.

A row is ``names | what is said of each``; lines that begin with a space belong to the row before them.
"""
from __future__ import annotations

FRONT = "the functions of the v5 API are in cydnn.cudnn, without the prefix"


def _rows(text: str) -> dict:
    """{name: what is said of it}."""
    rows = [" ".join(row.split()).split(" | ") for row in text.strip().replace("\n    ", " ").splitlines()]
    return {name: said for names, said in rows for name in names.split()}


# Names -> what their callers meant, in words.
MEANT = _rows("""
setConvolutionGroupCount getConvolutionGroupCount depthwise_conv separable_conv | groups follow from the
    filter, which has c / groups channels: setFilterNdDescriptor, or conv(…, groups=)
setConvolutionMathType | the type of sums is computeType of setConvolutionNdDescriptor
getConvolutionForwardAlgorithm_v7 | it is getConvolutionForwardAlgorithm
convolutionBiasActivationForward | it is a graph: cydnn.pygraph, or cydnn.relu of cydnn.conv with bias
multiHeadAttnForward multi_head_attention_forward | it is sdpa of a cydnn.pygraph; of arrays
    cydnn.attention
ops | operations on tensors of torch are in cydnn.torch, those on any arrays in cydnn.functional
nn module layers optim | layers are those of torch, whose functions cydnn.torch.replaced() takes over
jit compile vmap grad | a call is made ready by prepare, such as cydnn.conv.prepare(x, w), a graph is
    cydnn.pygraph; gradients and torch.compile are those of cydnn.torch
rnn lstm gru | recurrent networks are functions of the v5 API: cydnn.cudnn.RNNForwardTraining
cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy ctc_loss
    binary_cross_entropy_with_logits | losses are not here; cydnn.log_softmax gives what they read
embedding | it is the rows of an array: weight[index]
output | a tensor of a graph is one of its results by set_output(True)
reshape transpose swapaxes permute concatenate concat stack split chunk cat flatten pad squeeze unsqueeze flip
    expand broadcast_to moveaxis unfold fold pixel_shuffle | arrays are moved by their own library; a
    cydnn.pygraph has reshape, transpose, concatenate and slice
argmax argmin topk sort argsort one_hot unique gather scatter cumsum cumprod nonzero isnan isfinite isinf
    logical_and logical_or logical_not bitwise_and bitwise_or sinh cosh sign trunc round rint floor_divide
    remainder hypot erfc lerp grid_sample affine_grid | it is none of the operations here: that of the
    arrays' own library
einsum tensordot inner outer vdot | it is matmul, of arrays that their own library has reshaped
clip clamp | it is hardtanh(x, low, high), or minimum and maximum
square | it is mul(x, x)
cbrt | it is pow(x, 1 / 3) of x >= 0
exp2 | it is exp(mul(x, math.log(2)))
expm1 | it is sub(exp(x), 1.0)
log1p | it is log(add(x, 1.0))
log2 | it is div(log(x), math.log(2))
log10 | it is div(log(x), math.log(10))
logsumexp | it is log(sum(exp(x), dim))
var std | it is the mean of squares of sub(x, mean(x, dim, True)); layer_norm and batch_norm have it
    inside
normalize cosine_similarity | it is div of x by sqrt(sum(mul(x, x), dim, True))
glu swiglu silu_and_mul gelu_and_mul | it is mul of silu (or sigmoid, gelu) of one half with the other; a
    cydnn.pygraph fuses both
rope rotary_embedding apply_rope apply_rotary_emb | it is rope of a cydnn.pygraph
flash_attn_varlen_func single_prefill_with_kv_cache single_decode_with_kv_cache batch_prefill
    flash_attn_with_kvcache batch_decode_with_paged_kvcache_wrapper paged_attention | sequences of several
    lengths and paged caches are sdpa of a cydnn.pygraph; of arrays of one length cydnn.attention
fused_add_rmsnorm | it is add and rmsnorm of a cydnn.pygraph, which fuses them
global_average_pool global_avg_pool | it is adaptive_avg_pool(x, 1)
global_max_pool | it is adaptive_max_pool(x, 1)
NSA experimental causal_conv1d_forward causal_conv1d_backward | it is none of the operations here: the
    cudnn-frontend package compiles it for its own architectures
reduce_window | it is max_pool or avg_pool
asarray array asnumpy tensor zeros ones empty from_dlpack to_numpy | arrays are those of NumPy, torch,
    CuPy and JAX, as they are
float16 bfloat16 float32 float64 half float int8 int32 f16 bf16 f32 f64 i8 i32 | a type is a text,
    dtype="f16", or that of NumPy or torch; cydnn.dtype("f16") is its row
set_default_device use_device | it is `with cydnn.device(name):`
get_default_device current_device | it is cydnn.device.default()
is_available device_count | what there is says cydnn.device.names()
forward backward apply | call it; its gradients are those of cydnn.torch
Device | it is cydnn.device.get(name), for a block `with cydnn.device(name):`
list list_devices devices | what there is says cydnn.device.names()
set set_device | it is `with cydnn.device(name):`
is_cuda is_gpu | the kind of a device is cydnn.device.get(name).facts.kind
functional F | functions are names of the module itself
synchronize | it is cydnn.device.get(name).synchronize(), or that of the arrays' library
stream | it is that of the arrays' library; cydnn.device.get(name).create_stream() makes one
event | it is that of the arrays' library; on a GPU cydnn.device.get("cuda:0").create_event() makes one
buffer get_default_memory_pool memory_pool | memory is that of arrays; cydnn.device.get(name).alloc(bytes)
    gives some
handle | it is cydnn.create_handle(device)
seed manual_seed random | what is drawn has a seed= of its own: dropout, attention
set_log_level enable_logging | CYDNN_LOG=1 to 4 says it, or logging.getLogger("cydnn")
config info help show_config show_versions collect_env | `python -m cydnn info` says what there is;
    options are variables of the environment
benchmark | choices are measured by `cydnn tune` and taken by heur_mode.B
deterministic allow_tf32 backends | results are the same every time, f32 has no TF32, unless an engine is
    asked for that says otherwise
profile profiler nvtx | CYDNN_NVTX=1 names each problem on a profiler's timeline; `cydnn bench` times them
explain describe | functions take explain=True; of a graph it is cydnn.plan.explain(graph, device)
raw_kernel elementwise_kernel reduction_kernel program launch launch_config autotune tile kernel fuse |
    kernels are chosen and spliced for what a graph says, cydnn.pygraph; one of your own is an engine
save load export to_json from_json dump | a plan is kept by plan.layout.to_json(), a cydnn.pygraph by
    serialize()
""")

# Names elsewhere -> ours: the first that a room has.
LIKE = {name: tuple(ours.split()) for name, ours in _rows("""
conv convolution conv_general_dilated | conv conv_fprop
attention scaled_dot_product_attention dot_product_attention sdpa flash_attn_func flash_attention
    multi_head_attention | attention sdpa
max_pool | max_pool resample
avg_pool average_pool mean_pool | avg_pool resample
silu | silu swish
swish | silu
resize upsample | interpolate resample
bmm mm dot addmm baddbmm gemm dot_general batch_matmul | matmul
grouped_mm grouped_gemm gmm ragged_dot moe | grouped_matmul moe_grouped_matmul
linear dense fully_connected inner_product | linear matmul
lrn | local_response_norm
absolute fabs | abs
negative | neg
subtract | sub
multiply | mul
divide true_divide | div
power integer_pow float_power | pow
fmax | maximum max
fmin | minimum min
max | amax
min | amin
average | mean
arctan2 | atan2
equal | eq cmp_eq
not_equal | ne cmp_neq
greater | gt cmp_gt
less | lt cmp_lt
greater_equal | ge cmp_ge
less_equal | le cmp_le
logistic | sigmoid
log_sigmoid | logsigmoid
soft_plus | softplus
hard_silu hard_swish | hardswish
hard_sigmoid | hardsigmoid
hard_tanh | hardtanh
gelu_tanh | gelu_approx_tanh gelu
layer_normalization layer_norm | layer_norm layernorm
batch_normalization batch_norm | batch_norm batchnorm
rms_normalization rms_norm | rms_norm rmsnorm
instance_normalization instance_norm | instance_norm instancenorm
group_normalization | group_norm groupnorm
layernorm | layer_norm
batchnorm | batch_norm
rmsnorm | rms_norm
instancenorm | instance_norm
groupnorm | group_norm
run forward | execute
build_plan compile | build
concat cat | concatenate
input | tensor
patch | replaced
""").items()}

# Arguments of NumPy, JAX, Keras, cudnn-frontend -> torch's, ours.
ARGUMENTS = _rows("""
axis | dim
keepdims | keepdim
x a lhs x1 | input
b y x2 | other
w filters kernel scale rhs | weight
strides window_strides | stride
pad | padding
epsilon | eps
mean | running_mean
variance | running_var
causal | is_causal
mask | attn_mask
softmax_scale sm_scale attn_scale | scale
q | query
k | key
v | value
rate | p
feature_group_count | groups
kernel_dilation rhs_dilation | dilation
pool_size window_shape | kernel_size
preferred_element_type data_type | dtype
alpha | negative_slope
dropout | dropout_p
min | min_val
max | max_val
""")

# Options of others that functions do not have -> in words.
OPTIONS = _rows("""
where | all elements are computed: choose among results by cydnn.functional.where
order | the result lies as the input does: pass out=, or a copy in another order
casting signature | types are mixed freely, and dtype= is that of the result
subok like | the result is of the library of the arrays
initial | sums begin at 0; add it to the result
ddof correction unbiased | it is not among the options
copy | the result is an array of its own, or out=
padding_mode | what is padded is 0: pad the array by its own library before
inplace | pass out=input to write over it
stream | work goes to the current stream of the arrays' library; a cydnn.pygraph takes a handle's
memory_format layout data_format dimension_numbers channels_last | shapes are (n, c, spatial…), and the
    arrays' strides say how they lie, channels last too
requires_grad generator | gradients and torch's generator are those of cydnn.torch
precision compute_dtype acc_dtype allow_tf32 | sums are in f32 (f64 of f64): a cydnn.pygraph takes
    compute_data_type
activation act epilogue | call the activation on the result; a cydnn.pygraph fuses both
workspace algo algorithm engine backend deterministic | plans are chosen and their workspace is made; a
    cydnn.pygraph lets choose
return_indices indices | places of the largest values are not given
divisor_override | the divisor is the window's size; count_include_pad says which
window_size window sliding_window | it is sliding_window_length of sdpa of a cydnn.pygraph
cu_seqlens_q cu_seqlens_k seqused_k block_table | sequences of several lengths and paged caches are sdpa
    of a cydnn.pygraph
softcap alibi_slopes | what changes scores is score_mod of sdpa of a cydnn.pygraph
name | results have no names; tensors of a cydnn.pygraph do
""")
