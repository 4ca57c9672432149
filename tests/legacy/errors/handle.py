"""Library and handle: 3.1."""
from cydnn import cudnn as c
from cydnn.status import BadParam, NotInitialized, NotSupported

from . import NUMPY

GOOD = {
    "getVersion": dict, "getLastErrorString": dict,
    "getErrorString": lambda: dict(status=3),
    "create": lambda: dict(device="numpy"),
    "destroy": lambda: dict(handle=c.create("numpy")),
    "setStream": lambda: dict(handle=NUMPY, streamId=0),
    "getStream": lambda: dict(handle=NUMPY),
}
ROWS = [
    ("create", "there is no such device", dict(device="tpu"), BadParam, "device"),
    ("create", "it is no target of kernels", dict(device="ptx:sm_10"), BadParam, "target from sm_75 on"),
    ("create", "the GPU cannot be had", dict(device="cuda:4711"), (NotInitialized, BadParam, NotSupported),
     "4711|driver|device"),
    ("setStream", "`streamId` has more than 64 bits", dict(streamId=2 ** 64), BadParam,
     r"streamId must be an address, from 0 to 2\*\*64 - 1; got 18446744073709551616"),
]
