"""The driver table and checked calls. Another Cython package cimports them from here or from ``_core``."""
from cydnn.core.cuda cimport Driver


cdef enum:
    IS_MISSING = -1                           # status of what the driver has not; its own are not negative

cdef Driver cu                                # filled by the first `driver()`, so before the first Context

cdef Driver *driver() except NULL                                # loads the driver on first use
cdef int need(void *function, const char *call) except -1       # raises where the driver has no such function
cdef int check(int status, const char *call) except -1 nogil     # raises the class that fits a driver status
cdef int fail(int status, const char *call, str more=*) except -1 with gil
cdef str error_text(int status)

cpdef int device_count() except -1
