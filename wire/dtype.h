// Element types: DLPack's {code, bits, lanes} on the wire, and the one table of their names: in
// memlease, in NumPy's array interface and in the buffer protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace memlease::wire {

// Values as in DLPack's DLDataTypeCode.
enum class DTypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBFloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E3M4 = 7,
  kFloat8E4M3 = 8,
  kFloat8E4M3B11Fnuz = 9,
  kFloat8E4M3Fn = 10,
  kFloat8E4M3Fnuz = 11,
  kFloat8E5M2 = 12,
  kFloat8E5M2Fnuz = 13,
  kFloat8E8M0Fnu = 14,
};

// Bits of the whole element (a complex64 has 64). Elements are whole bytes.
struct DType {
  DTypeCode code = DTypeCode::kFloat;
  std::uint8_t bits = 32;
  std::uint16_t lanes = 1;
  std::uint32_t itemsize_bytes() const { return bits * lanes / 8U; }
  friend bool operator==(const DType&, const DType&) = default;
};

// True for the types in the table.
bool is_known(DType dtype);
// "float32", "bfloat16", "float8_e4m3fn".
std::string_view name_of(DType dtype);
// "<f4" as NumPy's array interface spells it; empty where NumPy has no such type.
std::string_view typestr_of(DType dtype);
// "f" as the buffer protocol and Python's struct module spell it; empty where they have none.
std::string_view buffer_format_of(DType dtype);
// Accepts names, NumPy's short names ("f4", "<f4", "=f4", "|b1") and "bf16".
std::optional<DType> parse_dtype(std::string_view text);
// "float32, float64, ...", for error messages.
std::string known_dtype_names();

}  // namespace memlease::wire
