// The epoll set that gRPC keeps, in a child and after the program has closed it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "client/rpc/poll_set.h"
#include "grpc/grpc.h"
#include "gtest/gtest.h"
#include "tests/support/forked.h"

namespace memlease::internal {
namespace {

struct Numbers {
  int epoll = -1;
  int event = -1;
};

class PollSetTest : public ::testing::Test {
 protected:
  PollSetTest() {
    in_child([] { return true; });  // a fork ends gRPC, which a test before may have left up
    ::grpc_init();
    ::grpc_shutdown_blocking();
    EXPECT_TRUE(set.find());
    EXPECT_TRUE(set.whole());
  }
  // Of this process's only epoll set.
  static Numbers numbers() {
    Numbers found;
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
      std::ifstream info(file.path());
      for (std::string line; std::getline(info, line);) {
        if (std::sscanf(line.c_str(), "tfd: %d", &found.event) != 1) continue;
        found.epoll = std::stoi(file.path().filename());
      }
    }
    EXPECT_GE(found.epoll, 0);
    return found;
  }
  static std::string in_child(const std::function<bool()>& fn) {
    return testing::in_forked_child([&] { return std::string(fn() ? "right" : "wrong"); });
  }

  PollSet set;
};

TEST_F(PollSetTest, AChildNeedsNoNumberAboveItsOwn) {
  EXPECT_EQ(in_child([&] {
              const Numbers at = numbers();
              rlimit limit{};
              ::getrlimit(RLIMIT_NOFILE, &limit);
              limit.rlim_cur = static_cast<rlim_t>(std::max(at.epoll, at.event)) + 1;
              return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && set.renew() && set.whole();
            }),
            "right");
}

TEST_F(PollSetTest, IsMadeAgainWhereTheProgramHasClosedIt) {
  EXPECT_EQ(in_child([&] {
              const Numbers at = numbers();
              ::close(at.epoll);
              ::close(at.event);
              return !set.whole() && set.repair() && set.whole();
            }),
            "right");
}

TEST_F(PollSetTest, AFileThatHasItsNumberIsLeftAlone) {
  for (const bool at_epoll : {true, false}) {
    EXPECT_EQ(in_child([&] {
                const Numbers at = numbers();
                ::close(at.epoll);
                ::close(at.event);
                const int place = at_epoll ? at.epoll : at.event;
                const int null = ::open("/dev/null", O_RDONLY);
                if (null != place) ::dup2(null, place);
                struct stat before{}, after{};
                ::fstat(place, &before);
                if (set.repair()) return false;
                return ::fstat(place, &after) == 0 && S_ISCHR(after.st_mode) &&
                       after.st_rdev == before.st_rdev;
              }),
              "right")
        << at_epoll;
  }
}

}  // namespace
}  // namespace memlease::internal
