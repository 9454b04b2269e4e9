#include "wire/dtype.h"

#include <memlease/dtype.h>

#include "client/api/throw.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease {

DType parse_dtype(const std::string& text) {
  const auto parsed = wire::parse_dtype(text);
  if (!parsed) {
    internal::throw_error(wire::make_error(wire::ErrorCode::kInvalidArgument,
                                           fmt::format("dtype '{}' is not known", text),
                                           "Known are " + wire::known_dtype_names() + "."));
  }
  return {static_cast<std::uint8_t>(parsed->code), parsed->bits, parsed->lanes};
}

std::string name_of(DType dtype) {
  return std::string(
      wire::name_of({static_cast<wire::DTypeCode>(dtype.code), dtype.bits, dtype.lanes}));
}

}  // namespace memlease
