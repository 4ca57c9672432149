"""Scaled dot product attention."""
from .sdpa import Sdpa
