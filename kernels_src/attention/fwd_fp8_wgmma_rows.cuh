// Attention of 8 bits on Hopper (sm_90a): the loop over the keys of sdpa_fwd_fp8_wgmma.cu.
#pragma once
#include "fwd_fp8_wgmma_sums.cuh"

namespace cydnn {

// A warpgroup goes through the keys of its 64 queries. While it makes weights of its scores, the tensor cores
// are those of another: they ask for products in turns, or all would wait for the same unit at once.
template <class Tile> struct SdpaRows8 {
    SdpaSums8<Tile> sums;
    const SdpaShared8<Tile>& shared;
    const SdpaOrder& order;
    const int group;                                                 // of those that multiply
    float scale;                                                     // to powers of two; above 0
    bool is_negative;                                                // what the scores are scaled by
    int k_count = 0, v_count = 0, first[2], end[2];

    DEVICE void set_scale(float by) {
        is_negative = by < 0;
        scale = fmaxf(fabsf(by) * 1.4426950408889634f, FLT_MIN);     // what is hidden stays infinite
    }
    DEVICE SdpaWork work(int n) const {
        auto* const b = shared.barriers;
        SdpaWork w;
        barrier_wait(b->q_full + n % Tile::q_slots, n / Tile::q_slots & 1);
        UNROLL for (int i = 0; i < int(sizeof(w) / 4); ++i)          // the same in a warp, as all may know
            reinterpret_cast<int*>(&w)[i] = __shfl_sync(~0u, reinterpret_cast<int*>(b->work + n % 2)[i], 0);
        return w;
    }
    // What a thread knows of its rows; columns count from its first one on.
    DEVICE void begin(const SdpaWork& w, int row) {
        UNROLL for (int h = 0; h < 2; ++h) {
            const int r = row + 8 * h, column = threadIdx.x % 4 * 2;
            first[h] = order.first_of(w, r) - column;
            end[h] = (r < w.queries ? order.end_of(w, r) : 0) - column;
        }
        sums.clear();
    }
    DEVICE void turn() const { turn_wait(group); }
    DEVICE void give() const { turn_give((group + 1) % Tile::groups); }
    DEVICE void k_wait() const {
        barrier_wait(shared.barriers->k_full + k_count % Tile::stages, k_count / Tile::stages & 1);
    }
    DEVICE void v_wait() const {
        barrier_wait(shared.barriers->v_full + v_count % Tile::stages, v_count / Tile::stages & 1);
    }
    DEVICE unsigned k() const { return shared_address(shared.k(k_count % Tile::stages)); }
    DEVICE unsigned v() const { return shared_address(shared.v(v_count % Tile::stages)); }
    DEVICE void k_done() {
        if (threadIdx.x % 128 == 0) barrier_arrive(shared.barriers->k_empty + k_count % Tile::stages);
        ++k_count;
    }
    DEVICE void v_done() {
        if (threadIdx.x % 128 == 0) barrier_arrive(shared.barriers->v_empty + v_count % Tile::stages);
        ++v_count;
    }
    // The compiler moves arithmetic across barriers, but not in front of what it needs: 0.
    DEVICE float zero() const { return *const_cast<const volatile float*>(&shared.raw->zero); }
    DEVICE void see(const SdpaWork& w, int block) {
        if (is_negative) sums.negate();
        if (block < w.whole || block >= w.whole_end) sums.hide(first, end, block * Tile::keys);
    }

    DEVICE void scores(unsigned q) {
        wgmma_begin(sums.s);
        sums.ask_scores(q, k());
        wgmma_wait<0>(sums.s);
    }
    DEVICE void values() {
        v_wait();
        sums.weights_change();
        wgmma_begin(sums.part);
        sums.ask_values(v());
        wgmma_wait<0>(sums.part), sums.weights_change();
        v_done();
        sums.add_part(sums.shrink);
    }
    // Three warpgroups: registers hold scores, or what a step adds to o.
    DEVICE void apart(const SdpaWork& w, unsigned q) {
        NO_UNROLL for (int block = w.end - 1; block >= w.first; --block) {
            k_wait();
            turn();
            scores(q);
            give();
            k_done();
            see(w, block);
            sums.raise(scale);
            sums.exponentials(scale, 0);
            values();
        }
    }
    // Two: both products at once.
    DEVICE void together(const SdpaWork& w, unsigned q) {
        if (!w.has_keys()) return;
        k_wait();
        scores(q);
        k_done();
        see(w, w.end - 1);
        sums.raise(scale);
        sums.exponentials(scale, 0);
        NO_UNROLL for (int block = w.end - 2; block >= w.first; --block) {
            turn();
            k_wait();
            sums_change(sums.part), sums.weights_change(), wgmma_begin(sums.s);
            sums.ask_scores(q, k());
            v_wait();
            wgmma_fence();                                           // behind the loop it wants its own
            sums.ask_values(v());
            wgmma_wait<1>(), sums_change(sums.s);
            k_done();
            see(w, block);
            const float shrink[2] = {sums.shrink[0], sums.shrink[1]};
            sums.raise(scale);
            wgmma_wait<0>(sums.part), sums.weights_change();
            give();
            v_done();
            const float behind = zero();
            sums.add_part(shrink);
            sums.exponentials(scale, behind);
        }
        values();
    }
    DEVICE void steps(const SdpaWork& w, unsigned q) {
        if constexpr (Tile::groups == 3) apart(w, q);
        else together(w, q);
    }
};

}  // namespace cydnn
