// Leases and versions, as samples see them, in the words of Chrome's JSON trace format, which
// ui.perfetto.dev opens: a process of the trace is a process, a thread is an array in it. Pure but
// for the writing, which is the caller's. Not thread-safe.
//
// A lease is drawn from the sample that saw it first to the one that found it gone. Where a process
// holds several versions of an array at once each has a line of its own, as slices of one line must
// not overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "client/ctl/live.h"
#include "memlease/v1/admin.pb.h"
#include "memlease/v1/control.pb.h"

namespace memlease::ctl {

class TraceEvents {
 public:
  // One event, an object in JSON.
  using Write = std::function<void(const std::string& event)>;
  TraceEvents(Write write, std::int32_t daemon_pid);

  // What is true at that time, in microseconds since the trace began; times never go back.
  void sample(std::uint64_t us, const Live& live, const v1::HoldersReply& holders);
  void happened(std::uint64_t us, std::string_view what, const v1::HistoryEvent& event);
  // Ends the leases that are still held.
  void end(std::uint64_t us);

  std::uint64_t leases() const { return leases_; }
  std::uint64_t versions() const { return versions_; }

 private:
  // A version that is read; 0 = the next one is written.
  using Lease = std::tuple<std::uint32_t /*session*/, std::string /*array*/, std::uint64_t>;
  struct Slice {
    std::uint64_t begin_us = 0;
    std::int64_t pid = 0;
    std::uint64_t thread = 0;
    std::size_t lane = 0;
    std::uint64_t bytes = 0;
  };
  struct Seen {
    std::uint64_t version = 0;
    bool counted = false;  // its counter has begun
  };

  void begin_slice(std::uint64_t us, const Lease& lease, const v1::Holder& holder);
  void end_slice(std::uint64_t us, const Lease& lease, const Slice& slice);
  void publish(std::uint64_t us, const LiveArray& array, const v1::Holder* writer);
  void count(std::uint64_t us, const std::string& array, std::uint64_t version);
  std::int64_t process_of(const v1::Holder& holder);
  std::uint64_t thread_of(std::int64_t pid, const std::string& line);
  void name(std::string_view what, std::int64_t pid, std::uint64_t thread, std::string_view text);

  const Write write_;
  const std::int32_t daemon_pid_;
  std::map<Lease, Slice> open_;
  // Lines of a session and an array that are in use.
  std::map<std::pair<std::uint32_t, std::string>, std::set<std::size_t>> lanes_;
  std::set<std::int64_t> processes_;
  std::map<std::pair<std::int64_t, std::string>, std::uint64_t> threads_;
  std::map<std::uint64_t, Seen> arrays_;  // by id
  std::uint64_t last_us_ = 0;
  std::uint64_t leases_ = 0;
  std::uint64_t versions_ = 0;
};

}  // namespace memlease::ctl
