"""Benchmarks, the peer they are compared with, and single kernels on the interpreter."""
from .run import (Case, Clock, Row, as_json, bench, biased, fill, graph_of, measured, peer_of, random_values,
                  summary, summed, table, tuned, verdict)
