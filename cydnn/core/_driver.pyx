"""The CUDA driver as we use it: the table of functions and checked calls.

The driver is looked up at first use (cuda.bindings opens libcuda and gives the addresses), so importing this
module touches no CUDA. Every driver call goes through ``check``.
"""
from libc.stdint cimport uintptr_t

from cydnn.core.atomics cimport read_flag, write_flag
from cydnn.core.cuda cimport Driver

from os import getpid

from cydnn.given import reason
from cydnn.locks import lock
from cydnn.status import AllocFailed, DriverNotFound, ExecutionFailed, NotInitialized, NotSupported
from cydnn.core.symbols import SYMBOLS, missing


ERRORS = {                      # driver status -> exception; every other status is ExecutionFailed
    2: AllocFailed, 3: NotInitialized, 4: NotInitialized, 100: NotInitialized, 201: NotInitialized,
    200: NotSupported, 209: NotSupported, 218: NotSupported, 222: NotSupported, 720: NotSupported,
    912: NotSupported,
}

cdef extern from *:
    """
    static int cydnn_missing(void) { return -1; }     /* in the table: the driver has no such function */
    """
    void *MISSING "((void *)cydnn_missing)"

cdef Driver cu
cdef bint is_loaded = False
cdef long loader_pid = 0
cdef object loading = lock()


cdef Driver *driver() except NULL:
    global loader_pid
    if not read_flag(&is_loaded):
        with loading:
            if not is_loaded:
                load_driver()
                loader_pid = getpid()
                write_flag(&is_loaded, True)
    return &cu


cdef int load_driver() except -1:
    """Fill the table and initialise the driver. A function that it lacks fails when it is called."""
    cdef void **fields = <void **>&cu
    cdef int status
    if sizeof(Driver) != len(SYMBOLS) * sizeof(void *):
        raise SystemError("cydnn/core/cuda.pxd and SYMBOLS differ in length")
    try:
        from cuda.bindings import driver as bindings
        bindings.cuGetProcAddress(b"cuInit", 2000, 0)
    except Exception as error:
        # RuntimeError, ImportError or DynamicLibNotFoundError, by version of cuda-bindings.
        more = f" ({reason(error)})" if isinstance(error, ImportError) else ""
        raise DriverNotFound('cuda: no NVIDIA driver (libcuda) on this machine; use device="numpy", '
                             f'which needs none{more}') from None
    for i, row in enumerate(SYMBOLS):
        found, address, *_ = bindings.cuGetProcAddress(row.name.encode(), row.since, 0)
        if int(found) or not address:
            if not row.serves:
                raise DriverNotFound(f'cuda: this NVIDIA driver is too old, it has no {row.name}; update it, '
                                     'or use device="numpy"')
            fields[i] = MISSING
        else:
            fields[i] = <void *><uintptr_t>int(address)
    status = cu.Init(0)
    if status:
        raise DriverNotFound(f'cuda: the driver finds no usable GPU, {error_text(status)}; '
                             'use device="numpy", which needs none')
    return 0


cdef str error_text(int status):
    """``CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered``"""
    cdef const char *name = NULL
    cdef const char *text = NULL
    cu.GetErrorName(status, &name)
    cu.GetErrorString(status, &text)
    return f"{name.decode() if name else 'CUDA error'} ({status}){': ' + text.decode() if text else ''}"


cdef int need(void *function, const char *call) except -1:
    """Refuse what needs a function of the table that the driver lacks, before anything is done."""
    return 0 if function != MISSING else fail(IS_MISSING, call)


cdef int fail(int status, const char *call, str more="") except -1 with gil:
    cdef int served = 0
    if status == IS_MISSING:
        cu.DriverGetVersion(&served)          # where this fails, the sentence has no version
        raise NotSupported(missing(call.decode(), served))
    if loader_pid and loader_pid != <long>getpid():
        more += "; this process was forked after CUDA was initialised: start it with spawn instead"
    raise ERRORS.get(status, ExecutionFailed)(f"{call.decode()}: {error_text(status)}{more}")


cdef int check(int status, const char *call) except -1 nogil:
    return 0 if status == 0 else fail(status, call)


cpdef int device_count() except -1:
    """Number of CUDA devices this process can see. Raises DriverNotFound where there is no driver."""
    cdef int n = 0
    check(driver().DeviceGetCount(&n), "cuDeviceGetCount")
    return n


def driver_version() -> int:
    """CUDA version the driver serves, e.g. 13000."""
    cdef int version = 0
    check(driver().DriverGetVersion(&version), "cuDriverGetVersion")
    return version
