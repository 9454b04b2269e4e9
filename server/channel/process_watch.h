// Tells when a client's process has exited. A pidfd names one process for ever, whatever becomes of
// the number; it is what the daemon's "exited" rests on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/loop/event_loop.h"
#include "wire/unique_fd.h"

namespace memlease::server {

// How to come by the pidfd of a peer. kByNumber does as kernels before 6.5 must: for tests.
enum class PidfdWay { kBest, kByNumber };

// The process that connected `socket`, of number `pid` by SO_PEERCRED: 0 for one in another PID
// namespace. By number alone it may be another that got the number since: the caller makes sure,
// see attach_connection.h. Denied if the process has exited, or has no number and the kernel knows
// no other way.
absl::StatusOr<wire::UniqueFd> pidfd_of_peer(int socket, pid_t pid, PidfdWay way);

// Whether two pidfds are of one process. Before Linux 6.9 nothing tells, and the answer is yes.
bool is_same_process(int pidfd, int other);

// Asks the kernel now.
bool has_exited(int pidfd);

// Watches from its construction to its destruction. Belongs to the loop's thread.
class ProcessWatch {
 public:
  // `on_exit` is called at most once, by the loop; it may destroy the watch. `user`: whose process
  // it is, see EventLoop::add().
  static absl::StatusOr<ProcessWatch> start(EventLoop* loop, wire::UniqueFd pidfd,
                                            std::function<void()> on_exit,
                                            std::optional<std::uint32_t> user = {});
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&& other) noexcept = default;
  ProcessWatch& operator=(ProcessWatch&&) = delete;

  int pidfd() const { return pidfd_.get(); }

 private:
  ProcessWatch(EventLoop* loop, wire::UniqueFd pidfd) : loop_(loop), pidfd_(std::move(pidfd)) {}

  EventLoop* loop_;
  wire::UniqueFd pidfd_;  // none after a move
};

}  // namespace memlease::server
