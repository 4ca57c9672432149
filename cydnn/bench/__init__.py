"""Benchmarks, the peer they are compared with, and single kernels on the interpreter."""
from .run import (Case, Clock, Row, as_json, bench, graph_of, measured, random_values, summary, table,
                  verdict)
