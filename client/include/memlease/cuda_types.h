// CUDA's types of 16 and 8 bits as elements of arrays: include this, and leases give spans of them,
// and MemArray is one of them. Needs CUDA's headers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <memlease/dtype.h>

namespace memlease {

template <>
struct DTypeOf<__half> {
  static constexpr DType kDType = {2, 16, 1};
};
template <>
struct DTypeOf<__nv_bfloat16> {
  static constexpr DType kDType = {4, 16, 1};
};
// DLPack's float8_e4m3fn and float8_e5m2.
template <>
struct DTypeOf<__nv_fp8_e4m3> {
  static constexpr DType kDType = {10, 8, 1};
};
template <>
struct DTypeOf<__nv_fp8_e5m2> {
  static constexpr DType kDType = {12, 8, 1};
};

}  // namespace memlease
