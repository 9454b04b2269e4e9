// The arrays of a daemon from sample to sample: who they are, and how fast they get versions.
// Arithmetic alone: no clock, no call. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "memlease/v1/admin.pb.h"

namespace memlease::ctl {

// Rates are of the last samples, so that one that comes once a second is not 0 and 2 in turn.
inline constexpr std::size_t kSamplesOfARate = 5;

struct LiveArray {
  std::uint64_t id = 0;
  std::string name;    // empty: not described yet
  std::string device;  // likewise
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t open_sessions = 0;
  std::uint32_t writer_session = 0;  // 0 = none
  std::uint64_t version = 0;
  double versions_per_s = 0;

  std::uint64_t bytes() const { return slot_bytes * slots; }
  double bytes_per_s() const { return versions_per_s * static_cast<double>(slot_bytes); }

 private:
  friend class Live;
  std::array<std::uint64_t, kSamplesOfARate> versions_{};  // the newest, by the sample's number
  std::uint64_t newest_ = 0;
  std::uint64_t first_sample_ = 0;
  std::uint64_t last_sample_ = 0;
};

class Live {
 public:
  // seconds: when it was taken, on any clock that goes evenly.
  void add(const v1::SampleReply& sample, double seconds);
  // For the next call: the greatest id that is described.
  std::uint64_t known_through() const { return known_through_; }
  // Of the last sample, in no order.
  const std::vector<LiveArray>& arrays() const { return arrays_; }

 private:
  LiveArray& array_of(std::uint64_t id);
  void describe(const v1::ArrayInfo& info);
  void forget_gone();

  std::vector<LiveArray> arrays_;
  absl::flat_hash_map<std::uint64_t, std::size_t> places_;  // in arrays_, by id
  std::array<double, kSamplesOfARate> times_{};
  std::uint64_t samples_ = 0;
  std::uint64_t known_through_ = 0;
};

}  // namespace memlease::ctl
