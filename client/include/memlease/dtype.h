// Element types: DLPack's {code, bits, lanes}. Standard library only, C++17.
#pragma once

#include <memlease/version.h>

#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace memlease {

// bits counts the whole element: a complex<float> has 64. Values of code as DLDataTypeCode.
struct DType {
  std::uint8_t code = 2;
  std::uint8_t bits = 32;
  std::uint16_t lanes = 1;

  constexpr std::uint32_t itemsize_bytes() const { return bits * lanes / 8U; }
  friend constexpr bool operator==(DType a, DType b) {
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
  }
  friend constexpr bool operator!=(DType a, DType b) { return !(a == b); }
};

// "float32", "f4", "<f4", "bfloat16", ...; throws InvalidArgument with the list of known names.
MEMLEASE_API DType parse_dtype(const std::string& text);
// "float32".
MEMLEASE_API std::string name_of(DType dtype);
// "<f4" as NumPy's array interface spells it; empty where NumPy has no such type, as bfloat16.
MEMLEASE_API std::string typestr_of(DType dtype);
// "f" as Python's buffer protocol and struct module spell it; empty where they have no such type.
MEMLEASE_API std::string buffer_format_of(DType dtype);

namespace internal {
template <typename T>
constexpr bool kIsComplex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
}  // namespace internal

// For a type of yours, or of a library's, that has the bytes of one of memlease's dtypes:
// specialise it, and dtype_of() knows it. The header cuda_types does so for CUDA's half precision.
//
//   template <>
//   struct memlease::DTypeOf<my::half> {
//     static constexpr memlease::DType kDType = {2, 16, 1};  // DLPack's code, bits, lanes
//   };
template <typename T, typename = void>
struct DTypeOf {};

namespace internal {

template <typename T, typename = void>
constexpr bool kHasDTypeOf = false;
template <typename T>
constexpr bool kHasDTypeOf<T, std::void_t<decltype(DTypeOf<T>::kDType)>> = true;

// std::bfloat16_t has as many bits as std::float16_t, and fewer of them for its digits.
template <typename T>
constexpr std::uint8_t kFloatCode = sizeof(T) == 2 && std::numeric_limits<T>::digits == 8 ? 4 : 2;

}  // namespace internal

// The dtype of a C++ arithmetic type of at most 8 bytes, bool or std::complex; std::float16_t and
// std::bfloat16_t where the compiler has them (C++23), _Float16 where it has that; and of what
// DTypeOf is specialised for.
template <typename T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (internal::kHasDTypeOf<U>) {
    static_assert(sizeof(U) * 8 == DTypeOf<U>::kDType.bits * DTypeOf<U>::kDType.lanes,
                  "DTypeOf: the type is of another size than its dtype");
    return DTypeOf<U>::kDType;
  } else {
    static_assert((std::is_arithmetic_v<U> && sizeof(U) <= 8) || internal::kIsComplex<U>,
                  "dtype_of: give a bool, an integer, float, double, a std::complex of float or "
                  "double, or a type for which memlease::DTypeOf is specialised; arrays have no "
                  "other elements");
    constexpr auto kBits = static_cast<std::uint8_t>(sizeof(U) * 8);
    if constexpr (std::is_same_v<U, bool>) {
      return {6, 8, 1};
    } else if constexpr (internal::kIsComplex<U>) {
      return {5, kBits, 1};
    } else if constexpr (std::is_floating_point_v<U>) {
      return {internal::kFloatCode<U>, kBits, 1};
    } else if constexpr (std::is_signed_v<U>) {
      return {0, kBits, 1};
    } else {
      return {1, kBits, 1};
    }
  }
}

#ifdef __FLT16_MANT_DIG__
// An arithmetic type already where C++23's types are.
template <typename T>
struct DTypeOf<T, std::enable_if_t<std::is_same_v<T, _Float16> && !std::is_arithmetic_v<T>>> {
  static constexpr DType kDType = {2, 16, 1};
};
#endif

}  // namespace memlease
