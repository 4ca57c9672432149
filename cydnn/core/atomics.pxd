"""Numbers that several threads read and write at once: the extension runs without the GIL, and all of it does
in a Python that has none.

What is written before a ``write_…`` or ``advance`` is seen by whoever reads the new value.
"""
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #define cydnn_read(at) __atomic_load_n(at, __ATOMIC_ACQUIRE)
    #define cydnn_write(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)
    #define cydnn_advance(at) __atomic_fetch_add(at, 1, __ATOMIC_ACQ_REL)
    """
    bint read_flag "cydnn_read"(const bint *at) noexcept nogil
    unsigned int read_count "cydnn_read"(const unsigned int *at) noexcept nogil
    uint64_t read_number "cydnn_read"(const uint64_t *at) noexcept nogil
    const char *read_label "cydnn_read"(const char **at) noexcept nogil
    void write_flag "cydnn_write"(bint *at, bint value) noexcept nogil
    void write_number "cydnn_write"(uint64_t *at, uint64_t value) noexcept nogil
    void write_label "cydnn_write"(const char **at, const char *value) noexcept nogil
    unsigned int advance "cydnn_advance"(unsigned int *at) noexcept nogil    # as it was before
    uint64_t advance_number "cydnn_advance"(uint64_t *at) noexcept nogil     # as it was before
