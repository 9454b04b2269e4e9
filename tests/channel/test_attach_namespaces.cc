// Apart from the other tests, since a process that has threads, as ThreadSanitizer's have, cannot
// enter a user namespace.
#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "client/channel/attach_client.h"
#include "gmock/gmock.h"
#include "tests/channel/attach_fixture.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using internal::AttachClient;
using ::testing::HasSubstr;

// A daemon in namespaces of its own, which its client is outside of: the kernel cannot tell it who
// the client is.
class AttachAcrossNamespaces : public AttachFixture {
 protected:
  std::string refusal_by_daemon_in(int namespaces) {
    Gate ready;
    Child daemon(
        [&]() -> std::string {
          if (::unshare(namespaces) != 0) return "this test needs root";
          if ((namespaces & CLONE_NEWUSER) != 0) std::ofstream("/proc/self/uid_map") << "0 0 1";
          Child inside(  // the first process in a new PID namespace
              [&]() -> std::string {
                static_cast<void>(loop.release());  // it has lost its descriptors
                loop = *server::EventLoop::create();
                serve();
                ready.open();
                run_until([&] { return !log.empty() || !host.events.empty(); });
                return log.empty() ? "not refused" : "";
              },
              ready.fds());
          return inside.reap();
        },
        ready.fds());
    ready.wait();
    Child client([&]() -> std::string {
      if (::setuid(1000) != 0) return "this test needs root";
      return wire::message_of(AttachClient::connect(directory).status());
    });
    const std::string said = finish(client);
    EXPECT_EQ(finish(daemon), "");
    return said;
  }
};

TEST_F(AttachAcrossNamespaces, RefusesAUserWithoutANumberInTheDaemonsNamespace) {
  EXPECT_THAT(refusal_by_daemon_in(CLONE_NEWUSER), HasSubstr("has no number in the daemon's user"));
}

TEST_F(AttachAcrossNamespaces, RefusesAProcessWithoutANumberInTheDaemonsNamespace) {
  EXPECT_THAT(refusal_by_daemon_in(CLONE_NEWPID),
              HasSubstr("outside of the daemon's PID namespace"));
}

}  // namespace
}  // namespace memlease::testing
