// A parameter: a number that is given at execute, or the address of one in memory of the device
// (cydnn/kernels/kinds.py).
#pragma once
#include "types.cuh"

namespace cydnn {

template <class Elem> struct Number {
    Elem value;
    const Elem* address;                       // null: the value
    DEVICE Elem load() const { return address ? *address : value; }
};

}  // namespace cydnn
