/*@kernel
name   = "resample_fwd_linear_rows_{LANES}"
about  = """Bilinear windows of planes of any type: a block has the rows that its outputs lie between in \
            shared memory, {LANES} cells loaded at once; a thread makes eight neighbours of all rows of a \
            strip."""
LANES  = [1, 8]
params = ["int planes", "int per_block", "int padding", "float unit", "FastDiv units", "FastDiv tiles",
          "FastDiv octets", "FastDiv strips", "FastDiv channels", "FastDiv loads", "FastDiv rows",
          "int cells", "Array<int, 3> sizes", "Array<int, 3> window", "Array<int, 3> stride",
          "Array<int, 3> begin", "Array<int, 3> lift", "Array<int, 3> outs", "Array<int64_t, 5> x_strides",
          "Array<int64_t, 5> y_strides", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(planes, per_block) * tiles", 1, 1]
smem   = "per_block * rows * cells * 4"
needs  = ["1 <= planes < 2**31", "1 <= per_block", "tiles >= 1", "cells >= 2"]
marks  = ["load_x", "store"]
problems = [
    """resample_fwd x=2x3x7x{16 if LANES == 8 else 14}:f16 window=2 stride=1 pre_pad=1 \
       post_pad=2,{2 if LANES == 8 else 4} denominator=2 mode=bilinear padding=edge""",
    "resample_fwd x=2x3x5x16:{'i8' if LANES == 1 else 'f16'} y=2x3x2x8:f16 window=2 stride=2 mode=bilinear",
    """resample_fwd x=2x3x6x{16 if LANES == 8 else 7}:bf16 y=2x3x7x{24 if LANES == 8 else 8}:f32 window=2 \
       stride=1 pre_pad=1 post_pad=1{',8' if LANES == 8 else ''} mode=bilinear padding=zero"""]
@*/
// A tile is `strips` strips of STRIP rows of outputs of per_block planes; a plane has `tiles`, and of x
// `rows` rows of `cells` columns that its windows read, those beside the image filled in. A thread keeps the
// columns and weights of its outputs, and what these are in the two rows that it stands between. Strides are
// w h d c n.
#include "resample/resample.cuh"

constexpr int STRIP = 16, TOGETHER = 4;

// Where the eight outputs of a thread read, and with which weights.
struct Across {
    int at[8];
    float left[8], right[8];
    DEVICE Across(const Axis& axis, int o, const FastDiv& units, float unit, int left0) {
        UNROLL for (int i = 0; i < 8; ++i) {
            unsigned rest;
            at[i] = axis.first(o + i, units, rest) - left0;
            right[i] = axis.window > 1 ? float(rest) * unit : 0;
            left[i] = 1 - right[i];
        }
    }
    // A window of one cell reads no other.
    DEVICE void blend(float (&out)[8], const float* line, bool two) const {
        UNROLL for (int i = 0; i < 8; ++i) {
            const float beside = two ? line[at[i] + 1] : 0;
            out[i] = fma(right[i], beside, left[i] * line[at[i]]);
        }
    }
};

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    int planes, int per_block, int padding, float unit, FastDiv units, FastDiv tiles, FastDiv octets,
    FastDiv strips, FastDiv channels, FastDiv loads, FastDiv rows, int cells, Array<int, 3> sizes,
    Array<int, 3> window, Array<int, 3> stride, Array<int, 3> begin, Array<int, 3> lift, Array<int, 3> outs,
    Array<i64, 5> x_strides, Array<i64, 5> y_strides, Fuse fuse) {
    extern __shared__ float held[];
    unsigned tile, rest;
    const int plane0 = int(tiles.divmod(blockIdx.x, tile)) * per_block, row0 = tile * strips.by * STRIP;
    const bool edge = padding == edge_pad, two = window[0] > 1, two_rows = window[1] > 1;
    const Axis across = {sizes[0], window[0], stride[0], begin[0], lift[0]};
    const Axis down = {sizes[1], window[1], stride[1], begin[1], lift[1]};
    const int left0 = across.first(0, units, rest), top = down.first(row0, units, rest);
    const int here = min(per_block, planes - plane0), lines = here * int(rows.by);

    const auto from = [&](unsigned line, bool& inside) {       // where a line of x begins
        unsigned row, c;
        const unsigned n = channels.divmod(plane0 + rows.divmod(line, row), c);
        const Cell cell(top + int(row), sizes[1]);
        inside = edge || cell.inside;
        return n * x_strides[4] + c * x_strides[3] + cell.at * x_strides[1];
    };
    const int parts = lines * int(loads.by);
    NO_UNROLL for (int i = threadIdx.x; i < parts; i += 256 * TOGETHER) {
        float v[TOGETHER][LANES] = {};
        int at[TOGETHER], line[TOGETHER];
        UNROLL for (int u = 0; u < TOGETHER; ++u) {                    // loads that are under way at once
            unsigned part;
            bool inside;
            line[u] = loads.divmod(min(i + 256 * u, parts - 1), part);
            const int col = part * LANES;
            at[u] = col - left0;
            const i64 off = from(line[u], inside);
            if (inside) fuse_load_x(v[u], off + col * x_strides[0], col);
        }
        UNROLL for (int u = 0; u < TOGETHER; ++u) {
            float* to = held + line[u] * cells + at[u];
            if (i + 256 * u >= parts) break;
            const bool whole = at[u] >= 0 && at[u] + LANES <= cells;
            if (whole) UNROLL for (int l = 0; l < LANES; ++l) to[l] = v[u][l];
            else UNROLL for (int l = 0; l < LANES; ++l)
                if (unsigned(at[u] + l) < unsigned(cells)) to[l] = v[u][l];
        }
    }
    const int before = min(max(-left0, 0), cells);
    const int beside = before + min(max(left0 + cells - sizes[0], 0), cells);
    NO_UNROLL for (int i = threadIdx.x; i < lines * beside; i += 256) {
        const int line = i / beside, h = i - line * beside, at = h < before ? h : cells - beside + h;
        const Cell cell(left0 + at, sizes[0]);
        bool inside;
        const i64 off = from(line, inside);
        float v[1] = {0};
        if (inside && edge) fuse_load_x(v, off + cell.at * x_strides[0], cell.at);
        held[line * cells + at] = v[0];
    }
    __syncthreads();

    unsigned more;
    const int whole = units.divmod(unsigned(stride[1]), more), works = here * int(strips.by * octets.by);
    NO_UNROLL for (int i = threadIdx.x; i < works; i += 256) {
        unsigned octet, strip, c, below;
        const unsigned plane = strips.divmod(octets.divmod(i, octet), strip);
        const int row = row0 + strip * STRIP, n = channels.divmod(plane0 + plane, c);
        if (row >= outs[1]) continue;
        const Across own(across, octet * 8, units, unit, left0);
        const float* line = held + (int(plane * rows.by) + down.first(row, units, below) - top) * cells;
        i64 to = n * y_strides[4] + c * y_strides[3] + row * y_strides[1] + octet * 8;
        unsigned out = ((plane0 + plane) * outs[1] + row) * outs[0] + octet * 8;
        float upper[8], lower[8] = {};
        own.blend(upper, line, two);
        if (two_rows) own.blend(lower, line + cells, two);
        NO_UNROLL for (int left = min(STRIP, outs[1] - row);;) {
            const float second = two_rows ? float(below) * unit : 0;
            float v[8];
            UNROLL for (int k = 0; k < 8; ++k) v[k] = fma(second, lower[k], (1 - second) * upper[k]);
            fuse_store(v, to, out);
            if (--left == 0) break;
            to += y_strides[1], out += outs[0], below += more;
            const int step = whole + (below >= units.by);
            if (below >= units.by) below -= units.by;
            if (step == 0) continue;
            line += step * cells;
            if (two_rows && step == 1) UNROLL for (int k = 0; k < 8; ++k) upper[k] = lower[k];
            else own.blend(upper, line, two);
            if (two_rows) own.blend(lower, line + cells, two);
        }
    }
}
