#include "wire/dtype.h"

#include <memlease/dtype.h>

#include "client/api/throw.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease {
namespace {

wire::DType to_wire(DType dtype) {
  return {static_cast<wire::DTypeCode>(dtype.code), dtype.bits, dtype.lanes};
}

}  // namespace

DType parse_dtype(const std::string& text) {
  const auto parsed = wire::parse_dtype(text);
  if (!parsed) {
    internal::throw_error(wire::make_error(wire::ErrorCode::kInvalidArgument,
                                           fmt::format("dtype '{}' is not known", text),
                                           "Known are " + wire::known_dtype_names() + "."));
  }
  return {static_cast<std::uint8_t>(parsed->code), parsed->bits, parsed->lanes};
}

std::string name_of(DType dtype) { return std::string(wire::name_of(to_wire(dtype))); }

std::string typestr_of(DType dtype) { return std::string(wire::typestr_of(to_wire(dtype))); }

std::string buffer_format_of(DType dtype) {
  return std::string(wire::buffer_format_of(to_wire(dtype)));
}

}  // namespace memlease
