"""Fusion: pointwise operations as PTX, pasted at the marks of a precompiled kernel.

``Epilogue`` says what to paste (program.py; build.py makes it from graph nodes), ``splice`` pastes it (splice.py, emit.py). What differs
by mode or data type is a row: rules.py for types, kernels_src/pointwise/ops.cu for the bodies of the modes.
"""
from .build import Builder, CannotPlace, beside_output, build, refuse
from .program import At, Epilogue, Extra, Program, Step
from .splice import splice
