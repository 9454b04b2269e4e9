// A wait for any of several arrays, on fakes; each array is of a daemon of its own.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "client/arrays/await_any.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"
#include "tests/support/eventually.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::IsEmpty;
using wire::ErrorCode;

class AwaitAnyTest : public ::testing::Test {
 protected:
  static Awaited awaited(testing::ArrayWorld& world, std::uint64_t newer_than = 0) {
    Awaited one{world.open(), newer_than, {}};
    const auto reader = one.array->reader(kNoInterrupts);
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (reader.ok()) one.reader = *reader;
    return one;
  }
  static std::vector<std::size_t> ready(const std::vector<Awaited>& all,
                                        std::chrono::nanoseconds timeout = 0ns) {
    WaitLimit limit(all.front().array->session(), 0, timeout, 0ns);
    const auto found = await_any(all, limit);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.value_or(std::vector<std::size_t>{99});
  }

  // The array of the first world, with that of the second one as a place of its own.
  Awaited in_two_places(std::uint64_t newer_than = 0) {
    Awaited one = awaited(first, newer_than);
    one.places = [home = one.array, other = second.open()](InterruptCheck) {
      return Places(home, home, {other}, 0);
    };
    return one;
  }

  testing::ArrayWorld first;
  testing::ArrayWorld second;
};

TEST_F(AwaitAnyTest, ReadyIsWhatHasANewerVersion) {
  first.publish_elsewhere(3);
  second.publish_elsewhere(3);
  EXPECT_THAT(ready({awaited(first, 3), awaited(second, 2)}), ElementsAre(1));
  EXPECT_THAT(ready({awaited(first, 2), awaited(second, 2)}, 60s), ElementsAre(0, 1));
  EXPECT_THAT(ready({awaited(first, 3), awaited(second, 3)}), IsEmpty());
}

TEST_F(AwaitAnyTest, OneArrayMayBeAwaitedTwice) {
  first.publish_elsewhere(3);
  const Awaited newer = awaited(first, 2);
  Awaited older = newer;
  older.newer_than = 3;
  EXPECT_THAT(ready({older, newer}), ElementsAre(1));
}

TEST_F(AwaitAnyTest, ReadyIsWhatAReadWouldFailFor) {
  Awaited over = awaited(first);
  over.is_over = [] { return true; };
  EXPECT_THAT(ready({over, awaited(second)}, 60s), ElementsAre(0));
  const Awaited withdrawn = awaited(second);
  server::set_withdrawn(second.board());
  EXPECT_THAT(ready({awaited(first), withdrawn}, 60s), ElementsAre(1));
}

TEST_F(AwaitAnyTest, ReadyIsAnOnlySlotWhoseWriteCameToNothing) {
  testing::ArrayWorld only(1);
  only.row<wire::WriterRow>(only.kWriter).highest_used.store(1);
  const Awaited dropped = awaited(only);
  EXPECT_THAT(ready({dropped}, 60s), ElementsAre(0));
  Awaited told = dropped;
  told.newer_than = 1;
  EXPECT_THAT(ready({told}), IsEmpty()) << "who has been told of it waits for the next version";
}

TEST_F(AwaitAnyTest, ReadyIsWhoseWriterHasGoneIfThatIsAskedFor) {
  first.publish_elsewhere(3);
  Awaited at_end = awaited(first, 3);
  server::set_writer(first.board(), first.kWriter, true);
  at_end.until_writer_gone = true;
  EXPECT_THAT(ready({at_end}, 60s), ElementsAre(0));
  at_end.until_writer_gone = false;
  EXPECT_THAT(ready({at_end}), IsEmpty());
}

TEST_F(AwaitAnyTest, ReadyIsWhatHasANewerVersionOnAnotherDevice) {
  const Awaited elsewhere = in_two_places(3);
  testing::ArrayWorld third;
  second.publish_elsewhere(4);
  EXPECT_THAT(ready({awaited(third), elsewhere}), ElementsAre(1));
  second.publish_elsewhere(3);
  EXPECT_THAT(ready({awaited(third), elsewhere}), IsEmpty());
}

TEST_F(AwaitAnyTest, APublicationOnAnotherDeviceEndsTheSleep) {
  const Awaited elsewhere = in_two_places();
  first.files->watched = true;
  std::thread waits([&] { EXPECT_THAT(ready({elsewhere}, 60s), ElementsAre(0)); });
  const auto& sleeping = second.row<wire::ReaderRow>(second.kOwnReader).sleeping;
  EXPECT_TRUE(eventually([&] { return sleeping.load() != 0; }));
  EXPECT_TRUE(eventually([&] { return first.files->watches > 0; })) << "it looks by itself";
  second.publish_elsewhere();
  waits.join();
  EXPECT_EQ(sleeping.load(), 0U);
}

TEST_F(AwaitAnyTest, AFurtherPlaceIsSleptOn) {
  Awaited elsewhere = awaited(first);
  const auto other = second.open();
  wire::BoardRecord& board = first.board();
  elsewhere.places = [&](InterruptCheck) -> absl::StatusOr<std::optional<Places>> {
    const std::uint32_t bits = board.elsewhere.load();
    if (bits == 0) return std::nullopt;
    return Places(elsewhere.array, elsewhere.array, {other}, bits);
  };
  first.files->watched = true;
  std::thread waits([&] { EXPECT_THAT(ready({elsewhere}, 60s), ElementsAre(0)); });
  EXPECT_TRUE(eventually([&] { return first.files->watches > 0; }));
  server::set_elsewhere(board, 3, true);
  const auto& sleeping = second.row<wire::ReaderRow>(second.kOwnReader).sleeping;
  EXPECT_TRUE(eventually([&] { return sleeping.load() != 0; }));
  second.publish_elsewhere();
  waits.join();
}

// As a call that the daemon does not answer.
absl::StatusOr<std::optional<Places>> unanswered(InterruptCheck interrupt) {
  for (;;) {
    if (auto status = interrupt(); !status.ok()) return status;
  }
}

TEST_F(AwaitAnyTest, TheQuestionForVersionsElsewhereEndsWithTheWait) {
  Awaited elsewhere = awaited(first);
  elsewhere.places = unanswered;
  EXPECT_THAT(ready({elsewhere, awaited(second)}), IsEmpty());
  elsewhere.until_writer_gone = true;
  server::set_writer(first.board(), first.kWriter, true);
  EXPECT_THAT(ready({elsewhere}), IsEmpty()) << "nobody can tell";
  EXPECT_FALSE(is_at_end(elsewhere));
}

TEST_F(AwaitAnyTest, TheQuestionForVersionsElsewhereEndsWithAnInterrupt) {
  Awaited elsewhere = awaited(first);
  elsewhere.places = unanswered;
  bool raised = false;
  const std::uint64_t number = first.owner->session().add_interrupt_check([&] {
    if (!std::exchange(raised, true)) throw std::runtime_error("Ctrl-C");
  });
  WaitLimit limit(first.owner->session(), number, 60s, 0ns);
  EXPECT_NE(interrupt_of(await_any({elsewhere}, limit).status()), nullptr);
}

TEST_F(AwaitAnyTest, TheQuestionForVersionsElsewhereDoesNotHoldUpOthers) {
  second.publish_elsewhere(3);
  const Awaited next = awaited(second, 3);
  ASSERT_THAT(ready({next}), IsEmpty());
  Awaited elsewhere = awaited(first);
  int asked = 0;
  elsewhere.places = [&](InterruptCheck interrupt) {
    if (asked++ == 0) second.publish_elsewhere(4);
    return unanswered(interrupt);
  };
  EXPECT_THAT(ready({elsewhere, next}, 60s), ElementsAre(1));
}

TEST_F(AwaitAnyTest, APublicationOfAnyEndsTheSleep) {
  const std::vector<Awaited> all{awaited(first), awaited(second)};
  std::atomic<bool> ended{false};
  std::thread waits([&] {
    EXPECT_THAT(ready(all, 60s), ElementsAre(1));
    ended = true;
  });
  const auto& sleeping = second.row<wire::ReaderRow>(second.kOwnReader).sleeping;
  EXPECT_TRUE(eventually([&] { return sleeping.load() != 0; }));
  EXPECT_FALSE(ended);
  second.publish_elsewhere();
  waits.join();
  EXPECT_EQ(sleeping.load(), 0U);
  EXPECT_FALSE(all[1].array->in_use()) << "it has only looked";
}

TEST_F(AwaitAnyTest, AnEndOfTheSessionEndsIt) {
  const std::vector<Awaited> all{awaited(first)};
  first.files->gone = true;
  WaitLimit limit(all.front().array->session(), 0, 60s, 0ns);
  EXPECT_EQ(wire::code_of(await_any(all, limit).status()), ErrorCode::kDaemonLost);
}

TEST_F(AwaitAnyTest, TheRowOfAWriterThatHasPublishedIsMapped) {
  first.publish_elsewhere();
  const std::vector<Awaited> all{awaited(first)};
  first.unmap();
  EXPECT_THAT(ready(all), ElementsAre(0));
}

TEST_F(AwaitAnyTest, AnInterruptThatComesOnceEndsTheWaitForAWritersRow) {
  first.publish_elsewhere();
  const std::vector<Awaited> all{awaited(first)};
  first.unmap();
  bool raised = false;
  const std::uint64_t number = first.owner->session().add_interrupt_check([&] {
    if (!std::exchange(raised, true)) throw std::runtime_error("Ctrl-C");
  });
  first.stop_files();
  WaitLimit limit(first.owner->session(), number, 0ns, 0ns);
  EXPECT_NE(interrupt_of(await_any(all, limit).status()), nullptr);
  EXPECT_TRUE(raised);
}

}  // namespace
}  // namespace memlease::internal
