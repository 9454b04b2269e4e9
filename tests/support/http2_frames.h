// Frames of HTTP/2 as bytes, for tests that speak it as no library would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memlease::testing {

inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Types and flags are those of RFC 9113.
struct Http2 {
  enum Type : std::uint8_t { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoAway };
  static constexpr std::uint8_t kWindowUpdate = 8;
  static constexpr std::uint8_t kContinuation = 9;
  static constexpr std::uint8_t kEndStream = 1;
  static constexpr std::uint8_t kEndHeaders = 4;
};

// Only the header of a frame, whose payload would be so long.
inline std::string http2_header(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                                std::size_t length) {
  std::string bytes;
  for (const int shift : {16, 8, 0}) bytes += static_cast<char>(length >> shift);
  bytes += static_cast<char>(type);
  bytes += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(stream >> shift);
  return bytes;
}

inline std::string http2_frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                               std::string_view payload = "") {
  return http2_header(type, flags, stream, payload.size()) + std::string(payload);
}

// A field of a header block: a literal without indexing, no longer than 126 bytes each.
inline std::string http2_field(std::string_view name, std::string_view value) {
  std::string bytes(1, '\0');
  for (const std::string_view text : {name, value}) {
    bytes += static_cast<char>(text.size());
    bytes += text;
  }
  return bytes;
}

// The header block of a gRPC call.
inline std::string grpc_request(std::string_view path) {
  return http2_field(":method", "POST") + http2_field(":scheme", "http") +
         http2_field(":path", path) + http2_field(":authority", "x") +
         http2_field("te", "trailers") + http2_field("content-type", "application/grpc");
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string repeated(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace memlease::testing
