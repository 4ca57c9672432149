"""The seal of the manifest that this installation was built with."""

cdef extern from *:
    """
    #ifndef CYDNN_SEAL
    #define CYDNN_SEAL ""
    #endif
    """
    const char *CYDNN_SEAL

SEAL = CYDNN_SEAL.decode()
