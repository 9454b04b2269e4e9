#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "client/session/interrupt.h"
#include "client/session/session.h"
#include "gtest/gtest.h"
#include "tests/support/fake_control.h"
#include "tests/support/fake_files.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using testing::FakeControl;
using testing::FakeFiles;
using wire::ErrorCode;

class SessionTest : public ::testing::Test {
 protected:
  ErrorCode code(const absl::Status& status) const { return wire::code_of(status); }

  FakeFiles* const files = new FakeFiles;        // the session's
  FakeControl* const control = new FakeControl;  // likewise
  Session session{"/here", wire::SessionId{7}, std::unique_ptr<FileSource>(files),
                  std::unique_ptr<ControlPort>(control)};
};

TEST_F(SessionTest, IsUsableWhileTheDaemonLives) {
  EXPECT_TRUE(session.usable().ok());
  EXPECT_TRUE(session.look().ok());
}

TEST_F(SessionTest, SaysThatTheDaemonHasGoneWhenItLooks) {
  files->gone = true;
  EXPECT_EQ(code(session.look()), ErrorCode::kDaemonLost);
  EXPECT_FALSE(session.usable_at_once());
  files->gone = false;  // what has been lost stays lost
  EXPECT_EQ(code(session.look()), ErrorCode::kDaemonLost);
}

TEST_F(SessionTest, SaysThatTheProgramItselfHasClosedTheDescriptor) {
  files->gone = files->closed = true;
  const auto status = session.look();
  EXPECT_EQ(code(status), ErrorCode::kDaemonLost);
  EXPECT_NE(wire::message_of(status).find("this program has closed"), std::string::npos);
  EXPECT_EQ(session.look().message(), status.message());
}

TEST_F(SessionTest, IsLostWhenTheDaemonKnowsItNoMore) {
  control->has_ended = true;
  EXPECT_EQ(code(session.look()), ErrorCode::kDaemonLost);
}

TEST_F(SessionTest, LooksAtTheSocketOnceASecondAtMost) {
  const std::int64_t begin = coarse_second();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(session.usable().ok());
  EXPECT_LE(files->looks, coarse_second() - begin + 1);
}

TEST_F(SessionTest, EndsWithItsLastConnectionIfThatIsClosed) {
  ASSERT_TRUE(session.add_connection());
  ASSERT_TRUE(session.add_connection());
  EXPECT_FALSE(session.remove_connection(true));
  EXPECT_TRUE(session.usable().ok());
  EXPECT_TRUE(session.remove_connection(true));
  EXPECT_EQ(code(session.usable()), ErrorCode::kClosed);
  EXPECT_FALSE(session.add_connection());
}

TEST_F(SessionTest, GoesOnWithoutAConnectionThatNobodyClosed) {
  ASSERT_TRUE(session.add_connection());
  EXPECT_FALSE(session.remove_connection(false));
  EXPECT_TRUE(session.usable().ok());
  EXPECT_TRUE(session.add_connection());
}

TEST_F(SessionTest, CarriesAnInterruptAsAStatus) {
  const std::uint64_t check =
      session.add_interrupt_check([] { throw std::runtime_error("Ctrl-C"); });
  const absl::Status status = session.check_interrupt(check);
  EXPECT_EQ(code(status), ErrorCode::kInterrupted);
  try {
    std::rethrow_exception(interrupt_of(status));
  } catch (const std::runtime_error& caught) {
    EXPECT_EQ(std::string(caught.what()), "Ctrl-C");
  }
}

// It may use what its connection's user has destroyed by now.
TEST_F(SessionTest, CallsNoInterruptCheckThatHasBeenRemoved) {
  auto stop = std::make_shared<int>(0);
  const std::uint64_t removed = session.add_interrupt_check([stop] { ++*stop; });
  const std::uint64_t other = session.add_interrupt_check([] {});
  EXPECT_NE(other, removed);
  session.remove_interrupt_check(removed);
  EXPECT_EQ(stop.use_count(), 1) << "what it kept has gone with it";
  EXPECT_TRUE(session.check_interrupt(removed).ok());
  EXPECT_TRUE(session.check_interrupt(other).ok());
  EXPECT_EQ(*stop, 0);
  EXPECT_EQ(session.add_interrupt_check(nullptr), 0U);
}

TEST_F(SessionTest, CannotBeUsedInAForkedChild) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(code(session.usable()) == ErrorCode::kForkedClient ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(session.usable().ok());
}

TEST_F(SessionTest, SaysGoodbyeWhenAsked) {
  session.goodbye();
  EXPECT_EQ(files->goodbyes, 1);
}

}  // namespace
}  // namespace memlease::internal
