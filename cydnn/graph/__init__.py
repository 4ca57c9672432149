"""Operation graphs: nodes over tensors, their checks, and the patterns that engines match."""
from .graph import ByValue, Graph, Node
