"""Names that are not here: what their callers meant, in the words of the library."""
from __future__ import annotations

import re
from importlib import import_module

FRONT = "the functions of the v5 API are in cydnn.cudnn, without the prefix"
GROUPS = "groups follow from the filter, which has c / groups channels: setFilterNdDescriptor"
LAYERS = "layers are those of torch, whose functions cydnn.torch.replaced() takes over"
RECURRENT = "recurrent networks are functions of the v5 API: cydnn.cudnn.RNNForwardTraining"
READY = "a call is made ready by prepare, such as cydnn.conv.prepare(x, w), a graph is cydnn.pygraph"
MEANT = {                                        # what other versions, bindings and libraries have
    "setConvolutionGroupCount": GROUPS, "getConvolutionGroupCount": GROUPS,
    "setConvolutionMathType": "the type of sums is computeType of setConvolutionNdDescriptor",
    "getConvolutionForwardAlgorithm_v7": "it is getConvolutionForwardAlgorithm",
    "convolutionBiasActivationForward": "it is a graph: cydnn.pygraph, or cydnn.relu of cydnn.conv with bias",
    "multiHeadAttnForward": "it is sdpa of a cydnn.pygraph; of arrays cydnn.attention",
    "ops": "operations on tensors of torch are in cydnn.torch, those on any arrays in cydnn.functional",
    "nn": LAYERS, "module": LAYERS, "jit": READY, "compile": READY, "rnn": RECURRENT, "lstm": RECURRENT,
    "gru": RECURRENT,
    "cross_entropy": "losses are not here; cydnn.log_softmax gives what they read",
    "embedding": "it is the rows of an array: weight[index]",
    "is_available": "what there is says cydnn.device.names()",
    "output": "a tensor of a graph is one of its results by set_output(True)",
    "stream": "it is that of the arrays' library; cydnn.device.get(name).create_stream() makes one",
}
LIKE = {                                         # names elsewhere -> ours: the first that a room has
    "conv": ("conv", "conv_fprop"), "convolution": ("conv", "conv_fprop"), "attention": ("attention", "sdpa"),
    "max_pool": ("max_pool", "resample"), "avg_pool": ("avg_pool", "resample"), "silu": ("silu", "swish"),
    **dict.fromkeys(("scaled_dot_product_attention", "dot_product_attention", "sdpa", "flash_attn_func",
                     "flash_attention", "multi_head_attention"), ("attention", "sdpa")),
    **dict.fromkeys(("bmm", "mm", "dot", "addmm", "gemm"), ("matmul",)), "linear": ("linear", "matmul"),
    "swish": ("silu",), "gelu_tanh": ("gelu_approx_tanh", "gelu"),
    "run": ("execute",), "forward": ("execute",), "build_plan": ("build",), "compile": ("build",),
    "concat": ("concatenate",), "cat": ("concatenate",), "input": ("tensor",), "patch": ("replaced",),
    **{f"{what}_norm": (f"{what}_norm", f"{what}norm") for what in ("layer", "batch", "rms", "instance")},
}

ARGUMENTS = {                                    # words of NumPy, JAX, Keras, cudnn-frontend -> torch's, ours
    "axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "b": "other", "y": "other",
    "w": "weight", "filters": "weight", "kernel": "weight", "scale": "weight", "strides": "stride",
    "pad": "padding", "epsilon": "eps", "mean": "running_mean", "variance": "running_var",
    "causal": "is_causal", "mask": "attn_mask", "softmax_scale": "scale",
    "sm_scale": "scale", "attn_scale": "scale", "q": "query", "k": "key", "v": "value", "rate": "p",
    "feature_group_count": "groups", "kernel_dilation": "dilation",
    "window_strides": "stride", "pool_size": "kernel_size", "window_shape": "kernel_size",
}


def unexpected(name: str, known) -> str:
    """What Python says of a keyword that a function does not have, and which of its own was meant."""
    from difflib import get_close_matches        # errors alone need it
    close = [ARGUMENTS[name]] if ARGUMENTS.get(name) in known else get_close_matches(name, known, 3, 0.75)
    return (f"got an unexpected keyword argument {name!r}"
            + (f"; did you mean {' or '.join(close)}?" if close else ""))


def missing(where: str, name: str, known=(), rooms: str = "") -> AttributeError:
    """The error for a name that ``where`` does not have: what was meant, or the names that are like it.
    ``where`` as Python says it: module 'cydnn', 'pygraph' object. ``rooms``: modules of cydnn that may have
    it."""
    text = f"{where} has no attribute {name!r}"
    if name.startswith("_"):                     # those are asked for by Python, or nobody's
        return AttributeError(text)
    for room in rooms.split():
        if name in import_module(f"{__package__}.{room}").__all__:
            return AttributeError(f"{text}; it is cydnn.{room}.{name}")
    return AttributeError(text + _hint(name, list(known)))


def _spellings(name: str) -> list:
    """A name without the prefix of C, as functions are written, and without a number of dims at its end."""
    bare = name.removeprefix("cudnn")
    bare = bare[:1].lower() + bare[1:] if bare != name else name
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return [bare, name, *[re.sub(r"[123]d$", "", n) for n in (bare, split, name.lower())]]


def _hint(name: str, known: list) -> str:
    from difflib import get_close_matches        # errors alone need it
    spellings = _spellings(name)
    bare = spellings[0]
    like = [ours for n in spellings for ours in LIKE.get(n, ())]
    for ours in (*spellings, *like):
        if ours in known and ours != name:
            return f"; it is {ours}"
    meant = [MEANT[n] for n in spellings if n in MEANT]
    if meant:
        return f": {meant[0]}"
    functions = import_module(f"{__package__}.functional").FUNCTIONS
    for ours in (*spellings, *like):
        if ours in functions:
            return f": of arrays it is cydnn.{'functional.' * (ours not in _offered())}{ours}"
    if name != bare and bare and "setTensor4dDescriptor" not in known:
        return f": {FRONT}"
    close = get_close_matches(bare, known, 3, 0.75)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _offered() -> list:
    return import_module(__package__).__all__
