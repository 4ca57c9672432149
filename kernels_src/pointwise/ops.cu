/*@funcs
name  = "pointwise_{V}"
about = "One function for each pointwise mode; the splicer pastes their bodies (cydnn/fusion/functions.py)."
V     = ["f32", "f64"]
@*/
// pw_<mode>(x[, b[, t]], attributes in the order of the mode's row in cydnn/ops/pointwise.py) -> value.
// Backward modes: x is dy, b the forward's input. <mode>_ignore: the mode with nan = "ignore".
// Attributes arrive as literals, so that what they switch off is folded away. NaN and
// infinities as NumPy has them.
#include "pointwise/math_exact.cuh"
#include "pointwise/smooth.cuh"

namespace cydnn {

#define FLAG(NAME, CONDITION) \
    extern "C" __device__ V pw_##NAME(V x, V b) { return CONDITION ? V(1) : V(0); }
#define ONE(NAME, RESULT) \
    extern "C" __device__ V pw_##NAME(V x) { return RESULT; }
#define TWO(NAME, RESULT) \
    extern "C" __device__ V pw_##NAME(V x, V b) { return RESULT; }

ONE(identity, x)
ONE(abs, fabs(x))
ONE(neg, -x)
ONE(ceil, ceil(x))
ONE(floor, floor(x))
ONE(trunc, trunc(x))                             // behind divisions of whole numbers
ONE(sqrt, sqrt(x))
ONE(rsqrt, V(1) / sqrt(x))
ONE(reciprocal, V(1) / x)
ONE(exp, exp(x))
ONE(log, log(x))
ONE(sin, Exact::sin(x))
ONE(cos, Exact::cos(x))
ONE(tan, Exact::tan(x))
ONE(erf, erf(x))
ONE(logical_not, x == 0 ? V(1) : V(0))

TWO(add, x + b)
TWO(sub, x - b)
TWO(mul, x * b)
TWO(div, x / b)
TWO(add_square, fma(b, b, x))
TWO(pow, pow(x, b))
TWO(atan2, atan2(x, b))
TWO(mod, fmod(x, b))
TWO(min, min_nan(x, b))
TWO(max, max_nan(x, b))
TWO(min_ignore, fmin(x, b))
TWO(max_ignore, fmax(x, b))

FLAG(cmp_eq, x == b)
FLAG(cmp_neq, x != b)
FLAG(cmp_gt, x > b)
FLAG(cmp_ge, x >= b)
FLAG(cmp_lt, x < b)
FLAG(cmp_le, x <= b)
FLAG(logical_and, x != 0 && b != 0)
FLAG(logical_or, x != 0 || b != 0)
extern "C" __device__ V pw_binary_select(V x, V b, V t) { return t != 0 ? x : b; }

// A NaN fails every comparison: it must be asked for first.
DEVICE V relu(V x, V low, V high, V slope, V of_nan) {
    const V below = slope != 0 ? low + slope * (x - low) : low;
    return x != x ? of_nan : x > low ? (x < high ? x : high) : below;
}
DEVICE V relu_gradient(V dy, V x, V low, V high, V slope, V of_nan) {
    const V below = slope != 0 ? dy * slope : V(0);
    return x != x ? of_nan : x > low ? (x < high || high == V(INFINITY) ? dy : V(0)) : below;
}
extern "C" __device__ V pw_relu_fwd(V x, V low, V high, V slope) {
    return relu(x, low, high, slope, x);
}
extern "C" __device__ V pw_relu_fwd_ignore(V x, V low, V high, V slope) {
    return relu(x, low, high, slope, 0);
}
extern "C" __device__ V pw_relu_bwd(V x, V b, V low, V high, V slope) {
    return relu_gradient(x, b, low, high, slope, b);
}
extern "C" __device__ V pw_relu_bwd_ignore(V x, V b, V low, V high, V slope) {
    return relu_gradient(x, b, low, high, slope, 0);
}
TWO(tanh_bwd_from_y, x * (1 - b * b))
TWO(sigmoid_bwd_from_y, x * b * (1 - b))

#define EXACT(NAME, PARAMETERS, ARGUMENTS) \
    extern "C" __device__ V pw_##NAME PARAMETERS { return Smooth<Exact, V>::NAME ARGUMENTS; }
SMOOTH_MODES(EXACT)

}  // namespace cydnn
