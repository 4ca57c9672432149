"""The Python front end of the Graph API, call-compatible with the cudnn-frontend package where it reaches.

Sugar over ``graph/`` and ``plan``: it has no rule of its own but the defaults of that package (channels-last outputs of convolutions,
io / intermediate / compute types, uids from 1). Spec: graph API; reference of the front end, sections 2 to 8.
"""
from .enums import (build_plan_policy, convolution_mode, cudnnGraphNotSupportedError, data_type, heur_mode, norm_forward_phase,
                    reduction_mode)
from .handle import create_handle, destroy_handle, get_stream, set_stream
from .pygraph import pygraph
from .tensor import tensor
