"""The kernels of ``ptx/``: the manifest and its images, and the packing of parameters."""
from .manifest import (BUILD, GRID_LIMITS, MANIFEST, Image, Kernel, axis, function, get, has, is_as_built,
                       names, pick_target, ptx_dir, reload, replaced, verify)
from .kinds import fastdiv
from .pack import Attributes, Packed
from .tensor_map import encoding, reasons as map_reasons
