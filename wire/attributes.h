// What an array's creator says of it to whoever opens it, as units and the like: names with values.
// The daemon keeps them with the array and looks at none. Validation stands here once; client and
// daemon both call it, as they do with the spec.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace memlease::wire {

// The same types as in <memlease/attributes.h>.
using AttributeValue =
    std::variant<std::string, bool, std::int64_t, double, std::vector<std::string>,
                 std::vector<std::int64_t>, std::vector<double>>;
using Attributes = std::map<std::string, AttributeValue, std::less<>>;
// Of an array; null = none, as most have.
using SharedAttributes = std::shared_ptr<const Attributes>;

inline constexpr std::size_t kMaxAttributeNameBytes = 255;
// Of all attributes of an array. In a message they take no more than what is counted, and the
// daemon takes messages of 64 KiB.
inline constexpr std::uint64_t kMaxAttributeBytes = std::uint64_t{32} << 10;

// What they count: 16 bytes each and their names, 8 for each number, truth value and text, and the
// texts themselves.
std::uint64_t size_bytes_of(const Attributes& attributes);
// About what they take of a process's heap.
std::uint64_t memory_bytes_of(const Attributes& attributes);

absl::Status validate(const Attributes& attributes);

}  // namespace memlease::wire
