// The daemon's Admin service as plain calls, for memleasectl. Thread-safe. Every call waits for at
// most its timeout; a failed one carries the daemon's own error, or kDaemonLost, or kTimeout.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The answers' messages: who looks at one includes "memlease/v1/admin.pb.h".
namespace memlease::v1 {
class HistoryReply;
class HoldersReply;
class ListArraysReply;
class ListSessionsReply;
class MetricsReply;
class SampleReply;
class StatusReply;
class VerifyReply;
}  // namespace memlease::v1

namespace memlease::internal {

class AdminStub {
 public:
  using Timeout = std::chrono::milliseconds;
  static constexpr Timeout kDefaultTimeout = std::chrono::seconds(30);

  // To <directory>/control.sock; errors as connect_socket()'s.
  static absl::StatusOr<std::unique_ptr<AdminStub>> connect(const std::string& directory,
                                                            Timeout timeout = kDefaultTimeout);

  ~AdminStub();

  // Who listens, as the kernel says.
  pid_t daemon_pid() const { return daemon_pid_; }
  uid_t daemon_uid() const { return daemon_uid_; }

  absl::StatusOr<v1::StatusReply> status();
  // A page of them. * is any text, ? any one character; empty = all. `from`: `next` of the page
  // before.
  absl::StatusOr<v1::ListArraysReply> list_arrays(std::string_view pattern, bool attributes = false,
                                                  std::string_view from = "");
  // Of one array, or of all where the name is empty; likewise a page.
  absl::StatusOr<v1::HoldersReply> list_holders(std::string_view name, std::string_view from = "");
  absl::StatusOr<v1::ListSessionsReply> list_sessions();
  absl::Status withdraw(std::string_view name);
  // In the text format of Prometheus.
  absl::StatusOr<v1::MetricsReply> metrics();
  absl::Status evict(std::uint32_t session_id);
  // What has happened after that event; see HistoryRequest. A call that waits has no timeout: it
  // ends with an event, or with the daemon.
  absl::StatusOr<v1::HistoryReply> history(std::uint64_t after, bool wait);
  // Of all arrays; those with greater ids are described, too.
  absl::StatusOr<v1::SampleReply> sample(std::uint64_t known_through);
  // Whether the daemon's books are right. kDenied, but to root and the daemon's own user.
  absl::StatusOr<v1::VerifyReply> verify();
  // The answer of gRPC's health service. False: the daemon drains.
  absl::StatusOr<bool> serving();

  // Ends the calls that are under way, and all later ones, with kInterrupted, save serving(): for
  // whoever must not wait until another thread's call has timed out. Does not block.
  void cancel();

 private:
  struct Calls;
  AdminStub(std::unique_ptr<Calls> calls, pid_t daemon_pid, uid_t daemon_uid);

  const std::unique_ptr<Calls> calls_;
  const pid_t daemon_pid_;
  const uid_t daemon_uid_;
};

}  // namespace memlease::internal
