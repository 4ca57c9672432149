// The words every kernel is written in: element types, accumulators, vectors, small parameter structs.
//
//   f64 f32 f16 bf16 i8 u8 i32 i64     element types, named like the rows of cydnn/dtypes.py
//   acc_t<f16>                         what a type is computed in: double for f64, int for i32, else float
//   to_acc(x), from_acc<Elem>(acc)     conversions; from_acc rounds once, to nearest even
//   Vec<Elem, Count>                   neighbours in memory, moved in the widest accesses (16 bytes at most)
//   Array<Elem, Count>  FastDiv  Fuse  kernel parameters; their layout is known to cydnn/kernels/pack.py
//
// Axes arrive as macros (#define T f16), so nothing in lib/ is called by a single capital letter.
// "PTX ISA §word" names the section of the manual (9.0) about that instruction; section numbers move.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <float.h>
#include <stdint.h>

#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#define DEVICE __device__ __forceinline__

namespace cydnn {

using f64 = double;
using f32 = float;
using f16 = __half;
using bf16 = __nv_bfloat16;
using i8 = int8_t;
using u8 = uint8_t;
using i32 = int32_t;
using i64 = int64_t;

template <class Elem> struct Acc { using type = float; };
template <> struct Acc<f64> { using type = double; };
template <> struct Acc<i32> { using type = int; };
template <class Elem> using acc_t = typename Acc<Elem>::type;

template <class Elem> DEVICE acc_t<Elem> to_acc(Elem x) { return acc_t<Elem>(x); }
template <> DEVICE float to_acc(f16 x) { return __half2float(x); }
template <> DEVICE float to_acc(bf16 x) { return __bfloat162float(x); }

// One rounding to nearest even, from float or from double. Integers saturate; NaN becomes 0.
template <class Elem> struct FromAcc;
template <> struct FromAcc<f64> { static DEVICE f64 of(double x) { return x; } };
template <> struct FromAcc<f32> {
    static DEVICE f32 of(float x) { return x; }
    static DEVICE f32 of(double x) { return __double2float_rn(x); }
};
template <> struct FromAcc<f16> {
    static DEVICE f16 of(float x) { return __float2half_rn(x); }
    static DEVICE f16 of(double x) { return __double2half(x); }
};
template <> struct FromAcc<bf16> {
    static DEVICE bf16 of(float x) {
#if __CUDA_ARCH__ >= 800
        return __float2bfloat16_rn(x);
#else                                                               // the same without a branch
        const unsigned word = __float_as_uint(x), rounded = word + 0x7FFF + (word >> 16 & 1);
        return __ushort_as_bfloat16((x != x ? 0x7FFF0000u : rounded) >> 16);
#endif
    }
    static DEVICE bf16 of(double x) { return __double2bfloat16(x); }
};
template <> struct FromAcc<i64> {
    static DEVICE i64 of(float x) { return x == x ? __float2ll_rn(x) : 0; }
    static DEVICE i64 of(double x) { return x == x ? __double2ll_rn(x) : 0; }
};
template <> struct FromAcc<i32> {
    static DEVICE i32 of(int x) { return x; }
    static DEVICE i32 of(float x) { return __float2int_rn(x); }      // PTX ISA §cvt: clamps; NaN to 0
    static DEVICE i32 of(double x) { return x == x ? __double2int_rn(x) : 0; }
};
template <> struct FromAcc<i8> {
    template <class Value>
    static DEVICE i8 of(Value x) { return i8(max(-128, min(127, FromAcc<i32>::of(x)))); }
};
template <> struct FromAcc<u8> {
    template <class Value> static DEVICE u8 of(Value x) { return u8(max(0, min(255, FromAcc<i32>::of(x)))); }
};
template <class Elem, class Value> DEVICE Elem from_acc(Value x) { return FromAcc<Elem>::of(x); }

// Two neighbours at once, in one cvt.rn.f16x2 or bf16x2 (sm_80) if there is one; `out` is aligned to a pair.
template <class Elem, class Value> DEVICE void from_acc2(Elem* out, Value a, Value b) {
    out[0] = from_acc<Elem>(a), out[1] = from_acc<Elem>(b);
}
DEVICE void from_acc2(f16* out, float a, float b) {
    *reinterpret_cast<__half2*>(out) = __floats2half2_rn(a, b);
}
#if __CUDA_ARCH__ >= 800
DEVICE void from_acc2(bf16* out, float a, float b) {
    *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(a, b);
}
#endif

// The lowest finite value: where a maximum begins.
template <class Elem> DEVICE Elem lowest();
template <> DEVICE f64 lowest() { return -DBL_MAX; }
template <> DEVICE f32 lowest() { return -FLT_MAX; }
template <> DEVICE f16 lowest() { return __ushort_as_half(0xFBFF); }
template <> DEVICE bf16 lowest() { return __ushort_as_bfloat16(0xFF7F); }
template <> DEVICE i8 lowest() { return INT8_MIN; }
template <> DEVICE u8 lowest() { return 0; }
template <> DEVICE i32 lowest() { return INT32_MIN; }
template <> DEVICE i64 lowest() { return INT64_MIN; }

// ---- Kernel parameters (host side: cydnn/kernels/pack.py) ----

template <class Elem, int Count> struct Array {
    Elem v[Count];
    DEVICE const Elem& operator[](int i) const { return v[i]; }     // unroll, or it goes to local memory
};

// n / by for 0 <= n < 2^31 and 1 <= by < 2^31, without a division. With 2^(shr-1) < by <= 2^shr and
// mul = ceil(2^(31+shr) / by), which is < 2^32:  0 <= mul*by - 2^(31+shr) < by <= 2^shr,  so by Granlund and
// Montgomery (1994, theorem 4.2)  n / by = n * mul >> (31 + shr) = umulhi(2n, mul) >> shr,  also for by = 1.
struct FastDiv {
    unsigned mul, shr, by;
    DEVICE unsigned div(unsigned n) const { return __umulhi(n + n, mul) >> shr; }
    DEVICE unsigned mod(unsigned n) const { return n - div(n) * by; }
    DEVICE unsigned divmod(unsigned n, unsigned& rest) const {      // returns n / by
        const unsigned q = div(n);
        rest = n - q * by;
        return q;
    }
};

struct Fuse { unsigned long long v[1]; };      // pointers and numbers of spliced code, as many as it needs

// ---- Vectors ----

template <int Bytes> struct Word { using type = unsigned char; };
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<4> { using type = unsigned; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<16> { using type = uint4; };

// PTX ISA §ld.global.nc: no thread writes it while the kernel runs; L1::no_allocate: it is read once.
template <class Access> DEVICE Access load_once(const Access* p) { return __ldg(p); }
template <> DEVICE unsigned load_once(const unsigned* p) {
    unsigned w;
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(w) : "l"(__cvta_generic_to_global(p)));
    return w;
}
template <> DEVICE uint2 load_once(const uint2* p) {
    uint2 w;
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
        : "=r"(w.x), "=r"(w.y) : "l"(__cvta_generic_to_global(p)));
    return w;
}
template <> DEVICE uint4 load_once(const uint4* p) {
    uint4 w;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
        : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(__cvta_generic_to_global(p)));
    return w;
}

// Count neighbours (a power of two). Pointers must be aligned to Vec::align bytes, 16 at most.
//   auto x = Vec<T, 8>::load(p);   x[i] = ...;   x.store(q);
template <class Elem, int Count> struct alignas(Count * sizeof(Elem) < 16 ? Count * sizeof(Elem) : 16) Vec {
    static constexpr int count = Count, align = Count * sizeof(Elem) < 16 ? int(Count * sizeof(Elem)) : 16;
    static constexpr int words = Count * int(sizeof(Elem)) / align;
    static_assert((Count & (Count - 1)) == 0, "Vec: Count must be a power of two");
    using Access = typename Word<align>::type;

    Elem v[Count];
    DEVICE Elem& operator[](int i) { return v[i]; }
    DEVICE const Elem& operator[](int i) const { return v[i]; }

    template <class Read> static DEVICE Vec read(const Elem* p, Read one) {
        Vec out;
        UNROLL for (int i = 0; i < words; ++i)
            reinterpret_cast<Access*>(&out)[i] = one(reinterpret_cast<const Access*>(p) + i);
        return out;
    }
    template <class Write> DEVICE void write(Elem* p, Write one) const {
        UNROLL for (int i = 0; i < words; ++i)
            one(reinterpret_cast<Access*>(p) + i, reinterpret_cast<const Access*>(this)[i]);
    }
    // load_nc: read-only. store_stream: PTX ISA §st, .cs
    static DEVICE Vec load(const Elem* p) { return read(p, [](const Access* a) { return *a; }); }
    static DEVICE Vec load_nc(const Elem* p) { return read(p, [](const Access* a) { return __ldg(a); }); }
    static DEVICE Vec load_stream(const Elem* p) {
        return read(p, [](const Access* a) { return load_once(a); });
    }
    DEVICE void store(Elem* p) const { write(p, [](Access* a, Access w) { *a = w; }); }
    DEVICE void store_stream(Elem* p) const { write(p, [](Access* a, Access w) { __stcs(a, w); }); }

    // To and from registers of the accumulator type: x.get(acc);  Vec<T, 8>::of(acc).store(y);
    template <class Value> DEVICE void get(Value (&out)[Count]) const {
        UNROLL for (int i = 0; i < Count; ++i) out[i] = to_acc(v[i]);
    }
    template <class Value> static DEVICE Vec of(const Value (&in)[Count]) {
        Vec out;
        if constexpr (Count == 1) out.v[0] = from_acc<Elem>(in[0]);
        else UNROLL for (int i = 0; i < Count; i += 2) from_acc2(out.v + i, in[i], in[i + 1]);
        return out;
    }
};

}  // namespace cydnn
using namespace cydnn;
