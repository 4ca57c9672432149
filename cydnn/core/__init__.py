"""The Cython modules of the hot path: driver table, memory, launches, tapes. Their door is ``_core``."""
