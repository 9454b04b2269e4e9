// Shared files for a client without a daemon: memfds of one page each, made at their first fetch.
// Thread-safe.
//
// Stops at the gate "fetch". After `answers` fetches it is as if the daemon were stopped: those
// that follow ask the caller's check again and again, and time out in the end.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "client/session/file_source.h"
#include "tests/support/gates.h"
#include "tests/support/unanswered.h"
#include "wire/error.h"

namespace memlease::testing {

class FakeFiles : public internal::FileSource {
 public:
  static constexpr std::uint64_t kSizeBytes = 4096;

  absl::StatusOr<std::vector<internal::SharedFile>> fetch_all(
      std::span<const internal::WantedFile> files, internal::InterruptCheck interrupt) override {
    gates.pass("fetch");
    if (fetches++ >= answers) return unanswered(interrupt);
    std::vector<internal::SharedFile> given;
    const std::lock_guard lock(mutex_);
    for (const auto& [file, access] : files) {
      given.emplace_back();
      if (refuses || missing.contains(wire::to_int(file))) continue;
      given.back() = get(wire::to_int(file), access);
    }
    if (given.front().fd) return given;
    return wire::make_error(wire::ErrorCode::kNotFound, "there is no such file");
  }
  // By the call.
  absl::StatusOr<OpenedArray> open_array(wire::OpeningCall /*call*/, const std::string& /*request*/,
                                         internal::InterruptCheck /*interrupt*/) override {
    return OpenedArray{};
  }
  LateAnswers take_late_answers(std::chrono::milliseconds /*longest*/) override { return {}; }
  bool alive() override {
    ++looks;
    return !gone;
  }
  bool watch_end() override {
    if (watched) ++watches;
    return watched;
  }
  bool closed_by_program() override { return closed; }
  void goodbye() override { ++goodbyes; }

  Gates gates;
  std::atomic<bool> gone{false};
  std::atomic<bool> closed{false};
  std::atomic<bool> watched{false};
  std::atomic<int> watches{0};  // as of a wait that sleeps until something happens
  std::atomic<bool> refuses{false};
  std::atomic<int> fetches{0};  // however many files each asked for
  std::atomic<int> answers{std::numeric_limits<int>::max()};
  std::atomic<int> looks{0};
  std::atomic<int> goodbyes{0};
  wire::FileKind kind = wire::FileKind::kSegment;  // of every file but these
  std::map<std::uint32_t, wire::FileKind> kinds;
  std::set<std::uint32_t> missing;
  bool writable = true;  // of every file

 private:
  internal::SharedFile get(std::uint32_t file, internal::Access access) {
    wire::UniqueFd& known = files_[file];
    if (!known) {
      known.reset(::memfd_create("memlease-fake-file", MFD_CLOEXEC));
      if (::ftruncate(known.get(), kSizeBytes) != 0) return {};
    }
    const auto other = kinds.find(file);
    const wire::FileKind its_kind = other == kinds.end() ? kind : other->second;
    const bool is_segment = its_kind == wire::FileKind::kSegment;
    return {wire::UniqueFd(::dup(known.get())), its_kind, kSizeBytes,
            writable && (access == internal::Access::kWrite || !is_segment)};
  }

  std::mutex mutex_;  // guards what follows
  std::map<std::uint32_t, wire::UniqueFd> files_;
};

}  // namespace memlease::testing
