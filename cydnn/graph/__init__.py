"""Operation graphs: nodes over tensors, their checks, regions of them, and the patterns that engines take."""
from . import inplace
from .graph import FromTensor, Graph, Node, every
from .match import Lead, Match, in_memory, number_of, once_per_match, scalar_of, source_of
from .pattern import Core, Many, core, many
from .region import Region, bits, merged, union
from .tensor import Tensor
