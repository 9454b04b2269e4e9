#include "wire/dtype.h"

#include <array>

namespace memlease::wire {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::string_view typestr;        // as NumPy's array interface spells it
  std::string_view buffer_format;  // as the buffer protocol does
};

using C = DTypeCode;

constexpr std::array<Row, 23> kRows = {{
    {{C::kBool, 8, 1}, "bool", "|b1", "?"},
    {{C::kInt, 8, 1}, "int8", "|i1", "b"},
    {{C::kInt, 16, 1}, "int16", "<i2", "h"},
    {{C::kInt, 32, 1}, "int32", "<i4", "i"},
    {{C::kInt, 64, 1}, "int64", "<i8", "q"},
    {{C::kUInt, 8, 1}, "uint8", "|u1", "B"},
    {{C::kUInt, 16, 1}, "uint16", "<u2", "H"},
    {{C::kUInt, 32, 1}, "uint32", "<u4", "I"},
    {{C::kUInt, 64, 1}, "uint64", "<u8", "Q"},
    {{C::kFloat, 16, 1}, "float16", "<f2", "e"},
    {{C::kFloat, 32, 1}, "float32", "<f4", "f"},
    {{C::kFloat, 64, 1}, "float64", "<f8", "d"},
    {{C::kComplex, 64, 1}, "complex64", "<c8", "Zf"},
    {{C::kComplex, 128, 1}, "complex128", "<c16", "Zd"},
    {{C::kBFloat, 16, 1}, "bfloat16", "", ""},
    {{C::kFloat8E3M4, 8, 1}, "float8_e3m4", "", ""},
    {{C::kFloat8E4M3, 8, 1}, "float8_e4m3", "", ""},
    {{C::kFloat8E4M3B11Fnuz, 8, 1}, "float8_e4m3b11fnuz", "", ""},
    {{C::kFloat8E4M3Fn, 8, 1}, "float8_e4m3fn", "", ""},
    {{C::kFloat8E4M3Fnuz, 8, 1}, "float8_e4m3fnuz", "", ""},
    {{C::kFloat8E5M2, 8, 1}, "float8_e5m2", "", ""},
    {{C::kFloat8E5M2Fnuz, 8, 1}, "float8_e5m2fnuz", "", ""},
    {{C::kFloat8E8M0Fnu, 8, 1}, "float8_e8m0fnu", "", ""},
}};

const Row* find(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

bool is_known(DType dtype) { return find(dtype) != nullptr; }

std::string_view name_of(DType dtype) {
  const Row* row = find(dtype);
  return row == nullptr ? "unknown" : row->name;
}

std::string_view typestr_of(DType dtype) {
  const Row* row = find(dtype);
  return row == nullptr ? "" : row->typestr;
}

std::string_view buffer_format_of(DType dtype) {
  const Row* row = find(dtype);
  return row == nullptr ? "" : row->buffer_format;
}

std::optional<DType> parse_dtype(std::string_view text) {
  if (text == "bf16") text = "bfloat16";
  for (const Row& row : kRows) {
    if (text == row.name || (!row.typestr.empty() && text == row.typestr)) return row.dtype;
  }
  // "f4", "=f4", "|f4": NumPy's spellings with another or no byte order mark.
  if (!text.empty() && (text.front() == '=' || text.front() == '|')) text.remove_prefix(1);
  for (const Row& row : kRows) {
    if (!row.typestr.empty() && text == row.typestr.substr(1)) return row.dtype;
  }
  return std::nullopt;
}

std::string known_dtype_names() {
  std::string names;
  for (const Row& row : kRows) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace memlease::wire
