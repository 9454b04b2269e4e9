// A real attach server on real sockets, driven by the test's own thread, and real processes as its
// clients. Whatever a test waits for is an event: of the host, of the log, or a child's end.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "server/channel/attach_server.h"
#include "server/loop/event_loop.h"
#include "tests/support/fake_session_host.h"
#include "tests/support/open_files.h"
#include "tests/support/raw_client.h"
#include "tests/support/temporary_folder.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

// A forked process with none of the test's descriptors but `keep`. Killed if it still runs at the
// end.
class Child {
 public:
  // `work` says what went wrong, or nothing.
  using Work = std::function<std::string()>;
  explicit Child(const Work& work, std::vector<int> keep = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  int report() const { return report_.get(); }  // readable when it has ended
  void kill() const;
  // Once report() is readable: what `work` said, or which signal ended it.
  std::string reap();

 private:
  pid_t pid_ = -1;
  wire::UniqueFd report_;
};

// A pipe that holds a child, until it is opened.
class Gate {
 public:
  Gate();
  std::vector<int> fds() const { return {read_.get(), write_.get()}; }
  void open();
  void wait();  // for open(), or for the end of whoever would

 private:
  wire::UniqueFd read_, write_;
};

class AttachFixture : public ::testing::Test {
 public:
  ~AttachFixture() override;

 protected:
  AttachFixture();

  // Binds and listens: clients may connect from here on, and find nobody until serve().
  void listen();
  void serve();
  // Runs the loop until `reached`; a failure of the test after 20 s.
  void run_until(const std::function<bool()>& reached);
  // Runs the loop until the child ends.
  std::string finish(Child& child);
  // That the daemon still serves others.
  void expect_service();

  const TemporaryFolder folder_;
  server::AttachOptions options;
  std::vector<std::string> log;
  std::vector<uid_t> log_uids;  // of the same lines
  const std::string directory;
  std::unique_ptr<server::EventLoop> loop;
  FakeSessionHost host;
  std::unique_ptr<server::AttachServer> server;
  wire::UniqueFd listener;                // from listen() to serve()
  bool lets_descriptors_through = false;  // so that clients can send them; from serve() on

 private:
  const std::set<std::string> fds_before_;
};

// Each test runs twice: as on this kernel, and as on one before 6.5, which lets
// clients send descriptors, too.
class EachPidfdWay : public AttachFixture, public ::testing::WithParamInterface<server::PidfdWay> {
 protected:
  EachPidfdWay() { options.pidfd_way = GetParam(); }
};
inline const auto kPidfdWays =
    ::testing::Values(server::PidfdWay::kBest, server::PidfdWay::kByNumber);
inline std::string pidfd_way_name(const ::testing::TestParamInfo<server::PidfdWay>& way) {
  return way.param == server::PidfdWay::kBest ? "Best" : "ByNumber";
}

// "NAME: MESSAGE".
std::string say(const absl::Status& status);

}  // namespace memlease::testing
