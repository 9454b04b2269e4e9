// One Client's share in the process's arrays of one daemon: its handles, which are its own to
// close, and its interrupt check. Lives as long as a copy of the Client or one of its handles; the
// last connection that is closed closes the session, unless that is kept. In a forked child another
// one takes its place there, over a session of the child's own, at the first use. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/api/connect_session.h"
#include "client/arrays/array_handle.h"
#include "client/arrays/array_table.h"
#include "wire/mutex.h"

namespace memlease::internal {

class Connection final : public HandleOwner, public std::enable_shared_from_this<Connection> {
 public:
  // The session counts it already (Session::add_connection).
  Connection(std::shared_ptr<ArrayTable> arrays, std::function<void()> check_interrupt, bool strict,
             bool check_after_signals);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Itself, or in a forked child what takes its place, which lives as long. Connects there if that
  // has not been done: kClosed, and what connect() says.
  absl::StatusOr<Connection*> in_this_process();
  // The same without connecting: where that would be needed, the forebear's.
  const Connection& last() const;
  bool closed() const { return closed_.load(); }

  // The arrays, while a call to the daemon is made. What it is to be told, and was silent before
  // that call, it is told as this ends, if it has answered: nobody waits for it twice.
  struct TellLater {
    bool silent;
    void operator()(ArrayTable* arrays) const;
  };
  using InUse = std::unique_ptr<ArrayTable, TellLater>;
  // For what in_this_process() gives. kClosed, kDaemonLost, what the interrupt check says, or the
  // arrays. Also does what dead views left undone, which may call the daemon and wait for a GPU.
  absl::StatusOr<InUse> use();
  // A handle of an array that the daemon has opened (ArrayTable::join).
  absl::StatusOr<std::shared_ptr<ArrayHandle>> join(const OpenAnswer& answer,
                                                    InterruptCheck interrupt);
  // The same without a call (ArrayTable::find_open); nullptr: ask the daemon.
  std::shared_ptr<ArrayHandle> find_open(const std::string& name);
  // Closes its handles, and the session if it was the last connection and that is not kept. In a
  // forked child it is for that process alone.
  // Fails with what the interrupt check says alone; closed it is all the same.
  absl::Status close();
  // HandleOwner.
  std::uint64_t interrupt_check() const override { return interrupt_check_; }
  bool strict() const override { return strict_; }
  // Asks the daemon, unless the array is open here already.
  absl::StatusOr<Opened> open_again(const OpenArray& before,
                                    std::weak_ptr<ArrayHandle> handle) override;
  absl::StatusOr<std::shared_ptr<ArrayHandle>> open_replica(OpenArray& home,
                                                            const std::string& device,
                                                            InterruptCheck interrupt) override;
  absl::StatusOr<std::shared_ptr<OpenArray>> join_replica(OpenArray& home, std::uint32_t number,
                                                          InterruptCheck interrupt) override;
  // keep_session() of its arrays.
  void keep_session() const { internal::keep_session(arrays_); }
  Session& session() const { return arrays_->session(); }
  absl::Status close(ArrayHandle& handle);
  // kClosed once it has been closed.
  absl::Status still_open() const;
  // For a call to the daemon, which ends when this is closed or its user interrupts it.
  auto interrupt() const {
    return [this] {
      auto status = still_open();
      return status.ok() ? session().check_interrupt(interrupt_check_) : status;
    };
  }

 private:
  std::shared_ptr<ArrayHandle> make_handle(std::shared_ptr<OpenArray> array)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void keep(std::weak_ptr<ArrayHandle> handle) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Connection*> successor();
  absl::StatusOr<std::shared_ptr<OpenArray>> join_again(const OpenArray& before);

  const std::shared_ptr<ArrayTable> arrays_;
  const std::uint64_t interrupt_check_;
  const bool strict_;  // of ConnectOptions, as the next one
  const bool check_after_signals_;
  // The caller's, for a child's connection; empty once it has been closed.
  std::function<void()> check_interrupt_;
  std::atomic<bool> closed_{false};
  // What takes its place in a forked child; owned.
  std::atomic<std::shared_ptr<Connection>*> successor_{nullptr};

  wire::Mutex mutex_;
  std::vector<std::weak_ptr<ArrayHandle>> handles_ ABSL_GUARDED_BY(mutex_);
  std::size_t handles_to_prune_ ABSL_GUARDED_BY(mutex_) =
      16;  // at so many the dead ones are left out
};

}  // namespace memlease::internal
