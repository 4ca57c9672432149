/* A CUDA driver that runs nothing: it keeps the books (contexts, modules, memory), counts calls, records
   launches with their parameter blocks, and fails on request. Built with -soname libcuda.so.1 and loaded
   before first use, cuda.bindings finds it.

   For tests, by ctypes: fake_reset, fake_count(name), fake_fail(name, nth, status), fake_last(&Launch),
   fake_live(kind), and what fake_books.h has.

   Kernels by name: sum_* adds up its parameters, illegal_* breaks the context, nan_* writes a NaN,
   before_* and behind_* write beside their first tensor (the second parameter says how large it is), peek_*
   reads in front of it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 2, CALLS = 256, SITES = 512, BLOCKS = 4096, OPTIN_SMEM = 232448 };
enum { OK, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 100, INVALID_DEVICE,
       INVALID_CONTEXT = 201, INVALID_PTX = 218, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700,
       CONTEXT_IS_DESTROYED = 709, IS_CAPTURED = 900 };

typedef struct { char name[128]; unsigned grid[3], block[3], smem; void *stream; size_t bytes;
                 unsigned char data[4096]; unsigned attributes[5]; } Launch;
typedef struct Function { char name[128]; int smem_limit; struct Function *next; } Function;
typedef struct { char *text; Function *functions; } Module;
typedef struct { char *base; size_t bytes; int device, kind; } Block;    /* 1 pinned, 2 device, 3 managed */

#include "fake_books.h"

static Block blocks[BLOCKS];
static int retained[DEVICES], live_modules, live_streams, live_events, live_blocks, live_links;
static Launch last;
static __thread Launch mine;                                        /* the last of this thread */

static void add(int *number, int by) {
    pthread_mutex_lock(&lock);
    *number += by;
    pthread_mutex_unlock(&lock);
}

void fake_last(Launch *out) { *out = last; }
void fake_mine(Launch *out) { *out = mine; }
void fake_destroy(int ordinal) { destroyed = &retained[ordinal]; }  /* as cuDevicePrimaryCtxReset */
void *fake_context(int ordinal) { return &retained[ordinal]; }
int fake_live(const char *kind) {
    return !strcmp(kind, "modules") ? live_modules
         : !strcmp(kind, "streams") ? live_streams
         : !strcmp(kind, "events") ? live_events
         : !strcmp(kind, "blocks") ? live_blocks
         : !strcmp(kind, "links") ? live_links
         : retained[0] + retained[1];
}
static int add_block(char *base, size_t bytes, int device, int kind) {
    pthread_mutex_lock(&lock);
    int status = OUT_OF_MEMORY;
    for (int i = 0; i < BLOCKS && status; ++i)
        if (!blocks[i].base) blocks[i] = (Block){base, bytes, device, kind}, ++live_blocks, status = OK;
    pthread_mutex_unlock(&lock);
    return status;
}
void *fake_memory(size_t bytes, int device, int kind) {   /* pinned, managed, or another device's memory */
    char *base = aligned_alloc(256, (bytes + 255) / 256 * 256);
    add_block(base, bytes, device, kind);
    return base;
}

int cuInit(unsigned flags) { (void)flags; ENTER; return OK; }
static int fake_version(void) {
    const char *given = getenv("CYDNN_FAKE_VERSION");
    return given ? atoi(given) : 13000;
}
int cuDriverGetVersion(int *out) { ENTER; *out = fake_version(); return OK; }
int cuDeviceGetCount(int *out) { ENTER; *out = DEVICES; return OK; }
int cuDeviceGet(int *out, int ordinal) {
    ENTER;
    *out = ordinal;
    return ordinal < DEVICES ? OK : INVALID_DEVICE;
}
int cuDeviceGetName(char *out, int bytes, int device) {
    ENTER;
    snprintf(out, bytes, "Fake GPU %d", device);
    return OK;
}
int cuDeviceTotalMem_v2(size_t *out, int device) { (void)device; ENTER; *out = 1ull << 33; return OK; }
int cuDeviceGetAttribute(int *out, int attribute, int device) {
    (void)device; ENTER;
    *out = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : attribute == 97 ? OPTIN_SMEM
         : attribute == 38 ? 62914560 : attribute == 13 ? 1980000 : attribute == 36 ? 3201000
         : attribute == 37 ? 6144 : 0;
    return OK;
}
int cuGetErrorName(int status, const char **out) {
    ENTER;
    *out = status == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
         : status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
         : status == INVALID_PTX ? "CUDA_ERROR_INVALID_PTX"
         : status == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_FAKE";
    return OK;
}
int cuGetErrorString(int status, const char **out) {
    (void)status; ENTER;
    *out = "as the test asked";
    return OK;
}
int cuDevicePrimaryCtxRetain(void **out, int device) {
    ENTER;
    add(&retained[device], 1);
    *out = &retained[device];
    return OK;
}
void fake_release(int device) {                       /* with its last owner goes the memory of a context */
    add(&retained[device], -1);
    for (int i = 0; i < BLOCKS && !retained[device]; ++i)
        if (blocks[i].base && blocks[i].kind == 2 && blocks[i].device == device)
            free(blocks[i].base), blocks[i].base = NULL, add(&live_blocks, -1);
}
int cuDevicePrimaryCtxRelease_v2(int device) { ENTER; fake_release(device); return OK; }
int cuCtxGetCurrent(void **out) { ENTER; *out = CURRENT; return OK; }
int cuCtxSetCurrent(void *context) { ENTER; if (!depth) ++depth; stack[depth - 1] = context; return OK; }
int cuCtxPushCurrent_v2(void *context) { ENTER; stack[depth++] = context; return OK; }
int cuCtxPopCurrent_v2(void **out) {
    ENTER;
    if (!depth) return INVALID_CONTEXT;
    *out = stack[--depth];
    return OK;
}
int cuCtxSynchronize(void) { ENTER; return CURRENT ? OK : INVALID_CONTEXT; }

int cuModuleLoadDataEx(void **out, const char *image, unsigned count, int *options, void **values) {
    ENTER;
    if (!CURRENT) return INVALID_CONTEXT;
    if (!strstr(image, ".entry ")) {
        for (unsigned i = 0; i < count; ++i)
            if (options[i] == 5) strcpy(values[i], "ptxas fatal: line 1; syntax error\n");
        return INVALID_PTX;
    }
    Module *module = calloc(1, sizeof *module);
    module->text = strdup(image);
    add(&live_modules, 1);
    *out = module;
    return OK;
}
int cuModuleUnload(Module *module) {
    ENTER;
    for (Function *f = module->functions, *next; f; f = next) next = f->next, free(f);
    free(module->text), free(module);
    add(&live_modules, -1);
    return OK;
}
int cuModuleGetFunction(void **out, Module *module, const char *name) {
    char entry[160];
    ENTER;
    snprintf(entry, sizeof entry, ".entry %s(", name);
    if (!strstr(module->text, entry)) return NOT_FOUND;
    pthread_mutex_lock(&lock);
    Function *f = module->functions;
    while (f && strcmp(f->name, name)) f = f->next;
    if (!f) {
        f = calloc(1, sizeof *f);
        snprintf(f->name, sizeof f->name, "%s", name);
        f->smem_limit = 49152, f->next = module->functions, module->functions = f;
    }
    pthread_mutex_unlock(&lock);
    *out = f;
    return OK;
}
int cuFuncGetAttribute(int *out, int attribute, Function *f) {
    ENTER;
    *out = attribute == 0 ? 1024 : attribute == 4 ? 32 : attribute == 8 ? f->smem_limit : 0;
    return OK;
}
int cuFuncSetAttribute(Function *f, int attribute, int value) {
    ENTER;
    if (attribute != 8 || value > OPTIN_SMEM) return INVALID_VALUE;
    f->smem_limit = value;
    return OK;
}
/* Parameters one by one: how large they are only a driver knows; the tests' are 264 bytes together. */
static int launch(Function *f, const unsigned *grid, const unsigned *block, unsigned smem, void *stream,
                  void **params, void **extra, const unsigned *attributes) {
    size_t together = 264;
    void *one_by_one[] = {(void *)1, params ? params[0] : NULL, (void *)2, &together, NULL};
    if (!CURRENT) return INVALID_CONTEXT;
    if (!params == !extra) return INVALID_VALUE;
    extra = params ? one_by_one : extra;
    if ((int)smem > f->smem_limit || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
        return INVALID_VALUE;
    for (int i = 0; i < is_eager; ++i) sched_yield();               /* another thread is here too */
    pthread_mutex_lock(&lock);
    memcpy(last.name, f->name, sizeof last.name);
    memcpy(last.grid, grid, sizeof last.grid), memcpy(last.block, block, sizeof last.block);
    memcpy(last.attributes, attributes, sizeof last.attributes);
    last.smem = smem, last.stream = stream, last.bytes = *(size_t *)extra[3];
    memcpy(last.data, extra[1], last.bytes);
    mine = last;
    pthread_mutex_unlock(&lock);
    ON(stream);
    /* A kernel named sum_* checks its own block: out[0] gets the sum of the 64-bit words behind the first
       pointer (threads test). */
    if (!strncmp(f->name, "sum_", 4)) {
        uint64_t *words = extra[1], sum = 0;
        for (size_t i = 1; i < *(size_t *)extra[3] / 8; ++i) sum += words[i];
        *(uint64_t *)words[0] = sum;
    }
    uint64_t *given = extra[1];
    if (!strncmp(f->name, "illegal_", 8)) pending = ILLEGAL_ADDRESS;
    if (!strncmp(f->name, "nan_", 4)) *(float *)given[0] = __builtin_nanf("");
    if (!strncmp(f->name, "peek_", 5)) *(char *)given[0] = ((char *)given[0])[-1];
    if (!strncmp(f->name, "before_", 7)) ((char *)given[0])[-1] = 7;
    if (!strncmp(f->name, "behind_", 7)) ((char *)given[0])[given[1]] = 7;
    return OK;
}
int cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned smem, void *stream, void **params, void **extra) {
    ENTER;
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz}, none[5] = {0};
    return launch(f, grid, block, smem, stream, params, extra, none);
}
typedef struct { int id, pad; unsigned value[16]; } Attribute;      /* the layouts of cuda.h */
typedef struct {
    unsigned grid[3], block[3], smem;
    void *stream;
    Attribute *attributes;
    unsigned count;
} Config;
_Static_assert(sizeof(Attribute) == 72 && sizeof(Config) == 56, "cuda.h");
int cuLaunchKernelEx(const Config *config, Function *f, void **params, void **extra) {
    unsigned attributes[5] = {0};                                   /* cluster, cooperative, dependent */
    ENTER;
    for (unsigned i = 0; i < config->count; ++i) {
        const Attribute *a = &config->attributes[i];
        if (a->id == 4) memcpy(attributes, a->value, 12);
        else if (a->id == 2 || a->id == 6) attributes[a->id == 2 ? 3 : 4] = a->value[0];
        else return INVALID_VALUE;
    }
    if (captured && attributes[3] && extra) return INVALID_VALUE;    /* as a driver has it */
    return launch(f, config->grid, config->block, config->smem, config->stream, params, extra, attributes);
}

#include "fake_maps.h"

int cuMemAlloc_v2(unsigned long long *out, size_t bytes) {
    ENTER;
    if (!CURRENT) return INVALID_CONTEXT;
    char *base = bytes > 1ull << 32 ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!base) return OUT_OF_MEMORY;
    *out = (uintptr_t)base;
    return add_block(base, bytes, (int)((int *)CURRENT - retained), 2);
}
int fake_free(unsigned long long ptr) {
    int status = INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS; ++i)
        if (ptr && blocks[i].base == (char *)ptr)
            free(blocks[i].base), blocks[i].base = NULL, --live_blocks, status = OK;
    pthread_mutex_unlock(&lock);
    return status;
}
int cuMemFree_v2(unsigned long long ptr) { ENTER; return fake_free(ptr); }
int cuMemGetInfo_v2(size_t *unused, size_t *total) {
    ENTER;
    *unused = 1ull << 32, *total = 1ull << 33;
    return OK;
}
int cuMemcpyHtoDAsync_v2(unsigned long long dst, const void *src, size_t n, void *s) {
    ENTER; ON(s); memcpy((void *)dst, src, n); return OK;
}
int cuMemcpyDtoHAsync_v2(void *dst, unsigned long long src, size_t n, void *s) {
    ENTER; ON(s); memcpy(dst, (void *)src, n); return OK;
}
int cuMemcpyDtoDAsync_v2(unsigned long long dst, unsigned long long src, size_t n, void *s) {
    ENTER; ON(s); memmove((void *)dst, (void *)src, n); return OK;
}
int cuMemsetD8Async(unsigned long long dst, unsigned char value, size_t n, void *s) {
    ENTER; ON(s); memset((void *)dst, value, n); return OK;
}
int cuPointerGetAttributes(unsigned count, int *attributes, void **values, unsigned long long ptr) {
    ENTER;
    Block found = {0};
    for (int i = 0; i < BLOCKS; ++i) {
        const char *base = blocks[i].base;
        if (base && (char *)ptr >= base && (char *)ptr < base + blocks[i].bytes) found = blocks[i];
    }
    for (unsigned i = 0; i < count; ++i)
        *(int *)values[i] = attributes[i] == 2 ? (found.kind == 3 ? 2 : found.kind)
                          : attributes[i] == 8 ? found.kind == 3
                          : found.base ? found.device : -2;
    return OK;
}
int cuDeviceCanAccessPeer(int *out, int device, int peer) {
    ENTER;
    *out = device != peer && !getenv("CYDNN_FAKE_ALONE");
    return OK;
}
int cuCtxEnablePeerAccess(void *context, unsigned flags) {
    (void)flags; ENTER;
    return !CURRENT || context == CURRENT ? INVALID_CONTEXT : OK;
}
int cuStreamCreateWithPriority(void **out, unsigned flags, int priority) {
    (void)flags, (void)priority; ENTER;
    *out = malloc(16), add(&live_streams, 1);
    return OK;
}
int cuStreamDestroy_v2(void *stream) { ENTER; free(stream), add(&live_streams, -1); return OK; }
int cuStreamSynchronize(void *stream) { ENTER; ON(stream); return OK; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)event, (void)flags; ENTER; ON(stream); return OK;
}
int cuEventCreate(void **out, unsigned flags) {
    (void)flags; ENTER;
    *out = malloc(16), add(&live_events, 1);
    return OK;
}
int cuEventDestroy_v2(void *event) { ENTER; free(event), add(&live_events, -1); return OK; }
int cuEventSynchronize(void *event) { (void)event; ENTER; return OK; }
int cuEventRecord(void *event, void *stream) { (void)event; ENTER; ON(stream); return OK; }
int cuEventElapsedTime(float *out, void *start, void *end) {
    (void)start, (void)end; ENTER; *out = 1.5f; return OK;
}

#include "fake_graphs.h"

#define ROW(name, symbol) {#name, (void *)symbol}
static const struct { const char *name; void *address; } table[] = {
    ROW(cuInit, cuInit), ROW(cuDriverGetVersion, cuDriverGetVersion), ROW(cuDeviceGetCount, cuDeviceGetCount),
    ROW(cuDeviceGet, cuDeviceGet), ROW(cuDeviceGetName, cuDeviceGetName),
    ROW(cuDeviceTotalMem, cuDeviceTotalMem_v2), ROW(cuDeviceGetAttribute, cuDeviceGetAttribute),
    ROW(cuGetErrorName, cuGetErrorName), ROW(cuGetErrorString, cuGetErrorString),
    ROW(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain),
    ROW(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2), ROW(cuCtxGetCurrent, cuCtxGetCurrent),
    ROW(cuCtxSetCurrent, cuCtxSetCurrent), ROW(cuCtxPushCurrent, cuCtxPushCurrent_v2),
    ROW(cuCtxPopCurrent, cuCtxPopCurrent_v2), ROW(cuCtxSynchronize, cuCtxSynchronize),
    ROW(cuModuleLoadDataEx, cuModuleLoadDataEx), ROW(cuModuleUnload, cuModuleUnload),
    ROW(cuModuleGetFunction, cuModuleGetFunction), ROW(cuFuncGetAttribute, cuFuncGetAttribute),
    ROW(cuFuncSetAttribute, cuFuncSetAttribute), ROW(cuLaunchKernel, cuLaunchKernel),
    ROW(cuLaunchKernelEx, cuLaunchKernelEx), ROW(cuMemAlloc, cuMemAlloc_v2), ROW(cuMemFree, cuMemFree_v2),
    ROW(cuMemGetInfo, cuMemGetInfo_v2), ROW(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2),
    ROW(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2), ROW(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2),
    ROW(cuMemsetD8Async, cuMemsetD8Async), ROW(cuPointerGetAttributes, cuPointerGetAttributes),
    ROW(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer), ROW(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess),
    ROW(cuStreamCreateWithPriority, cuStreamCreateWithPriority), ROW(cuStreamDestroy, cuStreamDestroy_v2),
    ROW(cuStreamSynchronize, cuStreamSynchronize), ROW(cuStreamWaitEvent, cuStreamWaitEvent),
    ROW(cuEventCreate, cuEventCreate), ROW(cuEventDestroy, cuEventDestroy_v2),
    ROW(cuEventSynchronize, cuEventSynchronize), ROW(cuEventRecord, cuEventRecord),
    ROW(cuEventElapsedTime, cuEventElapsedTime), ROW(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled),
    ROW(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col),
    ROW(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress),
    ROW(cuLinkCreate, cuLinkCreate_v2),
    ROW(cuLinkAddData, cuLinkAddData_v2),
    ROW(cuLinkComplete, cuLinkComplete),
    ROW(cuLinkDestroy, cuLinkDestroy),
    ROW(cuGraphGetNodes, cuGraphGetNodes),
    ROW(cuGraphGetRootNodes, cuGraphGetRootNodes),
    ROW(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes),
    ROW(cuGraphNodeGetType, cuGraphNodeGetType),
    ROW(cuGraphAddKernelNode, cuGraphAddKernelNode_v2),
    ROW(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2),
    ROW(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2),
    ROW(cuGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute),
    ROW(cuGraphAddMemsetNode, cuGraphAddMemsetNode),
    ROW(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams),
};
int cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *found) {
    (void)flags;
    const char *missing = getenv("CYDNN_FAKE_MISSING");             /* an old driver: it lacks this symbol */
    *out = NULL;
    if (fake_version() >= version)
        for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
            if (!strcmp(table[i].name, symbol) && (!missing || strcmp(missing, symbol)))
                *out = table[i].address;
    if (!strcmp(symbol, "cuGetProcAddress")) *out = (void *)cuGetProcAddress_v2;
    if (found) *found = *out ? 0 : 1;
    return *out ? OK : NOT_FOUND;
}
int cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags) {
    return cuGetProcAddress_v2(symbol, out, version, flags, NULL);
}
