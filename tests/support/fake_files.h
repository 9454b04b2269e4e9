// Shared files for a client without a daemon: memfds of one page each, made at their first fetch.
// Thread-safe.
//
// Stops at the gate "fetch".
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "client/session/file_source.h"
#include "tests/support/gates.h"
#include "wire/error.h"

namespace memlease::testing {

class FakeFiles : public internal::FileSource {
 public:
  static constexpr std::uint64_t kSizeBytes = 4096;

  absl::StatusOr<std::vector<internal::SharedFile>> fetch_all(
      std::span<const wire::FileId> files, internal::InterruptCheck /*interrupt*/) override {
    gates.pass("fetch");
    ++fetches;
    std::vector<internal::SharedFile> answers;
    const std::lock_guard lock(mutex_);
    for (const wire::FileId file : files) {
      answers.emplace_back();
      if (refuses || missing.contains(wire::to_int(file))) continue;
      answers.back() = get(wire::to_int(file));
    }
    if (answers.front().fd) return answers;
    return wire::make_error(wire::ErrorCode::kNotFound, "there is no such file");
  }
  bool alive() override {
    ++looks;
    return !gone;
  }
  bool watch_end() override { return watched; }
  bool closed_by_program() override { return closed; }
  void goodbye() override { ++goodbyes; }

  Gates gates;
  std::atomic<bool> gone{false};
  std::atomic<bool> closed{false};
  std::atomic<bool> watched{false};
  std::atomic<bool> refuses{false};
  std::atomic<int> fetches{0};  // however many files each asked for
  std::atomic<int> looks{0};
  std::atomic<int> goodbyes{0};
  wire::FileKind kind = wire::FileKind::kSegment;  // of every file but these
  std::map<std::uint32_t, wire::FileKind> kinds;
  std::set<std::uint32_t> missing;
  bool writable = true;  // of every file

 private:
  internal::SharedFile get(std::uint32_t file) {
    wire::UniqueFd& known = files_[file];
    if (!known) {
      known.reset(::memfd_create("memlease-fake-file", MFD_CLOEXEC));
      if (::ftruncate(known.get(), kSizeBytes) != 0) return {};
    }
    const auto other = kinds.find(file);
    return {wire::UniqueFd(::dup(known.get())), other == kinds.end() ? kind : other->second,
            kSizeBytes, writable};
  }

  std::mutex mutex_;  // guards what follows
  std::map<std::uint32_t, wire::UniqueFd> files_;
};

}  // namespace memlease::testing
