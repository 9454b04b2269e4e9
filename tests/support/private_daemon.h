// The real memleased, on a directory of its own, for one test. Not thread-safe.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/admin/admin_stub.h"
#include "tests/support/temporary_folder.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

class PrivateDaemon {
 public:
  // Returns once the daemon has said READY=1; a failure to start is a test failure and aborts.
  // Flags such as "--warm-bytes=0". The directory can be entered by every user. With another `uid`
  // than this process's it belongs to that, as the daemon does, and admin() does not trust it.
  // Another `program` of the build than memleased is one that is linked otherwise. `variables`:
  // "NAME=value", of its environment.
  explicit PrivateDaemon(std::vector<std::string> flags = {}, uid_t uid = geteuid(),
                         const std::string& program = "bin/memleased",
                         const std::vector<std::string>& variables = {});
  // Ends the daemon if it runs still, and checks that it leaves nothing in its directory.
  ~PrivateDaemon();
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  const std::string& directory() const { return directory_; }
  pid_t pid() const { return pid_; }
  // Everything it has logged.
  std::string log() const;

  void signal(int number) const;
  // SIGSTOP. Returns when all of its threads stand still.
  void stop() const;
  // Waits for the end; what it exited with, or 128 + the signal that killed it, or -1 if it still
  // runs after `timeout_ms`.
  int wait(int timeout_ms = 10'000);
  // SIGKILL, and gone.
  void kill();

  internal::AdminStub& admin();
  // "" once nothing stands in the books any more: no array, no session, no byte charged or taken
  // from the system, no memfd; else what still stands after `timeout_ms`. Sessions that the test
  // keeps are not counted against it.
  std::string unsettled(std::size_t sessions = 0, int timeout_ms = 2'000);
  // Shared files that the daemon has open. Needs root, as the daemon cannot be looked into.
  std::size_t memfds() const;
  // Of these, those that it keeps ready once somebody was there: one of each kind of page file.
  static constexpr std::size_t kSpareFiles = 3;
  std::size_t open_files() const;
  std::size_t threads() const;
  // A line of /proc/PID/status that is in kB, such as "VmRSS"; a test failure if there is none.
  std::uint64_t memory_bytes(std::string_view line) const;

 private:
  std::string books(std::size_t sessions);

  TemporaryFolder home_;
  std::string directory_;
  pid_t pid_ = 0;
  bool killed_ = false;
  wire::UniqueFd process_;
  std::unique_ptr<internal::AdminStub> admin_;
};

// memleased with these arguments, to its end.
struct Finished {
  int exit_code;  // as PrivateDaemon::wait()
  std::string output;
};
Finished run_program(const std::vector<std::string>& arguments);

}  // namespace memlease::testing
