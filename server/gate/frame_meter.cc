#include "server/gate/frame_meter.h"

#include <algorithm>
#include <utility>

namespace memlease::server {

FrameMeter::~FrameMeter() {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < open_.size(); ++i) of_uid_.abandon_stream(now);
}

FrameMeter::Load FrameMeter::load(Clock::time_point begun_by) const {
  const auto old = std::ranges::count_if(
      open_, [&](const auto& stream) { return stream.second.since <= begun_by; });
  return {open_.size(), static_cast<std::size_t>(old), bytes_in_flight_};
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
  bytes_in_flight_ += cost;
  found->second.data_bytes += cost;
  if (bytes_in_flight_ > limits_.bytes_in_flight) return Excess::kBytesInFlight;
  if (!found->second.data.add(cost)) return Excess::kBytesInFlight;
  return std::nullopt;
}

std::optional<Excess> FrameMeter::measure_headers(const FrameHeader& frame, Clock::time_point now) {
  header_block_bytes_ += FrameHeader::kBytes + frame.length;
  if (header_block_bytes_ > kMostHeaderBytes) return Excess::kHeaderBlock;
  const auto too_much = take(Excess::kHeaderBytes, now, FrameHeader::kBytes + frame.length);
  if (too_much) return too_much;
  if ((frame.flags & FrameHeader::kEndHeaders) != 0) header_block_bytes_ = 0;
  // Of a client they are odd, and go up.
  const bool is_new =
      frame.type == FrameType::kHeaders && frame.stream % 2 == 1 && frame.stream > last_stream_;
  if (!is_new) return take(Excess::kOtherFrames, now);
  last_stream_ = frame.stream;
  // What is refused never reaches gRPC: nobody has given it up.
  if (open_.size() >= limits_.open_streams) return Excess::kOpenStreams;
  auto request = account_.empty_charge(Resource::kRequests);
  if (!request.add(1)) return Excess::kOpenStreams;
  const auto own = own_.open_stream(now);
  const auto of_uid = own ? own : of_uid_.open_stream(now);
  if (of_uid) return of_uid;
  open_.emplace(frame.stream,
                Stream{std::move(request), account_.empty_charge(Resource::kRequestBytes), now, 0});
  return std::nullopt;
}

std::optional<Excess> FrameMeter::measure_reset(const FrameHeader& frame, Clock::time_point now) {
  close(frame.stream);
  return take(Excess::kResets, now);
}

std::optional<Excess> FrameMeter::take(Excess kind, Clock::time_point now, std::size_t tokens) {
  const auto own = own_.take(kind, now, tokens);
  return own ? own : of_uid_.take(kind, now, tokens);
}

void FrameMeter::close(std::uint32_t stream) {
  const auto found = open_.find(stream);
  if (found == open_.end()) return;
  bytes_in_flight_ -= found->second.data_bytes;
  open_.erase(found);
}

}  // namespace memlease::server
