"""What XLA hands to a foreign function (its typed FFI, version 0): what one reads of a call, in XLA's order.
Each structure may grow at its end."""
from libc.stdint cimport int32_t, int64_t, uint32_t

cdef enum:
    METADATA = 1                              # an extension that asks what a function is
    EXECUTE = 3                               # a stage of a call
    UNKNOWN = 2                               # a code of an error
    MAJOR = 0                                 # the version of all this
    ALIGNMENT = 16                            # the most that scratch memory may be asked with

cdef struct Extension:
    size_t struct_size
    int type
    Extension *next

cdef struct Version:
    size_t struct_size
    Extension *extensions
    int major
    int minor

cdef struct ErrorArgs:
    size_t struct_size
    Extension *extensions
    const char *message
    int code

cdef struct MessageArgs:
    size_t struct_size
    Extension *extensions
    void *error
    const char *message

cdef struct DestroyArgs:
    size_t struct_size
    Extension *extensions
    void *error

cdef struct StreamArgs:
    size_t struct_size
    Extension *extensions
    void *context
    void *stream

cdef struct MemoryArgs:
    size_t struct_size
    Extension *extensions
    void *context
    size_t size
    size_t alignment
    void *data

cdef struct FreeArgs:
    size_t struct_size
    Extension *extensions
    void *context
    size_t size
    void *data

cdef struct OrdinalArgs:
    size_t struct_size
    Extension *extensions
    void *context
    int32_t ordinal

cdef struct Api:
    size_t struct_size
    Extension *extensions
    Version version
    void *internal
    void *(*error)(ErrorArgs *) noexcept nogil
    void (*message)(MessageArgs *) noexcept nogil
    void (*destroy)(DestroyArgs *) noexcept nogil
    void *register
    void *(*stream)(StreamArgs *) noexcept nogil
    void *of_states[4]
    void *(*allocate)(MemoryArgs *) noexcept nogil
    void *(*free)(FreeArgs *) noexcept nogil
    void *of_threads[5]
    void *run
    void *(*ordinal)(OrdinalArgs *) noexcept nogil

cdef struct Array:                            # a buffer
    size_t struct_size
    Extension *extensions
    int dtype
    void *data
    int64_t rank
    int64_t *dims

cdef struct Arrays:                           # those of all arguments, or of all results
    size_t struct_size
    Extension *extensions
    int64_t size
    int *types
    Array **arrays

cdef struct Number:
    int dtype
    int64_t *value

cdef struct Attributes:
    size_t struct_size
    Extension *extensions
    int64_t size
    int *types
    void *names
    Number **values

cdef struct Frame:                            # a call
    size_t struct_size
    Extension *extensions
    const Api *api
    void *context
    int stage
    Arrays arguments
    Arrays results
    Attributes attributes

cdef struct Metadata:
    size_t struct_size
    Version version
    uint32_t traits
    int64_t state

cdef struct MetadataExtension:
    Extension base
    Metadata *metadata
