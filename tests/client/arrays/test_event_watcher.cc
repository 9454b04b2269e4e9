// The thread that waits on behalf of events, on fakes: while one is asked for, for all of them, and
// not over a fork.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/arrays/event_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"
#include "tests/support/eventually.h"
#include "tests/support/forked.h"
#include "tests/support/readable.h"
#include "wire/unique_fd.h"

namespace memlease::internal {
namespace {

using testing::eventually;
using testing::in_forked_child;
using testing::readable;
using ::testing::SizeIs;

Awaited awaited_of(const std::shared_ptr<OpenArray>& array, std::uint64_t newer_than = 0) {
  Awaited awaited{array, newer_than, {}};
  const auto reader = array->reader(kNoInterrupts);
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (reader.ok()) awaited.reader = *reader;
  return awaited;
}

// An array with an event.
struct Watched : testing::ArrayWorld {
  Watched() : sleeping(row<wire::ReaderRow>(kOwnReader).sleeping) {}
  // The thread's round ends before what it looks at.
  ~Watched() {
    event.set_readable();
    EXPECT_TRUE(eventually([this] { return array.use_count() == 1; }));
  }
  int open_event() {
    const auto fd = event.open(awaited_of(array));
    EXPECT_TRUE(fd.ok()) << fd.status();
    return fd.value_or(-1);
  }
  void take(std::uint64_t version) { event.taken(awaited_of(array, version)); }
  bool sleeps() const { return sleeping.load() != 0; }

  const wire::HalfWord& sleeping;
  std::shared_ptr<OpenArray> array = open();
  EventDescriptor event;
};

// The numbers of this process's threads that wait for events.
std::vector<std::string> watchers() {
  std::vector<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "memlease-watch") found.push_back(task.path().filename());
  }
  return found;
}

class EventWatcherTest : public ::testing::Test {
 protected:
  Watched watched;
};

TEST_F(EventWatcherTest, WakesWhoWaitsForTheDescriptorWhenAVersionComes) {
  const int fd = watched.open_event();
  EXPECT_TRUE(eventually([this] { return watched.sleeps(); }));
  EXPECT_FALSE(readable(fd, 0));
  watched.publish_elsewhere(1);
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(watched.open_event(), fd) << "there is one";
}

TEST_F(EventWatcherTest, WaitsForNothingWhileTheDescriptorIsReadable) {
  const int fd = watched.open_event();
  watched.publish_elsewhere(1);
  ASSERT_TRUE(readable(fd));
  EXPECT_TRUE(eventually([this] { return !watched.sleeps(); }));
  watched.publish_elsewhere(2);
  watched.take(1);
  EXPECT_TRUE(readable(fd, 0)) << "there is a version that has not been taken";
  EXPECT_FALSE(watched.sleeps());
  watched.take(2);
  EXPECT_FALSE(readable(fd, 0));
  EXPECT_TRUE(eventually([this] { return watched.sleeps(); }));
  watched.publish_elsewhere(3);
  EXPECT_TRUE(readable(fd));
}

TEST_F(EventWatcherTest, AnEventThatHasEndedIsReadableForGood) {
  const int fd = watched.open_event();
  watched.event.set_readable();
  EXPECT_TRUE(readable(fd, 0));
  watched.take(0);
  EXPECT_TRUE(readable(fd, 0));
}

TEST_F(EventWatcherTest, IsOneThreadForAllEvents) {
  Watched other;
  const int fd = watched.open_event();
  const int others_fd = other.open_event();
  EXPECT_TRUE(eventually([&] { return watched.sleeps() && other.sleeps(); }));
  EXPECT_THAT(watchers(), SizeIs(1));
  other.publish_elsewhere(1);
  EXPECT_TRUE(readable(others_fd));
  EXPECT_FALSE(readable(fd, 0));
}

TEST_F(EventWatcherTest, EndsBeforeAForkAndBeginsAgainInTheParent) {
  const int fd = watched.open_event();
  EXPECT_TRUE(eventually([this] { return watched.sleeps() && watchers().size() == 1; }));
  const auto before = watchers();
  EXPECT_EQ(watchers(), before) << "the control: it goes on by itself";
  EXPECT_EQ(in_forked_child([]() -> std::string { return "forked"; }), "forked");
  EXPECT_TRUE(eventually([&] { return watchers().size() == 1 && watchers() != before; }));
  EXPECT_TRUE(eventually([this] { return watched.sleeps(); }));
  watched.publish_elsewhere(1);
  EXPECT_TRUE(readable(fd));
}

// As os.closerange() and what the program opens next may do. The thread's first look opens files,
// too, one of which could get the number: so it is over before a descriptor is closed.
class ClosedEvent : public EventWatcherTest {
 protected:
  int open_looked_at(EventDescriptor& event) {
    const auto fd = event.open(awaited_of(watched.array));
    EXPECT_TRUE(fd.ok()) << fd.status();
    EXPECT_TRUE(eventually([this] { return watched.sleeps(); }));
    return fd.value_or(-1);
  }
  // Another eventfd has its number from now on. The kernel may give it all that the first one had,
  // which has ended before.
  static int put_another_in_place_of(int fd, unsigned count) {
    ::close(fd);
    const int another = ::eventfd(count, EFD_CLOEXEC | EFD_NONBLOCK);
    if (another == fd) return fd;
    EXPECT_EQ(::dup2(another, fd), fd);
    ::close(another);
    return fd;
  }
  int put_another_in_its_place(unsigned count) {
    return put_another_in_place_of(open_looked_at(watched.event), count);
  }
  // `opened` has the number that was `watched`'s.
  int open_in_its_place(Watched& opened) {
    Awaited awaited = awaited_of(opened.array);
    const int fd = open_looked_at(watched.event);
    ::close(fd);
    EXPECT_EQ(*opened.event.open(std::move(awaited)), fd);
    return fd;
  }
};

TEST_F(ClosedEvent, WhatHasItsNumberIsNotWritten) {
  const wire::UniqueFd another(put_another_in_its_place(0));
  watched.event.set_readable();
  EXPECT_FALSE(readable(another.get(), 0));
}

TEST_F(ClosedEvent, WhatHasItsNumberIsNotRead) {
  const int fd = open_looked_at(watched.event);
  watched.publish_elsewhere(1);
  ASSERT_TRUE(readable(fd));
  const wire::UniqueFd another(put_another_in_place_of(watched.open_event(), 1));
  watched.take(1);
  EXPECT_TRUE(readable(another.get(), 0));
}

TEST_F(ClosedEvent, WhatHasItsNumberIsNotClosed) {
  auto event = std::make_unique<EventDescriptor>();
  const wire::UniqueFd another(put_another_in_place_of(open_looked_at(*event), 0));
  event.reset();
  EXPECT_GE(::fcntl(another.get(), F_GETFD), 0);
}

TEST_F(ClosedEvent, AnotherEventThatHasItsNumberIsItsOwn) {
  Watched other;
  const int others_fd = open_in_its_place(other);
  watched.event.set_readable();
  EXPECT_FALSE(readable(others_fd, 0));
}

TEST_F(ClosedEvent, IsMadeAgainUnderTheSameNumber) {
  const int fd = open_in_its_place(watched);
  EXPECT_FALSE(readable(fd, 0));
  watched.publish_elsewhere(1);
  EXPECT_TRUE(readable(fd));
}

TEST_F(ClosedEvent, IsMadeAgainUnderAnotherNumber) {
  const wire::UniqueFd another(put_another_in_its_place(0));
  const int fd = watched.open_event();
  EXPECT_NE(fd, another.get());
  watched.publish_elsewhere(1);
  EXPECT_TRUE(readable(fd));
  EXPECT_FALSE(readable(another.get(), 0));
}

TEST_F(ClosedEvent, IsMadeUnderAnotherNumberInAChild) {
  const wire::UniqueFd another(put_another_in_its_place(0));
  EXPECT_EQ(in_forked_child([&]() -> std::string {
              testing::ArrayWorld there;
              const auto array = there.open();
              const int fd = *watched.event.open(awaited_of(array));
              if (fd == another.get()) return "the same number";
              there.publish_elsewhere(1);
              if (!readable(fd)) return "not readable";
              watched.event.set_readable();
              return eventually([&] { return array.use_count() == 1; }) ? "right" : "kept";
            }),
            "right");
}

TEST_F(EventWatcherTest, AChildsDescriptorIsItsOwn) {
  const int fd = watched.open_event();
  EXPECT_EQ(in_forked_child([&]() -> std::string {
              testing::ArrayWorld there;
              const auto array = there.open();
              if (*watched.event.open(awaited_of(array)) != fd) return "another number";
              if (readable(fd, 0)) return "readable at once";
              there.publish_elsewhere(1);
              if (!readable(fd)) return "not readable";
              watched.event.set_readable();
              return eventually([&] { return array.use_count() == 1; }) ? "right" : "kept";
            }),
            "right");
  EXPECT_FALSE(readable(fd, 0)) << "that was the child's";
}

}  // namespace
}  // namespace memlease::internal
