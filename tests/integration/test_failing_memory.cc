// Each allocation that the daemon makes for an operation fails in turn: by itself, and with all
// that follow until the daemon has given up its reserve (docs/decisions/0046). After each the
// daemon lives, the operation has been done, or refused and has changed nothing, and the books are
// right. Not for a sanitized daemon, whose allocator is another.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "memlease/v1/admin.pb.h"
#include "tests/integration/memory_operations.h"
#include "tests/support/eventually.h"
#include "tests/support/failing_memory.h"
#include "tests/support/goal.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

class FailingMemoryOf : public ::testing::TestWithParam<const char*> {
 protected:
  using Mode = FailingMemory::Mode;
  static constexpr std::uint64_t kMostTries = 1'000;  // until the reserve is given

  // Everything that an operation may change, as the daemon tells it.
  std::string state() {
    internal::AdminStub& admin = daemon_.admin();
    const auto arrays = admin.list_arrays("");
    const auto status = admin.status();
    if (!arrays.ok() || !status.ok()) return "the daemon does not answer";
    std::string text =
        fmt::format("{} sessions, {} array bytes", status->sessions(), status->array_bytes());
    for (const v1::ArrayInfo& array : arrays->arrays()) {
      text += fmt::format("; {} v{} {} slots, {} subscribers, {} hold, {}{}", array.spec().name(),
                          array.version(), array.slots(), array.subscribers(), array.readers(),
                          array.writer_session_id() != 0 ? "a writer" : "no writer",
                          array.withdrawn() ? ", withdrawn" : "");
    }
    return text;
  }
  // Waits until it is that; empty if it becomes so, else what it is.
  std::string other_state_than(const std::string& expected) {
    std::string now = state();
    if (now == expected) return "";
    static_cast<void>(eventually([&] { return (now = state()) == expected; }));
    return now == expected ? "" : now;
  }

  static bool is_refusal(const absl::Status& status) {
    return wire::code_of(status) == wire::ErrorCode::kOutOfMemory;
  }

  // Without any failure.
  void learn(const Operation& operation) {
    Scene scene(daemon_);
    operation.prepare(scene);
    before_ = state();
    usual_ = operation.act(scene);
    if (operation.sessions) {
      const std::string end = fmt::format("{} sessions", *operation.sessions);
      EXPECT_TRUE(eventually([&] { return state().starts_with(end); })) << operation.name;
    }
    after_ = state();
  }
  // Whether the allocation's turn came.
  bool fails(const Operation& operation, Mode mode, std::uint64_t turn) {
    SCOPED_TRACE(fmt::format("{}: allocation {}{} fails", operation.name, turn,
                             mode == Mode::kOnce ? "" : " and all until the reserve is given"));
    std::uint64_t failed = 0;
    {
      Scene scene(daemon_);
      operation.prepare(scene);
      EXPECT_EQ(other_state_than(before_), "");
      memory_.arm(mode, turn);
      const absl::Status outcome = operation.act(scene);
      failed = memory_.disarm();
      if (is_refusal(outcome) && failed != 0) {
        ++refused_;
        EXPECT_EQ(other_state_than(before_), "") << "what is refused changes nothing";
      } else {
        EXPECT_EQ(wire::code_of(outcome), wire::code_of(usual_)) << outcome;
        EXPECT_EQ(other_state_than(after_), "");
      }
      verify();
    }
    EXPECT_EQ(other_state_than("0 sessions, 0 array bytes"), "") << "at the end";
    EXPECT_LT(failed, kMostTries) << "somebody tries again and again";
    failures_ += failed;
    return failed != 0;
  }
  void verify() {
    const auto books = daemon_.admin().verify();
    ASSERT_TRUE(books.ok()) << books.status();
    for (const std::string& violation : books->violations()) ADD_FAILURE() << violation;
  }

  FailingMemory memory_;
  PrivateDaemon daemon_{{"--quota-arrays=30", "--quota-bytes=268435456"},
                        geteuid(),
                        "bin/memleased",
                        memory_.environment()};
  std::string before_;
  std::string after_;
  absl::Status usual_;
  std::uint64_t failures_ = 0;
  std::uint64_t refused_ = 0;
};

TEST_P(FailingMemoryOf, IsBorneWhereverItComes) {
  const std::vector<Operation> all = operations_of(GetParam());
  const auto count = std::min<std::size_t>(all.size(), goal(2, all.size()));
  const std::uint64_t step = goal(37, 1);
  for (std::size_t i = 0; i < count; ++i) {
    const Operation& operation = all[i * all.size() / count];
    learn(operation);
    for (const Mode mode : {Mode::kOnce, Mode::kUntilReserve}) {
      std::uint64_t turn = 1;
      while (fails(operation, mode, turn)) {
        turn += step;
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(failures_, count);
  EXPECT_EQ(daemon_.unsettled(), "");
  reached("{}: {} operations, {} allocations failed, {} calls were refused", GetParam(), count,
          failures_, refused_);
}

// What the reserve is good for, and that failures do come.
TEST(FailingMemory, EndsADaemonThatHasNoReserve) {
  FailingMemory memory;
  PrivateDaemon daemon({}, geteuid(), "bin/memleased", memory.environment());
  ASSERT_TRUE(daemon.admin().status().ok());
  memory.arm(FailingMemory::Mode::kForGood, 1);
  EXPECT_FALSE(daemon.admin().status().ok());
  EXPECT_GE(daemon.wait(), 128) << "a signal";
}

INSTANTIATE_TEST_SUITE_P(Each, FailingMemoryOf,
                         ::testing::Values("connect", "create", "open", "arrays", "names", "errors",
                                           "ctl", "ends"),
                         [](const auto& group) { return std::string(group.param); });

}  // namespace
}  // namespace memlease::testing
