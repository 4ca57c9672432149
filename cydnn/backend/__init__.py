"""The backend descriptor API. Today: its names and numbers,
derived from the declarations of the operations."""
from .table import OPERATIONS, Operation, Row, number, words
