// Port: what a client asks the daemon for by calls. Implemented by ControlStub
// (client/rpc/control_stub.h), called by Session and OpenArray. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/array_spec.h"
#include "wire/ids.h"

namespace memlease::internal {

struct OpenAnswer {
  wire::ArrayId id{0};
  wire::ArraySpec spec;
  wire::FileRange board_record;
  std::vector<wire::FileRange> slots;
  std::uint64_t slot_bytes = 0;
  bool may_write = false;
  bool created = false;
  // One per slot; none on the host, and where the device has none left.
  std::vector<wire::DeviceHandle> write_events;
  // What waits for other processes' work on the device: the stream, or, if this is not 0, the host.
  std::chrono::milliseconds host_waits{0};
};

struct Subscribed {
  wire::RowRef row;
  std::vector<wire::DeviceHandle> read_events;  // likewise
};

struct ImportedMemory {
  wire::DeviceHandle handle{};
  std::uint64_t size_bytes = 0;
};

// What has been closed, for the daemon to know.
struct ClosedImports {
  std::vector<wire::FileId> memory;
  std::vector<wire::RowRef> events;
};

struct WriterAnswer {
  enum class State { kGranted, kOffered, kBusy };
  State state = State::kBusy;
  wire::RowRef row;
  wire::RowRef from;
  std::uint64_t offer = 0;
};

struct Holder {
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  std::string command;
  std::vector<std::uint64_t> versions;
  bool writing = false;
};

class ControlPort {
 public:
  virtual ~ControlPort() = default;
  virtual absl::StatusOr<OpenAnswer> create(const wire::ArraySpec& spec, bool exist_ok) = 0;
  virtual absl::StatusOr<OpenAnswer> open(const std::string& name) = 0;
  virtual absl::StatusOr<Subscribed> subscribe(wire::ArrayId array) = 0;
  virtual absl::StatusOr<WriterAnswer> acquire_writer(wire::ArrayId array) = 0;
  virtual absl::Status confirm_writer(wire::ArrayId array, std::uint64_t offer) = 0;
  virtual absl::Status cancel_writer(wire::ArrayId array) = 0;
  // `opens`: how many replies to create and open are given back.
  virtual absl::Status leave(wire::ArrayId array, std::uint32_t opens) = 0;
  virtual absl::Status withdraw(const std::string& name) = 0;
  virtual absl::StatusOr<std::vector<std::string>> list(const std::string& pattern) = 0;
  // Waits in the daemon for at most `timeout`, bounded there. Does the name exist?
  virtual absl::StatusOr<bool> wait_for(const std::string& name,
                                        std::chrono::milliseconds timeout) = 0;
  virtual absl::StatusOr<std::vector<Holder>> holders(wire::ArrayId array) = 0;
  virtual absl::StatusOr<ImportedMemory> import_memory(wire::FileId file) = 0;
  // Of another session's reader row, one per slot.
  virtual absl::StatusOr<std::vector<wire::DeviceHandle>> import_events(wire::RowRef row) = 0;
  virtual absl::Status close_imports(const ClosedImports& closed) = 0;
  virtual std::uint64_t calls() const = 0;
};

}  // namespace memlease::internal
