/*@funcs
name  = "pointwise_fast"
about = "The modes of ops.cu that have a faster form for results that are rounded to 16 bits."
@*/
#include "pointwise/math_fast.cuh"
#include "pointwise/smooth.cuh"

namespace cydnn {

using V = float;
#define FAST(NAME, PARAMETERS, ARGUMENTS) \
    extern "C" __device__ V pw_##NAME PARAMETERS { return Smooth<Fast, V>::NAME ARGUMENTS; }
SMOOTH_MODES(FAST)

}  // namespace cydnn
