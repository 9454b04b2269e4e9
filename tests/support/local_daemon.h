// The daemon's core in the test's own process, with a fake GPU, and clients that call it without a
// transport: nothing but threads, so that gates stop them where the test wants. One at a time;
// Client::connect() leads here in a program that links this. Thread-safe.
//
// Stops at the gates "fetch" and "call NAME", with NAME as in ControlPort.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/arrays/array_table.h"
#include "server/core/broker.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/fake_importer.h"
#include "tests/support/fake_memory.h"
#include "tests/support/gates.h"

namespace memlease::testing {

class LocalDaemon {
 public:
  LocalDaemon();
  // Waits for sessions that are about to end.
  ~LocalDaemon();
  LocalDaemon(const LocalDaemon&) = delete;
  LocalDaemon& operator=(const LocalDaemon&) = delete;

  static LocalDaemon& instance();
  // This process's session, a new one after the last has ended.
  std::shared_ptr<internal::ArrayTable> session();
  // Calls `fn` with the core, which nobody else touches meanwhile.
  void with_broker(const std::function<void(server::Broker&)>& fn);
  // An array of another process's.
  void create_elsewhere(const std::string& name, const std::string& device,
                        std::int64_t elements = 8);
  // What this process has open by the daemon's books.
  std::size_t imported_memory();
  // Segments and events that exist on the GPU.
  int gpu_segments();

  Gates gates;
  FakeImporter importer;

 private:
  friend class LocalControl;
  class Files;
  absl::StatusOr<server::Broker::Opened> create(server::Session& session,
                                                const wire::ArraySpec& spec,
                                                const wire::Attributes& attributes, bool exist_ok,
                                                std::optional<uid_t> owner);
  // The same for what else makes an array.
  absl::StatusOr<server::Broker::Opened> make(
      absl::FunctionRef<absl::StatusOr<server::Broker::Creation>()> create);

  std::mutex mutex_;  // guards what follows
  int files_ = 0;     // of sessions that have not ended
  std::condition_variable files_changed_;
  FakeMemory memory_;
  FakeGpu gpu_{"GPU-1"};
  FakeClock clock_;
  server::Broker broker_;
  wire::SessionId elsewhere_{0};
  std::weak_ptr<internal::ArrayTable> session_;
};

}  // namespace memlease::testing
