"""Scaled dot product attention."""
from .score import STEPS, scores
from .sdpa import Sdpa
from .sdpa_bwd import SdpaBwd
