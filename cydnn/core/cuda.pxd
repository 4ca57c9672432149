"""The driver functions we call, as one table of function pointers.

No C header is needed: another package can cimport this. Field names are the driver's without ``cu``;
symbols.py lists them in this order with the version whose ABI is declared. Handles are ``void *``, device
addresses ``unsigned long long``. Each type needs its own ``noexcept nogil``.
"""

from libc.stdint cimport uint32_t, uint64_t

ctypedef unsigned long long address_t

cdef struct LaunchAttribute:                  # CUlaunchAttribute: 72 bytes, the value from byte 8 on
    int id
    int pad
    unsigned int value[16]

cdef struct LaunchConfig:                     # CUlaunchConfig: 56 bytes
    unsigned int grid[3]
    unsigned int block[3]
    unsigned int smem
    void *stream
    LaunchAttribute *attributes
    unsigned int count

cdef struct KernelNode:                       # CUDA_KERNEL_NODE_PARAMS_v2: 72 bytes
    void *function
    unsigned int grid[3]
    unsigned int block[3]
    unsigned int smem
    void **params
    void **extra
    void *kernel
    void *context

cdef struct MemsetNode:                       # CUDA_MEMSET_NODE_PARAMS: 40 bytes
    address_t at
    size_t pitch
    unsigned int value
    unsigned int element_bytes
    size_t width
    size_t height

ctypedef int (*fn_void)() noexcept nogil
ctypedef int (*fn_uint)(unsigned int flags) noexcept nogil
ctypedef int (*fn_int)(int device) noexcept nogil
ctypedef int (*fn_int_out)(int *out) noexcept nogil
ctypedef int (*fn_device)(int *device, int ordinal) noexcept nogil
ctypedef int (*fn_device_name)(char *name, int bytes, int device) noexcept nogil
ctypedef int (*fn_device_mem)(size_t *bytes, int device) noexcept nogil
ctypedef int (*fn_device_attribute)(int *value, int attribute, int device) noexcept nogil
ctypedef int (*fn_error_text)(int status, const char **text) noexcept nogil
ctypedef int (*fn_retain)(void **context, int device) noexcept nogil
ctypedef int (*fn_handle)(void *handle) noexcept nogil
ctypedef int (*fn_handle_out)(void **handle) noexcept nogil
ctypedef int (*fn_module_load)(void **module, const void *image, unsigned int count, int *options,
                               void **values) noexcept nogil
ctypedef int (*fn_module_function)(void **function, void *module, const char *name) noexcept nogil
ctypedef int (*fn_function_get)(int *value, int attribute, void *function) noexcept nogil
ctypedef int (*fn_function_set)(void *function, int attribute, int value) noexcept nogil
ctypedef int (*fn_launch)(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
                          unsigned int bx, unsigned int by, unsigned int bz, unsigned int smem,
                          void *stream, void **params, void **extra) noexcept nogil
ctypedef int (*fn_launch_ex)(const LaunchConfig *config, void *function, void **params,
                             void **extra) noexcept nogil
ctypedef int (*fn_mem_alloc)(address_t *ptr, size_t bytes) noexcept nogil
ctypedef int (*fn_mem_free)(address_t ptr) noexcept nogil
ctypedef int (*fn_mem_info)(size_t *free, size_t *total) noexcept nogil
ctypedef int (*fn_copy_in)(address_t dst, const void *src, size_t bytes, void *stream) noexcept nogil
ctypedef int (*fn_copy_out)(void *dst, address_t src, size_t bytes, void *stream) noexcept nogil
ctypedef int (*fn_copy)(address_t dst, address_t src, size_t bytes, void *stream) noexcept nogil
ctypedef int (*fn_memset)(address_t dst, unsigned char value, size_t count, void *stream) noexcept nogil
ctypedef int (*fn_pointer_attributes)(unsigned int count, int *attributes, void **values,
                                      address_t ptr) noexcept nogil
ctypedef int (*fn_can_access)(int *is_possible, int device, int peer) noexcept nogil
ctypedef int (*fn_peer_access)(void *context, unsigned int flags) noexcept nogil
ctypedef int (*fn_stream_create)(void **stream, unsigned int flags, int priority) noexcept nogil
ctypedef int (*fn_stream_wait)(void *stream, void *event, unsigned int flags) noexcept nogil
ctypedef int (*fn_event_create)(void **event, unsigned int flags) noexcept nogil
ctypedef int (*fn_event_record)(void *event, void *stream) noexcept nogil
ctypedef int (*fn_event_elapsed)(float *milliseconds, void *start, void *end) noexcept nogil
ctypedef int (*fn_map_encode)(void *map, int type, unsigned int rank, void *address, const uint64_t *dims,
                              const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                              int interleave, int swizzle, int l2, int fill) noexcept nogil
ctypedef int (*fn_map_pixels)(void *map, int type, unsigned int rank, void *address, const uint64_t *dims,
                              const uint64_t *strides, const int *lower, const int *upper,
                              uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave,
                              int swizzle, int l2, int fill) noexcept nogil
ctypedef int (*fn_map_replace)(void *map, void *address) noexcept nogil
ctypedef int (*fn_link_create)(unsigned int count, int *options, void **values, void **link) noexcept nogil
ctypedef int (*fn_link_add)(void *link, int kind, const void *data, size_t bytes, const char *name,
                            unsigned int count, int *options, void **values) noexcept nogil
ctypedef int (*fn_link_complete)(void *link, void **image, size_t *bytes) noexcept nogil
ctypedef int (*fn_nodes)(void *graph, void **nodes, size_t *count) noexcept nogil
ctypedef int (*fn_node_type)(void *node, int *type) noexcept nogil
ctypedef int (*fn_add_kernel)(void **node, void *graph, void **after, size_t count,
                              const KernelNode *params) noexcept nogil
ctypedef int (*fn_kernel_get)(void *node, KernelNode *params) noexcept nogil
ctypedef int (*fn_kernel_set)(void *node, const KernelNode *params) noexcept nogil
ctypedef int (*fn_node_attribute)(void *node, int id, const void *value) noexcept nogil
ctypedef int (*fn_add_memset)(void **node, void *graph, void **after, size_t count,
                              const MemsetNode *params, void *context) noexcept nogil
ctypedef int (*fn_memset_set)(void *node, const MemsetNode *params) noexcept nogil

cdef struct Driver:
    fn_uint Init
    fn_int_out DriverGetVersion
    fn_int_out DeviceGetCount
    fn_device DeviceGet
    fn_device_name DeviceGetName
    fn_device_mem DeviceTotalMem
    fn_device_attribute DeviceGetAttribute
    fn_error_text GetErrorName
    fn_error_text GetErrorString
    fn_retain DevicePrimaryCtxRetain
    fn_int DevicePrimaryCtxRelease
    fn_handle_out CtxGetCurrent
    fn_handle CtxSetCurrent
    fn_handle CtxPushCurrent
    fn_handle_out CtxPopCurrent
    fn_void CtxSynchronize
    fn_module_load ModuleLoadDataEx
    fn_handle ModuleUnload
    fn_module_function ModuleGetFunction
    fn_function_get FuncGetAttribute
    fn_function_set FuncSetAttribute
    fn_launch LaunchKernel
    fn_launch_ex LaunchKernelEx
    fn_mem_alloc MemAlloc
    fn_mem_free MemFree
    fn_mem_info MemGetInfo
    fn_copy_in MemcpyHtoDAsync
    fn_copy_out MemcpyDtoHAsync
    fn_copy MemcpyDtoDAsync
    fn_memset MemsetD8Async
    fn_pointer_attributes PointerGetAttributes
    fn_can_access DeviceCanAccessPeer
    fn_peer_access CtxEnablePeerAccess
    fn_stream_create StreamCreateWithPriority
    fn_handle StreamDestroy
    fn_handle StreamSynchronize
    fn_stream_wait StreamWaitEvent
    fn_event_create EventCreate
    fn_handle EventDestroy
    fn_handle EventSynchronize
    fn_event_record EventRecord
    fn_event_elapsed EventElapsedTime
    fn_map_encode TensorMapEncodeTiled
    fn_map_pixels TensorMapEncodeIm2col
    fn_map_replace TensorMapReplaceAddress
    fn_link_create LinkCreate
    fn_link_add LinkAddData
    fn_link_complete LinkComplete
    fn_handle LinkDestroy
    fn_nodes GraphGetNodes
    fn_nodes GraphGetRootNodes
    fn_nodes GraphNodeGetDependentNodes
    fn_node_type GraphNodeGetType
    fn_add_kernel GraphAddKernelNode
    fn_kernel_get GraphKernelNodeGetParams
    fn_kernel_set GraphKernelNodeSetParams
    fn_node_attribute GraphKernelNodeSetAttribute
    fn_add_memset GraphAddMemsetNode
    fn_memset_set GraphMemsetNodeSetParams
