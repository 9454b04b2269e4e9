// A daemon's answers for parts of a client that ask for little: imports, a row, and leaving, which
// it counts, and what a test lets it do. Every other call is refused. Thread-safe where it is not
// for a test to set something.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "client/session/control_port.h"
#include "tests/support/unanswered.h"
#include "wire/error.h"
#include "wire/held_mutexes.h"

namespace memlease::testing {

class FakeControl : public internal::ControlPort {
 public:
  static constexpr std::uint64_t kSegmentBytes = 1 << 16;

  absl::StatusOr<internal::OpenAnswer> create(const wire::ArraySpec&, const wire::Attributes&, bool,
                                              internal::OwnerUid,
                                              internal::InterruptCheck) override {
    return refusal();
  }
  absl::StatusOr<internal::OpenAnswer> open(const std::string&, internal::OwnerUid,
                                            internal::InterruptCheck) override {
    return refusal();
  }
  absl::StatusOr<internal::OpenAnswer> open_replica(wire::ArrayId, const std::string&,
                                                    internal::InterruptCheck) override {
    return refusal();
  }
  absl::StatusOr<internal::OpenAnswer> open_replica(wire::ArrayId, std::uint32_t,
                                                    internal::InterruptCheck) override {
    return refusal();
  }
  absl::Status write_elsewhere(wire::ArrayId, internal::InterruptCheck) override {
    return refusal();
  }
  absl::StatusOr<internal::Subscribed> subscribe(wire::ArrayId,
                                                 internal::InterruptCheck interrupt) override {
    called();
    if (stopped) return unanswered(interrupt);
    if (row.file == wire::FileId{0}) return refusal();
    return internal::Subscribed{row};
  }
  absl::StatusOr<internal::WriterAnswer> acquire_writer(
      wire::ArrayId, internal::InterruptCheck interrupt) override {
    called();
    if (stopped) return unanswered(interrupt);
    return on_acquire_writer();
  }
  absl::Status confirm_writer(wire::ArrayId, std::uint64_t offer,
                              internal::InterruptCheck interrupt) override {
    called();
    if (stopped) return unanswered(interrupt);
    return on_confirm_writer(offer);
  }
  absl::Status cancel_writer(wire::ArrayId) override {
    called();
    ++cancelled;
    return absl::OkStatus();
  }
  absl::Status add_slot(wire::ArrayId, std::uint32_t slots, std::chrono::milliseconds,
                        internal::InterruptCheck) override {
    called();
    return on_add_slot(slots);
  }
  absl::Status leave(std::span<const internal::Departure> departures, std::uint64_t answered_below,
                     internal::InterruptCheck interrupt) override {
    called();
    for (const internal::Departure& departure : departures) {
      left.push_back(departure.opens);
      left_numbers.push_back(departure.number);
    }
    left_answered_below = answered_below;
    return answers_leave ? absl::OkStatus() : interrupt();
  }
  absl::Status withdraw(const std::string&, internal::InterruptCheck) override { return refusal(); }
  absl::StatusOr<std::vector<std::string>> list(const std::string&,
                                                internal::InterruptCheck) override {
    return refusal();
  }
  absl::StatusOr<internal::NameLook> look_up(const std::string&, bool,
                                             internal::InterruptCheck) override {
    return refusal();
  }
  absl::StatusOr<std::vector<internal::Holder>> holders(wire::ArrayId,
                                                        internal::InterruptCheck) override {
    called();
    return on_holders();
  }
  absl::StatusOr<internal::ImportedMemory> import_memory(
      wire::FileId file, internal::InterruptCheck interrupt) override {
    called();
    if (stopped) return unanswered(interrupt);
    if (refuses) return refusal();
    return internal::ImportedMemory{handle_of(wire::to_int(file)), kSegmentBytes};
  }
  absl::Status close_imports(const internal::ClosedImports& closed) override {
    called();
    closed_memory += static_cast<int>(closed.memory.size());
    return absl::OkStatus();
  }
  bool silent() const override { return is_silent; }
  bool session_ended() const override { return has_ended; }
  bool daemon_ends() const override { return false; }
  std::uint64_t calls() const override { return calls_; }

  static wire::DeviceHandle handle_of(std::uint32_t number) {
    wire::DeviceHandle handle{};
    handle[0] = static_cast<std::uint8_t>(number);
    return handle;
  }
  std::function<absl::StatusOr<internal::WriterAnswer>()> on_acquire_writer = refusal;
  std::function<absl::Status(std::uint64_t offer)> on_confirm_writer = [](auto) {
    return refusal();
  };
  std::function<absl::Status(std::uint32_t slots)> on_add_slot = [](auto) { return refusal(); };
  std::function<absl::StatusOr<std::vector<internal::Holder>>()> on_holders = refusal;
  wire::RowRef row;  // of every subscription; none: it is refused
  std::atomic<int> cancelled{0};
  std::vector<std::uint32_t> left;  // how many opens each departure gave back
  std::vector<std::uint64_t> left_numbers;
  std::uint64_t left_answered_below = 0;  // of the last leave
  std::atomic<bool> answers_leave{true};  // else it is interrupted
  // Those calls that a test lets have a row, a handle or ownership wait as for a stopped daemon.
  std::atomic<bool> stopped{false};
  std::atomic<bool> is_silent{false};
  std::atomic<bool> has_ended{false};
  std::atomic<bool> refuses{false};
  std::atomic<int> closed_memory{0};

 private:
  void called() {
    wire::expect_no_mutex_held("a call to the daemon");
    ++calls_;
  }
  static absl::Status refusal() {
    return wire::make_error(wire::ErrorCode::kUnsupported, "the fake daemon has no such thing");
  }

  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace memlease::testing
