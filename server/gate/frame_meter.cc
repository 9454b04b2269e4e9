#include "server/gate/frame_meter.h"

#include <algorithm>

namespace memlease::server {

FrameMeter::~FrameMeter() {
  const auto now = Clock::now();
  for (const auto& [stream, bytes] : open_) of_uid_.abandon_stream(bytes, now);
}

std::optional<Excess> FrameMeter::from_client(std::span<const std::byte> bytes,
                                              Clock::time_point now) {
  while (preface_read_ < kPreface.size() && !bytes.empty()) {
    if (bytes.front() != static_cast<std::byte>(kPreface[preface_read_])) return Excess::kNotHttp2;
    ++preface_read_;
    bytes = bytes.subspan(1);
  }
  std::optional<Excess> excess;
  client_frames_.read(bytes, [&](const FrameHeader& frame) {
    excess = measure(frame, now);
    return !excess;
  });
  return excess;
}

void FrameMeter::from_server(std::span<const std::byte> bytes) {
  server_frames_.read(bytes, [this](const FrameHeader& frame) {
    const bool carries_end = frame.type == FrameType::kData || frame.type == FrameType::kHeaders;
    const bool ends = carries_end && (frame.flags & FrameHeader::kEndStream) != 0;
    if (ends || frame.type == FrameType::kReset) close(frame.stream);
    return true;
  });
}

std::optional<Excess> FrameMeter::measure(const FrameHeader& frame, Clock::time_point now) {
  switch (frame.type) {
    case FrameType::kData:
      return measure_data(frame, now);
    case FrameType::kHeaders:
    case FrameType::kContinuation:
      return measure_headers(frame, now);
    default:
      break;
  }
  if (frame.length > kMostOtherBytes) return Excess::kFrameSize;
  switch (frame.type) {
    case FrameType::kReset:
      return measure_reset(frame, now);
    case FrameType::kSettings:
      return take(Excess::kSettings, now);
    case FrameType::kPing:
      return take(Excess::kPings, now);
    case FrameType::kWindowUpdate:
      return take(Excess::kWindowUpdates, now);
    default:
      return take(Excess::kOtherFrames, now);
  }
}

std::optional<Excess> FrameMeter::measure_data(const FrameHeader& frame, Clock::time_point now) {
  if (frame.length > kMostDataBytes) return Excess::kFrameSize;
  const auto found = open_.find(frame.stream);
  if (found == open_.end()) return take(Excess::kOtherFrames, now);
  const std::size_t cost = std::max<std::size_t>(frame.length, kDataFrameBytes);
  found->second += cost;
  const auto own = own_.add_bytes(cost);
  const auto of_uid = of_uid_.add_bytes(cost);
  return own ? own : of_uid;
}

std::optional<Excess> FrameMeter::measure_headers(const FrameHeader& frame, Clock::time_point now) {
  header_block_bytes_ += FrameHeader::kBytes + frame.length;
  if (header_block_bytes_ > kMostHeaderBytes) return Excess::kHeaderBlock;
  if ((frame.flags & FrameHeader::kEndHeaders) != 0) header_block_bytes_ = 0;
  // Of a client they are odd, and go up.
  const bool is_new =
      frame.type == FrameType::kHeaders && frame.stream % 2 == 1 && frame.stream > last_stream_;
  if (!is_new) return take(Excess::kOtherFrames, now);
  last_stream_ = frame.stream;
  open_.emplace(frame.stream, 0);
  const auto own = own_.open_stream(now);
  const auto of_uid = of_uid_.open_stream(now);
  const auto excess = own ? own : of_uid;
  if (excess) close(frame.stream);  // it never reaches gRPC: nobody has given it up
  return excess;
}

std::optional<Excess> FrameMeter::measure_reset(const FrameHeader& frame, Clock::time_point now) {
  close(frame.stream);
  return take(Excess::kResets, now);
}

std::optional<Excess> FrameMeter::take(Excess kind, Clock::time_point now) {
  const auto own = own_.take(kind, now);
  return own ? own : of_uid_.take(kind, now);
}

void FrameMeter::close(std::uint32_t stream) {
  const auto found = open_.find(stream);
  if (found == open_.end()) return;
  own_.close_stream(found->second);
  of_uid_.close_stream(found->second);
  open_.erase(found);
}

}  // namespace memlease::server
