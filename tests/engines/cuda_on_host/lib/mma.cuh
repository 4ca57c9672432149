// lib/mma.cuh on the host (see prelude.h): the same names, the fragment layouts written out from the PTX ISA.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

inline unsigned shared_address(const void* p) { return unsigned((const unsigned char*)p - host::memory); }

template <int Count, bool Trans> void ldmatrix(unsigned* r, unsigned address) {
    if (address % 16 || int(address) + 16 > host::memory_bytes) { fprintf(stderr, "ldmatrix: address %u\n", address); abort(); }
    host::together(r, &address, nullptr, [](void* (*slot)[3]) {
        for (int i = 0; i < Count; ++i) {        // the 8 rows of a matrix are read at once: all 16-byte banks must differ
            unsigned banks = 0;
            for (int row = 0; row < 8; ++row) banks |= 1u << (*(unsigned*)slot[8 * i + row][1] / 16 % 8);
            if (banks != 0xff) { fprintf(stderr, "ldmatrix: bank conflict, banks %02x\n", banks); abort(); }
        }
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < Count; ++i) {
                unsigned short pair[2];
                for (int e = 0; e < 2; ++e) {
                    const int row = Trans ? lane % 4 * 2 + e : lane / 4, col = Trans ? lane / 4 : lane % 4 * 2 + e;
                    memcpy(pair + e, host::memory + *(unsigned*)slot[8 * i + row][1] + col * 2, 2);
                }
                memcpy((unsigned*)slot[lane][0] + i, pair, 4);
            }
    });
}
inline void ldmatrix_x4(unsigned (&r)[4], unsigned address) { ldmatrix<4, false>(r, address); }
inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned address) { ldmatrix<4, true>(r, address); }

template <class Elem> void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    host::together(d, (void*)a, (void*)b, [](void* (*slot)[3]) {
        float A[16][16], B[16][8];
        const auto number = [](unsigned word, int half) {
            Elem e;
            const unsigned short bits = word >> (16 * half);
            memcpy(&e, &bits, 2);
            return float(e);
        };
        for (int lane = 0; lane < 32; ++lane) {
            const int g = lane / 4, t = lane % 4 * 2;
            const unsigned *wa = (const unsigned*)slot[lane][1], *wb = (const unsigned*)slot[lane][2];
            for (int e = 0; e < 2; ++e) {
                A[g][t + e] = number(wa[0], e), A[g + 8][t + e] = number(wa[1], e);
                A[g][t + 8 + e] = number(wa[2], e), A[g + 8][t + 8 + e] = number(wa[3], e);
                B[t + e][g] = number(wb[0], e), B[t + 8 + e][g] = number(wb[1], e);
            }
        }
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i) {
                const int m = lane / 4 + 8 * (i / 2), n = lane % 4 * 2 + i % 2;
                for (int k = 0; k < 16; ++k) ((float*)slot[lane][0])[i] += A[m][k] * B[k][n];
            }
    });
}

template <int Size> void cp_async(unsigned address, const void* p, int bytes = Size) {
    if (address % Size || size_t(p) % Size) { fprintf(stderr, "cp.async: %u from %p\n", address, p); abort(); }
    host::Fiber& fiber = host::fibers[host::current];
    const host::Copy copy = {address, p, bytes, Size};
    if (host::late_copies) fiber.open.push_back(copy);
    else host::carry_out(copy);
}
template <int Size> void cp_async_if(bool valid, unsigned address, const void* p) { cp_async<Size>(address, p, valid ? Size : 0); }
inline void cp_async_commit() {
    host::Fiber& fiber = host::fibers[host::current];
    fiber.groups.push_back(fiber.open), fiber.open.clear();
}
template <int Pending> void cp_async_wait() {
    host::Fiber& fiber = host::fibers[host::current];
    while (int(fiber.groups.size()) > Pending) {
        for (const auto& copy : fiber.groups.front()) host::carry_out(copy);
        fiber.groups.erase(fiber.groups.begin());
    }
}

}  // namespace cydnn
