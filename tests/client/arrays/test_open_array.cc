// When an array is left, and by whom, on fakes.
#include <memory>
#include <utility>

#include "client/arrays/open_array.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_array_owner.h"
#include "tests/support/fake_control.h"
#include "tests/support/fake_files.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"
#include "wire/board.h"

namespace memlease::internal {
namespace {

using ::testing::ElementsAre;
using testing::FakeArrayOwner;
using testing::FakeControl;
using testing::FakeFiles;
using ::testing::IsEmpty;

constexpr std::uint32_t kBoard = 1, kSegment = 2, kOwnPage = 3, kWritersPage = 4;
constexpr wire::ArrayId kId{9};
constexpr wire::RowRef kWriter{wire::FileId{kWritersPage}, 0};

class OpenArrayTest : public ::testing::Test {
 protected:
  OpenArrayTest() {
    files->kinds = {{kBoard, wire::FileKind::kBoard},
                    {kOwnPage, wire::FileKind::kSessionPage},
                    {kWritersPage, wire::FileKind::kSessionPage}};
    control->row = {wire::FileId{kOwnPage}, 16};
    answer.id = kId;
    answer.spec.name = "a";
    answer.spec.slots = 2;
    answer.spec.max_slots = 2;
    answer.slot_bytes = 64;
    answer.slots = {{wire::FileId{kSegment}, 0}, {wire::FileId{kSegment}, 64}};
    answer.board_record = {wire::FileId{kBoard}, 0};
    board().array_id.store(wire::to_int(kId));
    board().writer.store(wire::pack_subscriber(kWriter));
  }

  std::byte* page(std::uint32_t file) {
    auto mapped = owner->session().mappings().get(
        wire::FileId{file}, file == kBoard ? wire::FileKind::kBoard : wire::FileKind::kSessionPage);
    EXPECT_TRUE(mapped.ok()) << mapped.status();
    kept.push_back(*mapped);
    return kept.back()->data();
  }
  wire::BoardRecord& board() { return *reinterpret_cast<wire::BoardRecord*>(page(kBoard)); }

  // The array's first handle.
  std::shared_ptr<OpenArray> open() {
    auto array = OpenArray::open(owner, answer);
    EXPECT_TRUE(array.ok()) << array.status();
    std::shared_ptr<OpenArray> handle = std::move(*array);
    owner->handle = handle;
    return handle;
  }
  // A lease of version 1, which another process has published.
  static std::uint32_t lease(OpenArray& array) {
    EXPECT_TRUE(array.map_writer_row(kWriter, kNoInterrupts).ok());
    const auto reader = array.reader(kNoInterrupts);
    EXPECT_TRUE(reader.ok()) << reader.status();
    const ReadAttempt attempt = (*reader)->acquire(0, 0);
    EXPECT_EQ(attempt.outcome, ReadOutcome::kAcquired);
    return attempt.slot;
  }
  void publish_elsewhere() {
    auto& row = *reinterpret_cast<wire::WriterRow*>(page(kWritersPage));
    row.slot_words()[1].store(1);
    row.publication.store(wire::pack({1, 1}));
  }

  testing::Gates gates;
  testing::FakeImporter gpu{"GPU-1", gates};
  FakeFiles* const files = new FakeFiles;        // the session's
  FakeControl* const control = new FakeControl;  // likewise
  const std::shared_ptr<FakeArrayOwner> owner = std::make_shared<FakeArrayOwner>(
      std::make_unique<Session>("/here", wire::SessionId{7}, std::unique_ptr<FileSource>(files),
                                std::unique_ptr<ControlPort>(control)),
      gpu);
  OpenAnswer answer;
  std::vector<std::shared_ptr<Mapping>> kept;
};

TEST_F(OpenArrayTest, IsLeftByACallWhenItsLastHandleIsClosed) {
  auto array = open();
  ASSERT_TRUE(array->reopen());
  array->close_handle();
  EXPECT_THAT(control->left, IsEmpty());
  array->close_handle();
  EXPECT_THAT(control->left, ElementsAre(2));
  EXPECT_TRUE(array->left());
  EXPECT_FALSE(array->reopen());
  array.reset();
  EXPECT_THAT(owner->departed, IsEmpty());
}

TEST_F(OpenArrayTest, IsLeftLaterByItsOwnerWhereItDies) {
  auto array = open();
  array.reset();
  EXPECT_THAT(owner->departed, ElementsAre(1));
  EXPECT_EQ(control->calls(), 0U);
}

TEST_F(OpenArrayTest, ThatCouldNotBeMappedIsItsCallersToLeave) {
  files->refuses = true;
  EXPECT_FALSE(OpenArray::open(owner, answer).ok());
  EXPECT_THAT(owner->departed, IsEmpty());
  EXPECT_THAT(control->left, IsEmpty());
}

TEST_F(OpenArrayTest, ASilentDaemonIsNotCalledToLeaveIt) {
  const auto array = open();
  control->is_silent = true;
  array->close_handle();
  EXPECT_THAT(control->left, IsEmpty());
  EXPECT_THAT(owner->departed, ElementsAre(1));
  EXPECT_TRUE(array->left());
}

TEST_F(OpenArrayTest, ThatIsClosedIsLeftAfterItsLastLeaseByALaterCall) {
  publish_elsewhere();
  const auto array = open();
  const std::uint32_t first = lease(*array);
  const std::uint32_t second = lease(*array);
  array->close_handle();
  EXPECT_THAT(control->left, IsEmpty());
  array->end_read(first);
  array->leave_if_due();
  EXPECT_THAT(control->left, IsEmpty());
  array->end_read(second);
  EXPECT_THAT(control->left, IsEmpty());
  EXPECT_TRUE(owner->take_release());
  array->leave_if_due();
  EXPECT_THAT(control->left, ElementsAre(1));
}

TEST_F(OpenArrayTest, ThatIsWithdrawnIsLeftAfterItsLastLeaseByALaterCall) {
  publish_elsewhere();
  const auto array = open();
  const std::uint32_t slot = lease(*array);
  board().writer.fetch_or(wire::kWriterWithdrawn);
  EXPECT_TRUE(array->withdrawn());
  array->end_read(slot);
  EXPECT_THAT(control->left, IsEmpty());
  EXPECT_TRUE(owner->take_release());
  array->leave_if_due();
  EXPECT_THAT(control->left, ElementsAre(1));
}

TEST_F(OpenArrayTest, TheEndOfALeaseCallsNobodyAtOtherTimes) {
  publish_elsewhere();
  const auto array = open();
  array->end_read(lease(*array));
  EXPECT_EQ(owner->handles_asked, 0);
  EXPECT_EQ(control->calls(), 1U);  // its subscription
}

TEST_F(OpenArrayTest, AReadThatCameBehindACloseGivesItsHoldBack) {
  publish_elsewhere();
  const auto array = open();
  array->end_read(lease(*array));
  array->close();
  const ReadAttempt attempt = array->read_at_once(0, 0);
  EXPECT_NE(attempt.outcome, ReadOutcome::kAcquired);
  EXPECT_FALSE(array->in_use());
}

TEST_F(OpenArrayTest, ItsVersionIsThatOfTheBoardsWriter) {
  const auto array = open();
  EXPECT_EQ(*array->current_version(kNoInterrupts), 0U);
  publish_elsewhere();
  EXPECT_EQ(*array->current_version(kNoInterrupts), 1U);
  EXPECT_EQ(array->known_version(), 1U);
  board().writer.fetch_or(wire::kWriterWithdrawn);
  EXPECT_EQ(wire::code_of(array->current_version(kNoInterrupts).status()),
            wire::ErrorCode::kWithdrawn);
}

TEST_F(OpenArrayTest, AnAddressOfItsBytesIsFoundWhileItIsOpen) {
  publish_elsewhere();
  auto array = open();
  EXPECT_TRUE(array->map_writer_row(kWriter, kNoInterrupts).ok());
  const std::byte* const second = array->read_data(1);
  const FaultTable::Place place = FaultTable::find(second + 63);
  EXPECT_STREQ(place.array, "a");
  EXPECT_EQ(place.slot, 1U);
  EXPECT_EQ(place.version, 1U);
  EXPECT_FALSE(place.for_writing);
  EXPECT_EQ(FaultTable::find(second + 64).array, nullptr);
  array.reset();
  EXPECT_EQ(FaultTable::find(second).array, nullptr);
}

}  // namespace
}  // namespace memlease::internal
