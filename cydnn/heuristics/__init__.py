"""Which engine comes first: mode A (a cost model), and the partition of a graph into parts that engines take whole."""
from .rank import Refused, rank
from .partition import Part, partition
