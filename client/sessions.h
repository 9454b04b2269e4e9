// The process's sessions by directory, however that is spelled, each made by one thread, without
// the lock: whoever wants that directory meanwhile waits, and nobody else does. Never destroyed:
// connect() may be called late, and what is kept ends with the process. Called by connect.cc, which
// knows how a session is made. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/arrays/array_table.h"
#include "client/session/fork_guard.h"
#include "client/session/interrupt.h"
#include "wire/mutex.h"

namespace memlease::internal {

class Sessions {
 public:
  static Sessions& instance();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // The session there, unless it or its daemon is ending; else what `attach` makes, or says. One
  // more connection is counted (Session::add_connection). `interrupt` ends the wait for another
  // thread that attaches there.
  using Attach = absl::FunctionRef<absl::StatusOr<std::shared_ptr<ArrayTable>>()>;
  absl::StatusOr<std::shared_ptr<ArrayTable>> get(const std::string& directory, Attach attach,
                                                  InterruptCheck interrupt);
  // But those of before a fork.
  std::vector<std::shared_ptr<ArrayTable>> all();
  // As keep_session() has it.
  void keep(const std::shared_ptr<ArrayTable>& arrays);

 private:
  Sessions() = default;
  absl::StatusOr<std::shared_ptr<ArrayTable>> find_or_begin(const std::string& directory,
                                                            InterruptCheck interrupt);
  bool others_attach_to(const std::string& directory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void publish(const std::string& directory, const std::shared_ptr<ArrayTable>& session);
  void end(const std::string& directory);
  std::map<std::string, std::thread::id>& attaching() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  wire::Mutex mutex_{wire::HeldOverLocks(4)};  // a fork takes it
  std::map<std::string, std::weak_ptr<ArrayTable>> sessions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<ArrayTable>> kept_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t fork_generation_ ABSL_GUARDED_BY(mutex_) = fork_generation();
  // To these directories threads attach.
  std::map<std::string, std::thread::id> attaching_ ABSL_GUARDED_BY(mutex_);
  // The last one: attaching_ has lost one.
  std::list<wire::CondVar> ended_ ABSL_GUARDED_BY(mutex_) = std::list<wire::CondVar>(1);
};

}  // namespace memlease::internal
