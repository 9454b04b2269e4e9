// What the daemon tells the service manager that started it, by systemd's notification protocol
// (sd_notify(3)): datagrams of VARIABLE=value lines. Without an address nobody listens: nothing is
// sent, and no timer is set.
//
// Belongs to the loop's thread, or to any thread while the loop does not run.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/loop/event_loop.h"
#include "wire/unique_fd.h"

namespace memlease::server {

class ServiceManager {
 public:
  // The values of NOTIFY_SOCKET, "" for none, and WATCHDOG_USEC, 0 for none. loop outlives this.
  ServiceManager(EventLoop& loop, const std::string& notify_socket,
                 std::chrono::microseconds watchdog);
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  bool listens() const { return static_cast<bool>(socket_); }

  // The daemon serves, or serves again after reloading(). Where the manager is slow to read these
  // are told later, in their order. An error if it cannot be told.
  absl::Status ready();
  absl::Status reloading();
  // As the next one, waits up to 5 s for a manager that is slow to read. The loop has ended.
  absl::Status stopping();
  // The last word: takes the status line back, which would go on saying what the daemon does.
  absl::Status ended();
  // One line for people. Sent if it differs from the last one; dropped if the manager is slow.
  void set_status(std::string_view line);

  // From now on tells the manager at half the watchdog's time that the daemon lives, each time
  // after `probe` has returned: if that blocks, or the loop does not run, the manager acts. No
  // effect without a watchdog.
  void start_watchdog(std::function<void()> probe);

 private:
  int try_to_send(std::string_view lines, int flags) const;  // 0 or errno
  absl::Status send(std::string_view lines, int flags) const;
  static absl::Status outcome(int error);
  absl::Status tell(std::string lines);
  void tell_the_untold();
  void feed_watchdog();
  void tell_of_life();

  EventLoop& loop_;
  const std::chrono::microseconds watchdog_;
  // Kept open: when descriptors run out, the manager must still hear of us.
  wire::UniqueFd socket_;
  absl::Status unusable_;  // why there is none, although one was named
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
  std::string status_;
  std::function<void()> probe_;
  EventLoop::TimerId timer_;
  std::deque<std::string> untold_;  // what is not dropped, where the manager is slow
  EventLoop::TimerId untold_timer_;
};

}  // namespace memlease::server
