// What an array is, as an untrusted client asks for it: what validate() lets through is sound.
#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "wire/array_spec.h"
#include "wire/dtype.h"

using memlease::testing::Input;
using memlease::testing::require;
using memlease::wire::ArraySpec;

namespace {

std::string take_text(Input& input) {
  const auto bytes = input.take_bytes(input.take<std::uint8_t>());
  return {bytes.begin(), bytes.end()};
}

// Small numbers often, any number sometimes.
std::int64_t take_number(Input& input) {
  const auto small = input.take<std::int8_t>();
  return small == INT8_MIN ? input.take<std::int64_t>() : small;
}

// Every element lies inside of the array's bytes.
void check_layout(const ArraySpec& spec) {
  const std::uint64_t size = memlease::wire::size_bytes_of(spec);
  const auto strides = memlease::wire::strides_bytes_of(spec);
  require(size <= memlease::wire::kMaxArrayBytes, "an array has a bounded size");
  require(strides.size() == spec.shape.size(), "a stride for each dimension");
  if (std::ranges::find(spec.shape, 0) != spec.shape.end()) {
    require(size == 0, "an array without elements has no bytes");
    return;
  }
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    std::uint64_t reach = 0;
    require(!__builtin_mul_overflow(static_cast<std::uint64_t>(spec.shape[i] - 1),
                                    static_cast<std::uint64_t>(strides[i]), &reach) &&
                !__builtin_add_overflow(last, reach, &last),
            "no element's place overflows");
  }
  require(last < size, "the last element begins inside");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  ArraySpec spec;
  spec.name = take_text(input);
  const std::string dtype = take_text(input);
  if (const auto parsed = memlease::wire::parse_dtype(dtype); parsed) spec.dtype = *parsed;
  spec.device = input.take<std::uint8_t>() % 2 == 1 ? take_text(input) : "host";
  spec.slots = input.take<std::uint8_t>();
  spec.lifetime = static_cast<memlease::wire::Lifetime>(input.take<std::uint8_t>());
  spec.mode = input.take<std::uint16_t>();
  const std::size_t ndim = input.take<std::uint8_t>() % 40;
  for (std::size_t i = 0; i < ndim; ++i) spec.shape.push_back(take_number(input));
  const std::size_t strides =
      input.take<std::uint8_t>() % 2 == 1 ? ndim : input.take<std::uint8_t>() % 40;
  for (std::size_t i = 0; i < strides; ++i) spec.strides_bytes.push_back(take_number(input));

  const absl::Status status = memlease::wire::validate(spec);
  if (!status.ok()) {
    require(!status.message().empty(), "a refused spec has a reason");
    return 0;
  }
  check_layout(spec);
  require(!memlease::wire::describe(spec).empty(), "a valid spec can be described");
  return 0;
}
