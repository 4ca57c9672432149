// Attention of 8 bits on Hopper (sm_90a): who loads, of sdpa_fwd_fp8_wgmma.cu.
//
//   SdpaTile8<f8_e4m3, Rows>   sizes: Rows queries of a head; a step is of 128 keys, a head of up to 128
//   SdpaShared8<Tile>          what a block has in shared memory beside SdpaShared, and its barriers
//   sdpa_bring_kv8             the warp that loads keys and values
//   sdpa_turn_values           the two warps that transpose values
//   Wgmma8<f8_e4m3>            products of 8 bits
//
// A product of 8 bits reads its second operand along the depth alone, and the depth of weights @ values are
// keys: so values are transposed on their way, to lines of 128 keys. The orders that this leaves are made use
// of: of 16 keys, 2t, 2t + 1, 2t + 8, 2t + 9 become neighbours, of which thread t of four has the scores; of
// 16 elements of a value, the even ones come in front of the odd ones, so that a thread sums four neighbours.
#pragma once
#include "fp8.cuh"
#include "fwd_wgmma.cuh"

namespace cydnn {

template <class Elem, int Rows> struct SdpaTile8 {
    using Type = Elem;
    static constexpr int rows = Rows, keys = 128, depth = LINE, depth_qk = depth / 2;       // qk: pairs
    static constexpr int groups = rows / 64, stages = 2, raw_stages = 2, q_slots = 2, turning = 2;
    static constexpr int gives = groups == 3 ? 32 : 40, takes = groups == 3 ? 160 : 232;    // registers
    static constexpr bool is_wide = false;
    static constexpr int q_panel = rows * LINE, q_bytes = q_panel, k_bytes = keys * LINE, v_bytes = k_bytes;
    static constexpr int bytes = q_slots * q_bytes + (2 * stages + raw_stages) * k_bytes;
};

template <class Tile> struct SdpaShared8 : SdpaShared<Tile> {
    struct Raw {
        uint64_t full[Tile::raw_stages], empty[Tile::raw_stages];
        int rows[Tile::raw_stages];                                  // keys that are there; 0: no more come
        float zero;
    }* const raw;

    DEVICE explicit SdpaShared8(unsigned char* memory)
        : SdpaShared<Tile>(memory), raw(reinterpret_cast<Raw*>(this->barriers + 1)) {}
    DEVICE unsigned char* values(int stage) const { return this->v(Tile::stages) + stage * Tile::k_bytes; }
    // One thread, then a barrier of the block.
    DEVICE void init() const {
        auto* const b = this->barriers;
        UNROLL for (int i = 0; i < 2; ++i) {
            barrier_init(b->work_full + i, 1), barrier_init(b->work_empty + i, 1);
            barrier_init(b->q_full + i, 1), barrier_init(b->q_empty + i, 4 * Tile::groups);
        }
        UNROLL for (int i = 0; i < Tile::stages; ++i) {
            barrier_init(b->k_full + i, 1), barrier_init(b->k_empty + i, Tile::groups);
            barrier_init(b->v_full + i, Tile::turning), barrier_init(b->v_empty + i, Tile::groups);
        }
        UNROLL for (int i = 0; i < Tile::raw_stages; ++i)
            barrier_init(raw->full + i, 1), barrier_init(raw->empty + i, Tile::turning);
        raw->zero = 0;
        barriers_begin();
    }
};

// A warp: keys, and values as they lie.
template <class Tile>
DEVICE void sdpa_bring_kv8(const SdpaShared8<Tile>& shared, const SdpaPlace& k, const SdpaPlace& v) {
    auto* const b = shared.barriers;
    auto* const raw = shared.raw;
    const bool is_first = threadIdx.x % 32 == 0;
    int count = 0;
    NO_UNROLL for (int n = 0;; ++n) {
        barrier_wait(b->work_full + n % 2, n / 2 & 1);
        const SdpaWork w = b->work[n % 2];
        __syncwarp();
        if (is_first) barrier_arrive(b->work_empty + n % 2);
        NO_UNROLL for (int j = w.end - 1; j >= w.first; --j, ++count) {
            const int stage = count % Tile::stages, at = count % Tile::raw_stages;
            barrier_wait(b->k_empty + stage, count / Tile::stages & 1 ^ 1);
            if (is_first) {
                barrier_expect(b->k_full + stage, Tile::k_bytes);
                k.load<1>(shared.k(stage), 0, w, j * Tile::keys, b->k_full + stage);
            }
            barrier_wait(raw->empty + at, count / Tile::raw_stages & 1 ^ 1);
            if (is_first) {
                raw->rows[at] = min(w.keys - j * Tile::keys, Tile::keys);
                barrier_expect(raw->full + at, Tile::k_bytes);
                v.load<1>(shared.values(at), 0, w, j * Tile::keys, raw->full + at);
            }
            __syncwarp();
        }
        if (w.row < 0) break;
    }
    const int at = count % Tile::raw_stages;
    barrier_wait(raw->empty + at, count / Tile::raw_stages & 1 ^ 1);
    if (is_first) raw->rows[at] = 0, barrier_arrive(raw->full + at);
}

// Of a word of two keys those that are there, of `rows`.
DEVICE unsigned sdpa_there(int key, int rows) {
    return (key < rows ? 0xFFFFu : 0) | (key + 1 < rows ? 0xFFFF0000u : 0);
}

// Two warps, each with every other 16 keys. Values beyond the length of their batch become 0: 0 times what
// lies there may be NaN.
template <class Tile> DEVICE void sdpa_turn_values(const SdpaShared8<Tile>& shared) {
    auto* const b = shared.barriers;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % Tile::turning;
    NO_UNROLL for (int n = 0;; ++n) {
        const int at = n % Tile::raw_stages, stage = n % Tile::stages;
        barrier_wait(shared.raw->full + at, n / Tile::raw_stages & 1);
        const int rows = shared.raw->rows[at];
        if (rows == 0) return;
        barrier_wait(b->v_empty + stage, n / Tile::stages & 1 ^ 1);
        const unsigned from = shared_address(shared.values(at)), to = shared_address(shared.v(stage));
        NO_UNROLL for (int i = warp; i < Tile::keys / 16; i += Tile::turning) {
            unsigned r[4][4];
            UNROLL for (int g = 0; g < 4; ++g)
                ldmatrix_x4_trans(r[g], from + (16 * i + lane % 16) * LINE
                                            + (2 * g + lane / 16 ^ lane & 7) * CHUNK);
            if (rows < Tile::keys) {
                const int key = 16 * i + lane % 4 * 2;
                UNROLL for (int g = 0; g < 4; ++g)
                    UNROLL for (int m = 0; m < 4; ++m) r[g][m] &= sdpa_there(key + m % 2 * 8, rows);
            }
            UNROLL for (int g = 0; g < 4; ++g)
                stmatrix_x4(to + (32 * g + lane) * LINE + (i ^ lane & 7) * CHUNK,
                            {__byte_perm(r[g][0], r[g][1], 0x6420), __byte_perm(r[g][0], r[g][1], 0x7531),
                             __byte_perm(r[g][2], r[g][3], 0x6420), __byte_perm(r[g][2], r[g][3], 0x7531)});
        }
        fence_async();
        __syncwarp();
        if (lane == 0) barrier_arrive(b->v_full + stage), barrier_arrive(shared.raw->empty + at);
    }
}

// PTX ISA §wgmma.mma_async (.e4m3, .e5m2): d (64 x 128) = a @ b, or d + a @ b where keep is not 0, 32 deep.
// b is k-major, a too, or weights in registers: e4m3, whatever the values are.
template <class Elem> struct Wgmma8;
#define CYDNN_WGMMA8(ELEM, NAME)                                                                         \
    template <> struct Wgmma8<ELEM> {                                                                    \
        static DEVICE void add(float (&d)[64], uint64_t a, uint64_t b, int keep) {                       \
            asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %66, 0;\n\t"                               \
                         "wgmma.mma_async.sync.aligned.m64n128k32.f32." NAME "." NAME                     \
                         " {" CYDNN_NAMES_64 "}, %64, %65, p, 1, 1;\n\t}"                                \
                         : CYDNN_SUMS_64(0) : "l"(a), "l"(b), "r"(keep));                                \
        }                                                                                                \
        static DEVICE void add(float (&d)[64], const unsigned (&a)[4], uint64_t b, int keep) {           \
            asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %69, 0;\n\t"                               \
                         "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3." NAME                         \
                         " {" CYDNN_NAMES_64 "}, {%64,%65,%66,%67}, %68, p, 1, 1;\n\t}"                  \
                         : CYDNN_SUMS_64(0)                                                              \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));               \
        }                                                                                                \
    };
CYDNN_WGMMA8(f8_e4m3, "e4m3")
CYDNN_WGMMA8(f8_e5m2, "e5m2")
#undef CYDNN_WGMMA8

}  // namespace cydnn
