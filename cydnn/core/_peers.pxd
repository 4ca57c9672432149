"""Memory of other devices."""
from cydnn.core._context cimport Context

cdef int reach(Context context, int ordinal, bint pushed) except -1 nogil
