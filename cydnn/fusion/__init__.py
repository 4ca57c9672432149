"""Fusion: pointwise operations as PTX, pasted at the marks of a precompiled kernel.

A ``Fused`` says what to paste (program.py; build.py makes it from graph nodes, site.py finds where tensors
lie), ``splice`` pastes it (splice.py, emit.py). What differs by mode or data type is a row: rules.py for
types, kernels_src/pointwise/ops.cu for the bodies of the modes.
"""
from .build import Builder, at, attempt, before, behind, has_room, math_before, math_of, reasons, region, work
from .program import At, Digit, Extra, Fused, Program, Step, bases
from .rows import Rows
from .site import CannotPlace, Places, Site
from .splice import programs_of, splice
from .ways import ways_of
