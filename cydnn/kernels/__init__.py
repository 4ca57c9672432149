"""The kernels of ``ptx/``: the manifest and its images, and the packing of parameters."""
from .images import BUILD, Image, pick_target
from .manifest import (GRID_LIMITS, MANIFEST, Kernel, axis, function, get, has, is_as_built, names, overlaid,
                       ptx_dir, reload, replaced, seal_in_use, verify)
from .kinds import fastdiv
from .overlay import folder as overlay_folder, tool as build_tool
from .pack import Attributes, Packed
from .tensor_map import encoding, reasons as map_reasons
