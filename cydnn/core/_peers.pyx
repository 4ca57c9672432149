"""Memory of other devices."""
from libc.stdint cimport uint64_t

from cydnn.core._context cimport FINE, IS_BEYOND_REACH, Context, leave
from cydnn.core._driver cimport cu
from cydnn.core.atomics cimport read_number, write_number

cdef enum:
    IS_ENABLED = 704                          # CUresult: peer access is on already


cdef int reach(Context context, int ordinal, bint pushed) except -1 nogil:
    """FINE: the context, which is current, has peer access to a device; or IS_BEYOND_REACH. The context of
    that device lives as long as its memory."""
    cdef int device = 0, is_possible = 0
    cdef void *other = NULL
    cdef const char *call = "cuDeviceGet"
    cdef int status = cu.DeviceGet(&device, ordinal)
    if status == 0:
        call, status = "cuDeviceCanAccessPeer", cu.DeviceCanAccessPeer(&is_possible, context.device, device)
        if status == 0 and not is_possible:
            return IS_BEYOND_REACH
    if status == 0:
        call, status = "cuDevicePrimaryCtxRetain", cu.DevicePrimaryCtxRetain(&other, device)
    if status == 0:
        call, status = "cuCtxEnablePeerAccess", cu.CtxEnablePeerAccess(other, 0)
        cu.DevicePrimaryCtxRelease(device)
    if status not in (0, IS_ENABLED):
        leave(pushed)
        return context.check(status, call)
    write_number(&context.peers, read_number(&context.peers) | <uint64_t>1 << (ordinal & 63))
    return FINE
