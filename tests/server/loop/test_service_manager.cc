#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/loop/event_loop.h"
#include "server/loop/service_manager.h"
#include "tests/support/open_files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a service manager would receive.
class FakeManager {
 public:
  explicit FakeManager(wire::UniqueFd socket) : socket_(std::move(socket)) {}
  // The next message; "" if there is none.
  std::string next() const {
    char text[512];
    const ssize_t size = ::recv(socket_.get(), text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? "" : std::string(text, static_cast<std::size_t>(size));
  }

 private:
  wire::UniqueFd socket_;
};

class ServiceManagerTest : public ::testing::Test {
 protected:
  // The socket's queue ends somewhere: whoever waited there would wait for ever.
  void fill_queue() const {
    int told = 0;
    for (; told < 100'000; ++told) {
      const wire::UniqueFd other(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const sockaddr_un address = testing::unix_address(path_);
      if (::sendto(other.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&address),
                   sizeof address) != 1) {
        break;
      }
    }
    ASSERT_LT(told, 100'000) << "the queue never got full";
  }
  void empty_queue() const {
    while (fake_.next() == "x") {
    }
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/notify";
  const FakeManager fake_{testing::bind_unix(path_, SOCK_DGRAM)};
  const std::unique_ptr<EventLoop> loop_ = *EventLoop::create();
};

TEST_F(ServiceManagerTest, TellsEachStepOfADaemonsLife) {
  ServiceManager manager(*loop_, path_, microseconds(0));
  EXPECT_TRUE(manager.listens());
  EXPECT_TRUE(manager.ready().ok());
  EXPECT_EQ(fake_.next(), "READY=1");
  EXPECT_TRUE(manager.stopping().ok());
  EXPECT_EQ(fake_.next(), "STOPPING=1\nSTATUS=ending: memory goes back to the system");
  EXPECT_TRUE(manager.ended().ok());
  EXPECT_EQ(fake_.next(), "STATUS=");
}

TEST_F(ServiceManagerTest, AReloadSaysWhenItBegan) {
  const auto now_us = [] {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
  };
  ServiceManager manager(*loop_, path_, microseconds(0));
  const auto before = now_us();
  EXPECT_TRUE(manager.reloading().ok());
  const auto after = now_us();
  const std::string message = fake_.next();
  const std::string start = "RELOADING=1\nMONOTONIC_USEC=";
  ASSERT_THAT(message, ::testing::StartsWith(start));
  const auto told = std::stoll(message.substr(start.size()));
  EXPECT_GE(told, before);
  EXPECT_LE(told, after);
}

TEST_F(ServiceManagerTest, AStatusIsToldOnlyIfItDiffers) {
  ServiceManager manager(*loop_, path_, microseconds(0));
  for (const char* line : {"one", "one", "two", "one"}) manager.set_status(line);
  EXPECT_EQ(fake_.next(), "STATUS=one");
  EXPECT_EQ(fake_.next(), "STATUS=two");
  EXPECT_EQ(fake_.next(), "STATUS=one");
  EXPECT_EQ(fake_.next(), "");
}

TEST_F(ServiceManagerTest, AStatusDoesNotWaitForASlowManagerAndIsToldLater) {
  ServiceManager manager(*loop_, path_, microseconds(0));
  fill_queue();
  manager.set_status("late");
  empty_queue();
  manager.set_status("late");
  EXPECT_EQ(fake_.next(), "STATUS=late");
}

TEST_F(ServiceManagerTest, TheWatchdogHearsTheLoopAtHalfItsTime) {
  ServiceManager manager(*loop_, path_, milliseconds(20));
  int probes = 0;
  const auto start = EventLoop::Clock::now();
  manager.start_watchdog([&] {
    EXPECT_EQ(fake_.next(), probes == 0 ? "" : "WATCHDOG=1");
    if (++probes == 5) loop_->stop();
  });
  EXPECT_EQ(probes, 1) << "the first sign of life comes at once";
  loop_->run();
  EXPECT_GE(EventLoop::Clock::now() - start, milliseconds(40));
}

// As systemd's is, whose queue takes ten messages of whoever sends some.
TEST_F(ServiceManagerTest, WhatAFullQueueDoesNotTakeIsToldOnceThereIsRoom) {
  ServiceManager manager(*loop_, path_, std::chrono::hours(1));
  fill_queue();
  manager.start_watchdog([] {});
  loop_->after(milliseconds(50), [&] { empty_queue(); });
  std::string told;
  const std::function<void()> look = [&] {
    told = fake_.next();
    if (told != "WATCHDOG=1") {
      loop_->after(milliseconds(1), look);
    } else {
      loop_->stop();
    }
  };
  loop_->after(milliseconds(51), look);
  loop_->after(std::chrono::seconds(10), [&] { loop_->stop(); });
  loop_->run();
  EXPECT_EQ(told, "WATCHDOG=1");
}

TEST_F(ServiceManagerTest, AFullQueueStopsNobodyAndItsOrderStays) {
  ServiceManager manager(*loop_, path_, microseconds(0));
  fill_queue();
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(manager.reloading().ok());
  EXPECT_TRUE(manager.ready().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(4)) << "it waited";
  empty_queue();
  EXPECT_TRUE(manager.reloading().ok()) << "which does not overtake";
  std::vector<std::string> told;
  const std::function<void()> look = [&] {
    for (std::string next = fake_.next(); !next.empty(); next = fake_.next()) told.push_back(next);
    told.size() == 3 ? loop_->stop() : void(loop_->after(milliseconds(1), look));
  };
  loop_->after(milliseconds(1), look);
  loop_->after(std::chrono::seconds(10), [&] { loop_->stop(); });
  loop_->run();
  EXPECT_THAT(told, ElementsAre(HasSubstr("RELOADING=1"), "READY=1", HasSubstr("RELOADING=1")));
}

TEST_F(ServiceManagerTest, WithoutAWatchdogThereIsNoTimer) {
  ServiceManager manager(*loop_, path_, microseconds(0));
  manager.start_watchdog([] { ADD_FAILURE() << "nobody asked for it"; });
  EXPECT_EQ(fake_.next(), "");
}

TEST_F(ServiceManagerTest, WithoutASocketNothingIsTold) {
  ServiceManager manager(*loop_, "", milliseconds(1));
  EXPECT_FALSE(manager.listens());
  EXPECT_TRUE(manager.ready().ok());
  manager.set_status("unheard");
  manager.start_watchdog([] { ADD_FAILURE() << "nobody watches"; });
}

TEST_F(ServiceManagerTest, AnAbstractSocketIsFound) {
  const std::string name = "memlease-test-" + std::to_string(::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());
  wire::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  const FakeManager abstract(std::move(socket));
  ServiceManager manager(*loop_, "@" + name, microseconds(0));
  EXPECT_TRUE(manager.ready().ok());
  EXPECT_EQ(abstract.next(), "READY=1");
}

TEST_F(ServiceManagerTest, AManagerThatCannotBeToldIsAnError) {
  for (const std::string& name :
       {folder_.path() + "/missing", std::string("vsock:2:1234"), "/" + std::string(200, 'x')}) {
    ServiceManager manager(*loop_, name, microseconds(0));
    const absl::Status told = manager.ready();
    EXPECT_FALSE(told.ok()) << name;
    EXPECT_THAT(wire::message_of(told), HasSubstr("service manager"));
  }
}

TEST_F(ServiceManagerTest, ADescriptorIsKeptForIt) {
  const auto files = testing::open_files();
  {
    ServiceManager manager(*loop_, path_, microseconds(0));
    EXPECT_EQ(testing::open_files().size(), files.size() + 1);
  }
  EXPECT_EQ(testing::open_files(), files);
}

}  // namespace
}  // namespace memlease::server
