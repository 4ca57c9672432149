"""Names that are not here: what their callers meant, in the words of the library."""
from __future__ import annotations

from importlib import import_module

FRONT = "the functions of the v5 API are in cydnn.cudnn, without the prefix"
GROUPS = "groups follow from the filter, which has c / groups channels: setFilterNdDescriptor"
MEANT = {                                        # what other versions and bindings have
    "setConvolutionGroupCount": GROUPS, "getConvolutionGroupCount": GROUPS,
    "setConvolutionMathType": "the type of sums is computeType of setConvolutionNdDescriptor",
    "getConvolutionForwardAlgorithm_v7": "it is getConvolutionForwardAlgorithm",
    "convolutionBiasActivationForward": "it is a graph: cydnn.pygraph, or cydnn.relu of cydnn.conv with bias",
    "ops": "operations on tensors of torch are in cydnn.torch, those on any arrays in cydnn.functional",
    "conv": "it is conv_fprop; of arrays cydnn.conv", "conv2d": "of arrays it is cydnn.conv",
    "max_pool2d": "of arrays it is cydnn.max_pool",
    "scaled_dot_product_attention": "of arrays it is cydnn.attention",
}


def missing(where: str, name: str, known=(), room: str = "") -> AttributeError:
    """The error for a name that ``where`` does not have: what was meant, or the names that are like it.
    ``where`` as Python says it: module 'cydnn', 'pygraph' object. ``room``: a module of cydnn that may have
    it."""
    text = f"{where} has no attribute {name!r}"
    if room and not name.startswith("_") and name in import_module(f"{__package__}.{room}").__all__:
        return AttributeError(f"{text}; it is cydnn.{room}.{name}")
    if not name.startswith("__"):                # those are asked for by Python
        text += _hint(name, list(known))
    return AttributeError(text)


def _hint(name: str, known: list) -> str:
    from difflib import get_close_matches        # errors alone need it
    bare = name.removeprefix("cudnn")
    bare = bare[:1].lower() + bare[1:] if bare != name else name
    if name != bare and bare in known:
        return f"; it is {bare}"
    if bare in MEANT or name in MEANT:
        return f": {MEANT.get(bare) or MEANT[name]}"
    if name != bare and bare and "setTensor4dDescriptor" not in known:
        return f": {FRONT}"
    close = get_close_matches(bare, known, 3, 0.75)
    return f"; did you mean {' or '.join(close)}?" if close else ""
