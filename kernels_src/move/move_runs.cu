/*@kernel
name   = "move_runs_{W}"
about  = "Copy runs of neighbouring words of {W} bytes that begin anywhere: 16 bytes of the target at once."
W      = [1, 2, 4]
params = ["const u8* x", "u8* y", "unsigned items", "FastDiv chunks", "unsigned length",
          "Array<FastDiv, 8> x_dims", "Array<int64_t, 8> x_strides", "Array<FastDiv, 8> y_dims",
          "Array<int64_t, 8> y_strides"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 1024)", 1, 1]
needs  = ["1 <= items < 2**31", "length >= 1"]
problems = [
    "slice x=19x9x{200 // W + 3}:{'i8' if W == 1 else 'f16' if W == 2 else 'f32'} start=1,0,2",
    """concatenate axis=2 inputs=\
7x9x{'131:u8' if W == 1 else '67:bf16' if W == 2 else '37:f32'}+\
7x9x{'165:u8' if W == 1 else '79:bf16' if W == 2 else '33:f32'}"""]
@*/
// An item is 16 aligned bytes of the target, or what a run has of them: `chunks` of a run, more than enough.
// Of the source it reads the aligned words that these lie in, all of them inside the run. Up to four dims,
// innermost first, strides in words; run r begins at word r * length. Where both addresses are one, all is
// there.
#include "lib/walk.cuh"

// PTX ISA §ld.global.nc: 0 where it is not `wanted`. No branch: loads of chunks are under way at once.
// Through L1: neighbours read the same lines.
DEVICE unsigned load_if(const unsigned* p, int wanted) {
    unsigned w;
    asm("{ .reg .pred %%p_at; setp.ne.s32 %%p_at, %2, 0; mov.u32 %0, 0; "
        "@%%p_at ld.global.nc.u32 %0, [%1]; }"
        : "=r"(w) : "l"(__cvta_generic_to_global(p)), "r"(wanted));
    return w;
}

struct Chunk {
    const u8* from;
    u8* to;
    int begin, end;                                     // of the run, in bytes; none: begin >= end
    int off;
    bool whole;
    unsigned word[5];

    DEVICE void read(int bytes) {
        off = W < 4 ? int(reinterpret_cast<unsigned long long>(from + begin) & 3) : 0;
        whole = begin >= off && end - begin == 16 && (off == 0 || begin + 20 - off <= bytes);
        const unsigned* at = reinterpret_cast<const unsigned*>(from + begin - off);
        UNROLL for (int i = 0; i < 5; ++i) word[i] = load_if(at + i, whole && (i < 4 || off));
    }
    DEVICE void write() const {
        const auto two = [&](int i) { return __funnelshift_r(word[i], word[i + 1], 8 * off); };
        if (whole) *reinterpret_cast<uint4*>(to + begin) = make_uint4(two(0), two(1), two(2), two(3));
        else write_some();
    }
    // Where a run begins or ends: all of its words are under way at once.
    DEVICE void write_some() const {
        using Access = typename Word<W>::type;
        Access held[16 / W];
        UNROLL for (int i = 0; i < 16 / W; ++i)
            if (begin + i * W < end) held[i] = *reinterpret_cast<const Access*>(from + begin + i * W);
        UNROLL for (int i = 0; i < 16 / W; ++i)
            if (begin + i * W < end) *reinterpret_cast<Access*>(to + begin + i * W) = held[i];
    }
};

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const u8* x, u8* y, unsigned items, FastDiv chunks, unsigned length, Array<FastDiv, 8> x_dims,
    Array<i64, 8> x_strides, Array<FastDiv, 8> y_dims, Array<i64, 8> y_strides) {
    if (x == y) return;
    const int bytes = int(length) * W;
    Chunk held[4];
    UNROLL for (int u = 0; u < 4; ++u) {
        const unsigned item = blockIdx.x * 1024 + threadIdx.x + 256 * u;
        unsigned chunk;
        const unsigned run = chunks.divmod(min(item, items - 1), chunk);
        Chunk& h = held[u];
        h.from = x + offset_of<4>(run * length, x_dims, x_strides) * W;
        h.to = y + offset_of<4>(run * length, y_dims, y_strides) * W;
        const int place = int(chunk) * 16 - int(reinterpret_cast<unsigned long long>(h.to) & 15);
        h.begin = max(place, 0), h.end = item < items ? min(place + 16, bytes) : 0;
    }
    UNROLL for (int u = 0; u < 4; ++u) held[u].read(bytes);
    UNROLL for (int u = 0; u < 4; ++u) held[u].write();
}
