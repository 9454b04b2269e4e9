// Finds the frames of HTTP/2 in a stream of bytes: of each it reads the nine bytes of the header,
// and passes over the payload. Keeps no more of the stream than a header that has come in part.
//
// Whoever sends is untrusted: all lengths and types are possible. Not thread-safe; it cannot fail.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace memlease::server {

// Those that a meter tells apart (RFC 9113, section 6).
enum class FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9,
};

struct FrameHeader {
  static constexpr std::size_t kBytes = 9;
  static constexpr std::uint8_t kEndStream = 1;   // of DATA and HEADERS
  static constexpr std::uint8_t kEndHeaders = 4;  // of HEADERS and CONTINUATION

  std::uint32_t length;  // of the payload
  FrameType type;        // maybe one without a name
  std::uint8_t flags;
  std::uint32_t stream;

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

class FrameReader {
 public:
  // The bytes that follow those of the last call, in pieces of any size. Calls see(header) for each
  // frame whose header is complete now, before its payload has come, until that returns false: then
  // the rest of the bytes is not looked at, and the reader is not to be used again.
  template <typename See>
  void read(std::span<const std::byte> bytes, See see) {
    while (!bytes.empty()) {
      const std::size_t passed = std::min<std::size_t>(payload_left_, bytes.size());
      payload_left_ -= static_cast<std::uint32_t>(passed);
      bytes = bytes.subspan(passed);
      const std::size_t count = std::min(FrameHeader::kBytes - have_, bytes.size());
      std::copy_n(bytes.begin(), count, header_.begin() + static_cast<std::ptrdiff_t>(have_));
      have_ += count;
      bytes = bytes.subspan(count);
      if (have_ < FrameHeader::kBytes) continue;
      have_ = 0;
      const FrameHeader header = parsed();
      payload_left_ = header.length;
      if (!see(header)) return;
    }
  }

 private:
  std::uint32_t byte(std::size_t i) const { return std::to_integer<std::uint32_t>(header_.at(i)); }
  FrameHeader parsed() const {
    return {.length = (byte(0) << 16U) | (byte(1) << 8U) | byte(2),
            .type = static_cast<FrameType>(byte(3)),
            .flags = static_cast<std::uint8_t>(byte(4)),
            .stream = ((byte(5) & 0x7fU) << 24U) | (byte(6) << 16U) | (byte(7) << 8U) | byte(8)};
  }

  std::array<std::byte, FrameHeader::kBytes> header_{};
  std::size_t have_ = 0;  // of header_
  std::uint32_t payload_left_ = 0;
};

}  // namespace memlease::server
