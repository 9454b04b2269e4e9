// What the daemon calls a process, for people.
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/channel/command_lines.h"

namespace memlease::server {
namespace {

using namespace std::string_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(CommandLines, TheArgumentsAreJoined) {
  EXPECT_EQ(CommandLines::printable("python3\0plot.py\0--fast\0"s), "python3 plot.py --fast");
  EXPECT_EQ(CommandLines::printable("daemon\0\0\0"s), "daemon");
  EXPECT_EQ(CommandLines::printable(""), "");
}

TEST(CommandLines, NothingThatATerminalWouldObeyIsLeft) {
  EXPECT_EQ(CommandLines::printable("a\x1b[2J\nb\x7f\xc2\x9b"), "a\\x1b[2J\\x0ab\\x7f\\xc2\\x9b");
}

TEST(CommandLines, TheyHaveABound) {
  const std::string full(CommandLines::kMostBytes, 'x');
  EXPECT_EQ(CommandLines::printable(full), full);
  const std::string cut = CommandLines::printable(full + "y");
  EXPECT_EQ(cut.size(), CommandLines::kMostBytes);
  EXPECT_THAT(cut, EndsWith("x..."));
  const std::string escaped = CommandLines::printable(std::string(1000, '\x01'));
  EXPECT_LE(escaped.size(), CommandLines::kMostBytes);
  EXPECT_THAT(escaped, EndsWith("..."));
}

TEST(CommandLines, AProcessIsAskedForItsOwn) {
  CommandLines lines(CommandLines::read_command_line, std::chrono::milliseconds(0));
  EXPECT_THAT(lines.of(::getpid()), HasSubstr("/test_channel"));
  EXPECT_EQ(lines.of(::getpid()), CommandLines::read_command_line(::getpid()));
}

TEST(CommandLines, TheNameIsAskedForByAThreadThatNobodyWaitsForLong) {
  CommandLines lines([](pid_t) { return "line"s; }, std::chrono::milliseconds(0));
  const pid_t none = 0;
  EXPECT_EQ(lines.name_of(none), "");
  EXPECT_EQ(lines.name_of(::getpid()), "test_channel");
}

// A kernel thread, or a process that has overwritten it.
TEST(CommandLines, AProcessWithoutOneIsKnownByItsName) {
  CommandLines lines([](pid_t) { return ""s; });
  EXPECT_EQ(lines.of(::getpid()), "test_channel");
}

// Whoever holds the lock of its own memory must not hold up the daemon.
TEST(CommandLines, AProcessThatCannotBeReadNowIsKnownByItsName) {
  std::promise<void> lock;
  const std::shared_future<void> free(lock.get_future());
  std::atomic<int> reads{0};
  const auto read = [free, &reads](pid_t) {
    ++reads;
    free.wait();
    return "line"s;
  };
  CommandLines lines(read, std::chrono::milliseconds(0));
  EXPECT_EQ(lines.of(::getpid()), "test_channel");
  EXPECT_EQ(lines.of(::getpid()), "test_channel");
  EXPECT_LE(reads, 1);
  lock.set_value();
  while (lines.of(::getpid()) != "line") {
  }
}

TEST(CommandLines, AfterAWaitInVainTheLoopDoesNotWaitForAWhile) {
  std::promise<void> lock;
  const std::shared_future<void> free(lock.get_future());
  std::promise<void> over;
  CommandLines lines([free, &over](pid_t) {
    free.wait();
    over.set_value();
    return "line"s;
  });
  EXPECT_EQ(lines.of(::getpid()), "test_channel");
  lock.set_value();
  over.get_future().wait();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(lines.of(::getpid()), "test_channel");
}

// Whoever is kept from a processor has locked a directory of /proc.
TEST(CommandLines, AProcessWhoseNameCannotBeReadNowHasNone) {
  std::promise<void> lock;
  const std::shared_future<void> free(lock.get_future());
  const auto read = [free](pid_t) {
    free.wait();
    return "name"s;
  };
  CommandLines lines([](pid_t) { return ""s; }, std::chrono::milliseconds(0), read);
  EXPECT_EQ(lines.of(::getpid()), "");
  EXPECT_EQ(lines.name_of(::getpid()), "");
  lock.set_value();
  while (lines.of(::getpid()) != "name") {
  }
}

TEST(CommandLines, AnEndDoesNotWaitForAReadThatIsHeldUp) {
  auto lock = std::make_shared<std::promise<void>>();
  const std::shared_future<void> free(lock->get_future());
  std::promise<void> over;
  {
    CommandLines lines([free, &over](pid_t) {
      free.wait();
      over.set_value();
      return "line"s;
    });
    lines.of(::getpid());
  }
  lock->set_value();
  over.get_future().wait();
}

}  // namespace
}  // namespace memlease::server
