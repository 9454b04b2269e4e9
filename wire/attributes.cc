#include "wire/attributes.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "fmt/format.h"
#include "wire/error.h"
#include "wire/utf8.h"

namespace memlease::wire {
namespace {

constexpr std::uint64_t kAttributeBytes = 16;
constexpr std::uint64_t kElementBytes = 8;
constexpr std::uint64_t kNodeBytes = 48;  // of a map, and of what the heap adds to it

// What an attribute's value counts. An array of one element is as long as the element.
struct CountBytes {
  std::uint64_t text_bytes = kElementBytes;  // of each, beside its characters
  std::uint64_t operator()(const std::string& text) const { return text_bytes + text.size(); }
  std::uint64_t operator()(bool /*flag*/) const { return kElementBytes; }
  std::uint64_t operator()(std::int64_t /*integer*/) const { return kElementBytes; }
  std::uint64_t operator()(double /*real*/) const { return kElementBytes; }
  template <typename Element>
  std::uint64_t operator()(const std::vector<Element>& list) const {
    std::uint64_t bytes = 0;
    for (const Element& element : list) bytes += (*this)(element);
    return bytes;
  }
};

absl::Status bad_attribute(std::string_view message, std::string_view hint) {
  return make_error(ErrorCode::kInvalidArgument, message, hint);
}

absl::Status validate_attribute_name(const std::string& name) {
  constexpr std::string_view kHint =
      "Names of attributes are UTF-8 of 1 to 255 bytes without control characters.";
  if (name.empty()) return bad_attribute("the name of an attribute is empty", kHint);
  if (name.size() > kMaxAttributeNameBytes) {
    return bad_attribute(
        fmt::format("the name of an attribute has {} bytes, at most {} are possible", name.size(),
                    kMaxAttributeNameBytes),
        kHint);
  }
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  if (std::any_of(name.begin(), name.end(), is_control)) {
    return bad_attribute("the name of an attribute has a control character", kHint);
  }
  if (!is_utf8(name)) return bad_attribute("the name of an attribute is not UTF-8", kHint);
  return absl::OkStatus();
}

bool is_text(const AttributeValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return is_utf8(*text);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return std::all_of(texts->begin(), texts->end(), is_utf8);
  }
  return true;
}

}  // namespace

std::uint64_t size_bytes_of(const Attributes& attributes) {
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : attributes) {
    bytes += kAttributeBytes + name.size() + std::visit(CountBytes(), value);
  }
  return bytes;
}

std::uint64_t memory_bytes_of(const Attributes& attributes) {
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : attributes) {
    bytes += sizeof(Attributes::value_type) + kNodeBytes + name.size() +
             std::visit(CountBytes{sizeof(std::string)}, value);
  }
  return bytes;
}

absl::Status validate(const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    if (auto status = validate_attribute_name(name); !status.ok()) return status;
    if (!is_text(value)) {
      return bad_attribute(fmt::format("the attribute '{}' has text that is not UTF-8", name),
                           "Texts are UTF-8; bytes belong into an array of uint8.");
    }
  }
  const std::uint64_t bytes = size_bytes_of(attributes);
  if (bytes > kMaxAttributeBytes) {
    return bad_attribute(fmt::format("the attributes take {} bytes, at most {} are possible", bytes,
                                     kMaxAttributeBytes),
                         "Put what is long, such as coordinates, into an array of its own.");
  }
  return absl::OkStatus();
}

}  // namespace memlease::wire
