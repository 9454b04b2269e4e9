// The daemon's Control service as plain calls. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "client/session/control_port.h"

namespace memlease::internal {

class ControlStub : public ControlPort {
 public:
  // `credential`: what goes with every call to speak for the session.
  ControlStub(std::string directory, std::string credential);

  absl::StatusOr<OpenAnswer> create(const wire::ArraySpec& spec, bool exist_ok) override;
  absl::StatusOr<OpenAnswer> open(const std::string& name) override;
  absl::StatusOr<Subscribed> subscribe(wire::ArrayId array) override;
  absl::StatusOr<WriterAnswer> acquire_writer(wire::ArrayId array) override;
  absl::Status confirm_writer(wire::ArrayId array, std::uint64_t offer) override;
  absl::Status cancel_writer(wire::ArrayId array) override;
  absl::Status leave(wire::ArrayId array, std::uint32_t opens) override;
  absl::Status withdraw(const std::string& name) override;
  absl::StatusOr<std::vector<std::string>> list(const std::string& pattern) override;
  absl::StatusOr<bool> wait_for(const std::string& name,
                                std::chrono::milliseconds timeout) override;
  absl::StatusOr<std::vector<Holder>> holders(wire::ArrayId array) override;
  absl::StatusOr<ImportedMemory> import_memory(wire::FileId file) override;
  absl::StatusOr<std::vector<wire::DeviceHandle>> import_events(wire::RowRef row) override;
  absl::Status close_imports(const ClosedImports& closed) override;
  std::uint64_t calls() const override { return calls_.load(); }

 private:
  template <typename Method, typename Request, typename Reply>
  absl::Status call(Method method, const Request& request, Reply& reply);

  const std::string directory_;
  const std::string credential_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace memlease::internal
