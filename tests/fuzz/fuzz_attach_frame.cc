// Frames of the attach channel, from somebody who is not trusted. A frame has one encoding.
#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "wire/attach_frame.h"

using memlease::testing::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto frame = memlease::wire::parse_frame(bytes);
  if (!frame.ok()) {
    require(!frame.status().message().empty(), "a refused frame has a reason");
    return 0;
  }
  // HELLO and ERROR are read whatever version they are written in.
  const auto protocol =
      std::to_integer<std::uint16_t>(bytes[4]) | (std::to_integer<std::uint16_t>(bytes[5]) << 8);
  const std::vector<std::byte> again =
      memlease::wire::encode_frame(*frame, static_cast<std::uint16_t>(protocol));
  const auto* error = std::get_if<memlease::wire::ErrorFrame>(&frame->payload);
  // An unknown code of ERROR is read as kInternal, and is not written again.
  if (error == nullptr || error->code != memlease::wire::ErrorCode::kInternal) {
    require(std::ranges::equal(again, bytes), "a frame that is read has one encoding");
  }
  const auto twice = memlease::wire::parse_frame(again);
  require(twice.ok() && *twice == *frame, "what is written is read as the same frame");
  if (error != nullptr) {
    require(!memlease::wire::to_status(*error).ok(), "an ERROR is an error");
  }
  if (const auto* hello = std::get_if<memlease::wire::HelloFrame>(&frame->payload)) {
    static_cast<void>(memlease::wire::choose_protocol(*hello));
  }
  return 0;
}
