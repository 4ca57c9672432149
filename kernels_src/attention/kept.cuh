// Which weights of a warp's tile dropout keeps, by cydnn/ops/philox.py: bit 4 j + i is that of element i of
// block j, as mma_m16n8 has sums.
//
//   kept_of_keys<Keys>(…)        rows are queries
//   kept_of_queries<Queries>(…)  rows are keys
//
// Eight keys of a query are an octet, which is drawn at once. Lanes that share octets draw one each for every
// 16 columns.
#pragma once
#include "lib/number.cuh"
#include "lib/philox.cuh"

namespace cydnn {

struct SdpaKept {
    Draw draw;
    Threshold than;
    int heads, s_q, octets;
    DEVICE SdpaKept(const Number<i64>& seed, const Number<i64>& offset, Threshold than, int heads, int s_q,
                    int s_kv, int is_on)
        : draw{0, 0}, than(than), heads(heads), s_q(s_q), octets((s_kv + 7) / 8) {
        if (is_on) draw = {(unsigned long long)seed.load(), (unsigned long long)offset.load()};
    }
    DEVICE unsigned of(int batch, int head, int query, int octet) const {
        return draw.kept(((i64(batch) * heads + head) * s_q + query) * octets + octet, than).bits();
    }
};
// Own rows are queries; keys from `key` on. head, query: of the rows lane / 4 and that + 8.
template <int Keys>
DEVICE unsigned kept_of_keys(const SdpaKept& kept, int batch, const int (&head)[2], const int (&query)[2],
                             int key) {
    const int lane = threadIdx.x % 32, second = lane % 4 / 2;
    const int at = second ? head[1] : head[0], own = second ? query[1] : query[0];
    unsigned mask = 0;
    NO_UNROLL for (int n = 0; n < Keys / 16; ++n) {
        const unsigned bits = kept.of(batch, at, own, key / 8 + 2 * n + lane % 2);
        UNROLL for (int m = 0; m < 4; ++m) {
            const unsigned two = __shfl_sync(~0u, bits, (lane & 28) + m) >> lane % 4 * 2 & 3;
            mask |= two << 8 * n + m % 2 * 4 + m / 2 * 2;
        }
    }
    return mask;
}
// Own rows are keys.
template <int Queries>
DEVICE unsigned kept_of_queries(const SdpaKept& kept, int batch, int head, int query, int key) {
    const int lane = threadIdx.x % 32, which = lane / 4;
    unsigned mask = 0;
    NO_UNROLL for (int n = 0; n < Queries / 16; ++n) {
        const int other = query + 16 * n + which % 2 * 8 + lane % 4 * 2 + which / 2 % 2;
        const unsigned bits = kept.of(batch, head, other, key / 8 + which / 4);
        UNROLL for (int m = 0; m < 8; ++m) {
            const unsigned one = __shfl_sync(~0u, bits, 4 * m + lane % 4) >> lane / 4 & 1;
            mask |= one << 8 * n + m % 2 * 4 + m / 4 * 2 + m / 2 % 2;
        }
    }
    return mask;
}

}  // namespace cydnn
