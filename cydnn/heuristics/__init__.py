"""Which engine comes first: mode A (a cost model), and the partition of a graph into parts that engines take whole."""
from .candidates import Refused, rank
from .cover import Part, partition
