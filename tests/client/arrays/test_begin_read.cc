// How a read comes by a version, and what it gives back where it does not, on fakes.
#include <chrono>
#include <string>
#include <thread>

#include "client/arrays/begin_read.h"
#include "client/arrays/not_now.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"
#include "tests/support/eventually.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using ::testing::HasSubstr;
using wire::ErrorCode;

class BeginReadTest : public ::testing::Test, protected testing::ArrayWorld {
 protected:
  absl::Status begin(const ReadOptions& options = {}, std::chrono::nanoseconds timeout = 0ns) {
    WaitLimit within(owner->session(), 0, timeout, 0ns);
    return begin_read(*array, options, within, attempt);
  }
  static ReadOptions newer_than(std::uint64_t version) {
    ReadOptions options;
    options.newer_than = version;
    return options;
  }
  static ReadOptions of_version(std::uint64_t version) {
    ReadOptions options;
    options.version = version;
    return options;
  }
  // Another process publishes the version in the slot, and wakes whoever sleeps on that.
  void publish(std::uint64_t version, std::uint32_t slot) {
    auto& writer = row<wire::WriterRow>(kWriter);
    writer.slot_words()[slot].store(version);
    writer.publication.store(wire::pack({version, slot}));
    ++writer.publish_count;
    wire::futex_wake_all(writer.publish_count);
  }

  std::shared_ptr<OpenArray> array = open();
  ReadAttempt attempt;
};

TEST_F(BeginReadTest, SubscribesAtTheFirstReadAndCallsNobodyAfterwards) {
  publish(1, 1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(begin().ok());
    EXPECT_EQ(attempt.version, 1U);
    EXPECT_EQ(attempt.slot, 1U);
    array->end_read(attempt.slot);
  }
  EXPECT_EQ(control->calls(), 1U);
}

TEST_F(BeginReadTest, WhatDoesNotComeIsNamed) {
  auto status = begin();
  EXPECT_EQ(wire::code_of(status), ErrorCode::kTimeout);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a version of 'a' did not come within 0"));
  publish(4, 0);
  status = begin(newer_than(4));
  EXPECT_THAT(std::string(status.message()), HasSubstr("a version above 4"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("current is 4"));
  EXPECT_FALSE(array->in_use());
}

// A reader cannot have it while it is written anew; its process may die then.
TEST_F(BeginReadTest, WhatBecomesOfAnOnlySlotIsNamed) {
  array.reset();
  answer.spec.slots = answer.spec.max_slots = 1;
  answer.slots.resize(1);
  array = open();
  const auto told = [&] { return std::string(begin(newer_than(1)).message()); };
  EXPECT_THAT(told(), HasSubstr("none has been published"));
  publish(1, 0);
  EXPECT_THAT(told(), HasSubstr("current is 1"));
  auto& writer = row<wire::WriterRow>(kWriter);
  writer.highest_used.store(2);
  writer.slot_words()[0].store(1 | wire::kWriting | wire::kHandedOut);
  EXPECT_THAT(told(), HasSubstr("its only slot is being written"));
  writer.slot_words()[0].store(0);
  writer.publication.store(0);
  EXPECT_THAT(std::string(begin(newer_than(2)).message()), HasSubstr("there is none now"));
}

TEST_F(BeginReadTest, AVersionThatComesEndsTheWait) {
  std::thread writer([this] {
    auto& own = row<wire::ReaderRow>(kOwnReader);
    while (own.sleeping.load() == 0) std::this_thread::yield();
    publish(1, 0);
  });
  EXPECT_TRUE(begin({}, 60s).ok());
  writer.join();
  EXPECT_EQ(attempt.version, 1U);
  EXPECT_EQ(row<wire::ReaderRow>(kOwnReader).sleeping.load(), 0U);
}

// What can end the wait wakes it, so that it need not look by itself.
class BeginReadOnAGpuTest : public ::testing::Test, protected testing::ArrayWorld {
 protected:
  BeginReadOnAGpuTest() {
    answer.spec.device = "GPU-1";
    answer.events = {kEvents, 0};
    files->watched = true;
  }
};

TEST_F(BeginReadOnAGpuTest, SleepsUntilSomethingHappens) {
  const auto array = open();
  auto& writer = row<wire::WriterRow>(kWriter);
  std::thread publisher([&] {
    EXPECT_TRUE(eventually([&] { return files->watches > 0; }));
    writer.slot_words()[0].store(1);
    writer.publication.store(wire::pack({1, 0}));
    ++writer.publish_count;
    wire::futex_wake_all(writer.publish_count);
  });
  WaitLimit within(owner->session(), 0, 60s, 0ns);
  ReadAttempt attempt;
  const auto status = begin_read(*array, {}, within, attempt);
  publisher.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(attempt.version, 1U);
  array->end_read(attempt.slot);
}

TEST_F(BeginReadTest, AnOlderVersionThatIsThereCanBeRead) {
  publish(1, 0);
  publish(2, 1);
  ASSERT_TRUE(begin(of_version(1)).ok());
  EXPECT_EQ(attempt.slot, 0U);
}

TEST_F(BeginReadTest, AVersionThatHasGoneIsNotWaitedFor) {
  publish(1, 0);
  publish(2, 1);
  publish(3, 0);
  const auto status = begin(of_version(1), 60s);
  EXPECT_EQ(wire::code_of(status), ErrorCode::kVersionGone);
  EXPECT_THAT(std::string(status.message()), HasSubstr("current is 3"));
}

TEST_F(BeginReadTest, AVersionThatWasGivenUpIsNamedSo) {
  auto& writer = row<wire::WriterRow>(kWriter);
  writer.highest_used.store(1);
  EXPECT_THAT(std::string(begin(of_version(1)).message()),
              HasSubstr("was given up by its writer; there is none now"));
  publish(1, 0);
  writer.highest_used.store(2);
  const auto status = begin(of_version(2), 60s);
  EXPECT_EQ(wire::code_of(status), ErrorCode::kVersionGone);
  EXPECT_THAT(std::string(status.message()), HasSubstr("given up by its writer; current is 1"));
  EXPECT_THAT(wire::hint_of(status), HasSubstr("read(newer_than=1)"));
}

TEST_F(BeginReadTest, AWithdrawalEndsTheWait) {
  std::thread daemon([this] {
    auto& own = row<wire::ReaderRow>(kOwnReader);
    while (own.sleeping.load() == 0) std::this_thread::yield();
    server::set_withdrawn(board());
  });
  EXPECT_EQ(wire::code_of(begin({}, 60s)), ErrorCode::kWithdrawn);
  daemon.join();
  EXPECT_TRUE(array->left()) << "nothing is held";
}

TEST_F(BeginReadTest, ADaemonThatEndsIsToldApartFromAWithdrawal) {
  server::set_draining(board());
  EXPECT_EQ(wire::code_of(begin({}, 60s)), ErrorCode::kDaemonLost);
}

TEST_F(BeginReadTest, AnInterruptEndsTheWait) {
  bool asked = false;
  const std::uint64_t number = owner->session().add_interrupt_check([&] {
    asked = true;
    throw std::runtime_error("Ctrl-C");
  });
  WaitLimit within(owner->session(), number, 60s, 0ns);
  const auto status = begin_read(*array, {}, within, attempt);
  EXPECT_TRUE(asked);
  EXPECT_NE(interrupt_of(status), nullptr);
  EXPECT_FALSE(array->in_use());
}

// It has its subscription then, and asks for it again.
TEST_F(BeginReadTest, TheDeadlineEndsAFirstReadWhoseRowDoesNotCome) {
  publish(1, 0);
  unmap();
  stop_files();
  const auto status = begin();
  EXPECT_EQ(wire::code_of(status), ErrorCode::kTimeout);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the daemon did not answer within 0 s"));
  EXPECT_EQ(control->calls(), 1U);
  go_on();
  EXPECT_TRUE(begin().ok());
  EXPECT_EQ(control->calls(), 2U);
}

TEST_F(BeginReadTest, AnInterruptEndsAFirstReadAtEachFile) {
  publish(1, 0);
  unmap();
  const std::uint64_t number =
      owner->session().add_interrupt_check([] { throw std::runtime_error("Ctrl-C"); });
  int interrupts = 0;
  for (bool begun = false; !begun; ++interrupts) {
    files->answers = files->fetches + (interrupts == 0 ? 0 : 1);
    WaitLimit within(owner->session(), number, 60s, 0ns);
    const auto status = begin_read(*array, {}, within, attempt);
    begun = status.ok();
    if (!begun) {
      EXPECT_NE(interrupt_of(status), nullptr) << status;
    }
  }
  EXPECT_EQ(interrupts - 1, 2) << "its own row and the writer's";
  EXPECT_EQ(attempt.version, 1U);
}

TEST_F(BeginReadTest, AClosedArrayIsNotRead) {
  publish(1, 0);
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  EXPECT_EQ(wire::code_of(begin()), ErrorCode::kClosed);
}

TEST_F(BeginReadTest, ARefusedSubscriptionIsTold) {
  control->row = {};
  EXPECT_EQ(wire::code_of(begin({}, 60s)), ErrorCode::kUnsupported);
  EXPECT_FALSE(array->in_use());
}

TEST_F(BeginReadTest, WhatMayBeOnAReplicaIsNotWaitedForHere) {
  publish(1, 0);
  server::set_elsewhere(board(), 3, true);
  EXPECT_TRUE(is_not_now(begin(newer_than(1), 60s)));
  EXPECT_EQ(attempt.outcome, ReadOutcome::kNotYet);
  EXPECT_TRUE(begin().ok()) << "what is here can be read";
}

TEST_F(BeginReadTest, AWriterWhosePageCannotBeHadIsWaitedForUntilTheDeadline) {
  publish(1, 0);
  ASSERT_TRUE(array->reader(kNoInterrupts).ok());
  files->refuses = true;
  server::set_writer(board(), {wire::FileId{77}, 0}, false);
  EXPECT_EQ(wire::code_of(begin({}, 1ms)), ErrorCode::kTimeout);
  server::set_writer(board(), kWriter, false);
  files->refuses = false;
  EXPECT_TRUE(begin({}, 1ms).ok());
}

}  // namespace
}  // namespace memlease::internal
