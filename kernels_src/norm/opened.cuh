// A vector of elements as accumulators. bf16: each is a shift or a mask of the word that holds two.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

template <class Elem, int Count> DEVICE void open_into(acc_t<Elem> (&out)[Count], const Vec<Elem, Count>& v) { v.get(out); }
template <int Count> DEVICE void open_into(float (&out)[Count], const Vec<bf16, Count>& v) {
    UNROLL for (int i = 0; i < Count; ++i) {
        const unsigned pair = reinterpret_cast<const unsigned*>(&v)[i / 2];
        out[i] = __uint_as_float(i % 2 ? pair & 0xFFFF0000u : pair << 16);
    }
}

}  // namespace cydnn
