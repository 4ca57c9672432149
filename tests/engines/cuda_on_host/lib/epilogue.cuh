// lib/epilogue.cuh on the host: marks do nothing.
#pragma once
#include "lib/types.cuh"
namespace cydnn {
template <class Value, int Count> void fuse_epilogue(Value (&)[Count], i64, int) {}
}
