// CUDA on the host, for tests: a block is one OS thread that switches between fibers, one for each CUDA thread.
//
// Included in front of a kernel by g++ (-include). Fibers run until they reach a barrier or a warp instruction; the last one to
// arrive does the work for all. cp.async is carried out at once or as late as the waits allow (`late_copies`), so that a
// missing wait or a stage that is overwritten too early shows in the results.
#pragma once
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <algorithm>
#include <vector>

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __shared__
#define __shared__ static                        // `extern static` is avoided by DYNAMIC below
using std::max; using std::min;

namespace host {
constexpr int max_threads = 512, stack_bytes = 256 << 10;
struct Copy { unsigned to; const void* from; int bytes, size; };
struct Fiber {
    ucontext_t context;
    bool done;
    std::vector<std::vector<Copy>> groups;       // committed cp.async groups that are not yet carried out
    std::vector<Copy> open;
};
struct Warp { int arrived = 0; void* slot[32][3]; unsigned round = 0; };
inline ucontext_t home;
inline Fiber fibers[max_threads];
inline Warp warps[max_threads / 32];
inline std::vector<char> stacks(size_t(max_threads) * stack_bytes);
inline int threads, current, at_barrier, late_copies;
inline unsigned barrier_round;
alignas(1024) inline unsigned char memory[232 << 10];
inline int memory_bytes;
inline void (*body)();

inline void pass() { swapcontext(&fibers[current].context, &home); }
inline void carry_out(const Copy& c) {
    if (int(c.to) + c.size > memory_bytes) { fprintf(stderr, "cp.async beyond shared memory: %u\n", c.to); abort(); }
    if (c.bytes) memcpy(memory + c.to, c.from, c.bytes);
    memset(memory + c.to + c.bytes, 0, c.size - c.bytes);
}
inline void barrier() {
    const unsigned round = barrier_round;
    if (++at_barrier == threads) at_barrier = 0, ++barrier_round;
    while (round == barrier_round) pass();
}
// Every lane brings three addresses; the last to arrive runs `work(slots)`.
template <class Work> void together(void* a, void* b, void* c, Work work) {
    Warp& warp = warps[current / 32];
    const unsigned round = warp.round;
    void** slot = warp.slot[current % 32];
    slot[0] = a, slot[1] = b, slot[2] = c;
    if (++warp.arrived == 32) work(warp.slot), warp.arrived = 0, ++warp.round;
    while (round == warp.round) pass();
}
inline void start() {
    body();
    fibers[current].done = true;
    pass();
}
}  // namespace host

#define __syncthreads() host::barrier()
static thread_local uint3 here_thread, here_block;
#define threadIdx here_thread
#define blockIdx here_block

template <class V> static inline V __shfl_xor_sync(unsigned, V v, int mask) {
    V out;
    struct Lane { V in; V* to; int mask; } lane = {v, &out, mask};
    host::together(&lane, nullptr, nullptr, [](void* (*slot)[3]) {
        for (int i = 0; i < 32; ++i) {
            Lane& mine = *static_cast<Lane*>(slot[i][0]);
            *mine.to = static_cast<Lane*>(slot[i ^ mine.mask][0])->in;
        }
    });
    return out;
}
static inline int __clz(int n) { return n ? __builtin_clz(unsigned(n)) : 32; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
template <class V> static inline V __ldg(const V* p) { return *p; }
template <class V> static inline void __stcs(V* p, V v) { *p = v; }
static inline size_t __cvta_generic_to_global(const void* p) { return size_t(p); }
static inline long long __float2ll_rn(float x) { return llrintf(x); }
static inline long long __double2ll_rn(double x) { return llrint(x); }
static inline int __float2int_rn(float x) { return int(lrintf(x)); }
static inline float __uint_as_float(unsigned word) { float x; memcpy(&x, &word, 4); return x; }
static inline int __double2int_rn(double x) { return int(lrint(x)); }
static inline float __double2float_rn(double x) { return float(x); }
#define __logf logf
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline double __dmul_rn(double a, double b) { return a * b; }

namespace host {
template <class Call> void launch(int gx, int gy, int gz, int count, int smem, bool late, Call call) {
    static Call* kept;
    kept = &call, threads = count, late_copies = late, memory_bytes = smem;
    body = [] { (*kept)(); };
    for (int z = 0; z < gz; ++z) for (int y = 0; y < gy; ++y) for (int x = 0; x < gx; ++x) {
        memset(memory, 0x7e, sizeof memory);     // NaN in f16; a huge number in bf16 and f32
        at_barrier = 0;
        for (int i = 0; i < threads; ++i) {
            Fiber& f = fibers[i];
            f.done = false, f.groups.clear(), f.open.clear();
            getcontext(&f.context);
            f.context.uc_stack.ss_sp = stacks.data() + size_t(i) * stack_bytes, f.context.uc_stack.ss_size = stack_bytes;
            f.context.uc_link = &home;
            makecontext(&f.context, start, 0);
        }
        for (auto& w : warps) w.arrived = 0;
        for (bool left = true; left;) {
            left = false;
            for (int i = 0; i < threads; ++i) {
                if (fibers[i].done) continue;
                left = true, current = i;
                here_thread = {unsigned(i), 0, 0}, here_block = {unsigned(x), unsigned(y), unsigned(z)};
                swapcontext(&home, &fibers[i].context);
            }
        }
    }
}
}  // namespace host
