"""The life of two handles on the driver that keeps books: what they lend, calls that load an image and
launch, calls that are refused, all given back. ``python tests/core/life.py LIBRARY`` prints how many launches
that were, and what is left."""
import ctypes
import gc
import sys

fake = ctypes.CDLL(sys.argv[1])

from cydnn import cudnn, device, plan  # noqa: E402
from cydnn.status import BadParam  # noqa: E402

for _ in range(2):
    place = device.get("cuda:0")
    handle, x = cudnn.create(place), cudnn.createTensorDescriptor()
    cudnn.setStream(handle, cudnn.getStream(handle))
    cudnn.setTensor4dDescriptor(x, 0, 0, 2, 8, 5, 5)
    a, b = place.alloc(1600), place.alloc(1600)
    for _ in range(3):
        cudnn.softmaxForward(handle, 1, 0, 1.0, x, a.ptr, 0.0, x, b.ptr)
    handle.reserve(100_000)
    cudnn.destroyTensorDescriptor(x)
    cudnn.destroy(handle)
    for function, gone in ((cudnn.getStream, handle), (cudnn.getTensor4dDescriptor, x)):
        try:
            function(gone)
            sys.exit(f"{function.__name__} takes what was destroyed")
        except BadParam:
            pass
    del a, b, handle, place
plan.forget()
device._devices.clear()
gc.collect()
KINDS = (b"contexts", b"modules", b"streams", b"events", b"blocks")
print(fake.fake_count(b"cuLaunchKernel"), *(fake.fake_live(kind) for kind in KINDS))
