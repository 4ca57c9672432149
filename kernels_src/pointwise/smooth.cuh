// The modes that need exp and its kin, over either set of functions: Smooth<Exact, V> and Smooth<Fast,
// float>. 1 - s and 1 - t^2 are computed from e, where they do not cancel.
//
// SMOOTH_MODES(ROW) lists them: ROW(mode, parameters, arguments).
#pragma once
#include "lib/types.cuh"

namespace cydnn {

template <class M, class V> struct Smooth {
    static DEVICE V sigmoid(V x, V e) { return M::ratio(x >= 0 ? V(1) : e, 1 + e); }      // e = exp(-|x|)
    static DEVICE V slope(V e) { return M::ratio(e, (1 + e) * (1 + e)); }           // sigmoid * (1 - sigmoid)
    static DEVICE V decay(V x, V beta) { return M::exp_of_product(fabs(x), -fabs(beta)); }

    static DEVICE V tanh_fwd(V x) { return M::tanh(x); }
    static DEVICE V sigmoid_fwd(V x) { return M::sigmoid(x); }
    static DEVICE V sigmoid_bwd(V dy, V x) { return dy * slope(M::exp(-fabs(x))); }
    static DEVICE V tanh_bwd(V dy, V x) { return dy * (4 * slope(M::exp(-2 * fabs(x)))); }
    static DEVICE V elu_fwd(V x, V alpha) { return M::elu(x, alpha); }
    static DEVICE V elu_bwd(V dy, V x, V alpha) { return dy * (x > 0 ? V(1) : alpha * M::exp(x)); }
    static DEVICE V softplus_fwd(V x, V beta) {
        return fmax(x, V(0)) + M::quotient(M::log1p_decay(x, beta), beta);          // of NaN: the second
    }
    static DEVICE V softplus_bwd(V dy, V x, V beta) { return dy * sigmoid(beta * x, decay(x, beta)); }
    static DEVICE V swish_fwd(V x, V beta) { return x * M::sigmoid(x, beta); }
    static DEVICE V swish_bwd(V dy, V x, V beta) {
        const V e = decay(x, beta);
        return dy * (sigmoid(beta * x, e) + beta * x * slope(e));
    }
    static DEVICE V gelu_fwd(V x) { return M::gelu(x); }
    static DEVICE V gelu_bwd(V dy, V x) {
        return dy * (M::normal(x) + x * (V(0.3989422804014327) * M::exp_of_product(V(-0.5) * x, x)));
    }
    // (1 + tanh u) / 2 = sigmoid(2u), u = a (x + b x^3). x^2 is bounded, or 0 * inf would
    // make NaN of finite x.
    static DEVICE V twice_u(V x) { return V(2 * 0.7978845608028654) * fma(V(0.044715) * x * x, x, x); }
    static DEVICE V gelu_approx_tanh_fwd(V x) { return x * M::gate(twice_u(x)); }
    static DEVICE V gelu_approx_tanh_bwd(V dy, V x) {
        const V u = twice_u(x), e = M::exp(-fabs(u));
        const V bound = fmin(x * x, V(1e30));
        return dy * (sigmoid(u, e) +
                     x * slope(e) * (V(2 * 0.7978845608028654) * fma(V(3 * 0.044715), bound, V(1))));
    }
};

#define SMOOTH_MODES(ROW)                              \
    ROW(sigmoid_fwd, (V x), (x))                       \
    ROW(tanh_bwd, (V x, V b), (x, b))                  \
    ROW(sigmoid_bwd, (V x, V b), (x, b))               \
    ROW(elu_fwd, (V x, V alpha), (x, alpha))           \
    ROW(elu_bwd, (V x, V b, V alpha), (x, b, alpha))   \
    ROW(softplus_fwd, (V x, V beta), (x, beta))        \
    ROW(softplus_bwd, (V x, V b, V beta), (x, b, beta)) \
    ROW(swish_fwd, (V x, V beta), (x, beta))           \
    ROW(swish_bwd, (V x, V b, V beta), (x, b, beta))   \
    ROW(gelu_fwd, (V x), (x))                          \
    ROW(gelu_bwd, (V x, V b), (x, b))                  \
    ROW(gelu_approx_tanh_fwd, (V x), (x))              \
    ROW(gelu_approx_tanh_bwd, (V x, V b), (x, b))      \
    ROW(tanh_fwd, (V x), (x))

}  // namespace cydnn
