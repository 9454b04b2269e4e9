#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <future>
#include <memory>

#include "client/session/mapping_cache.h"
#include "gtest/gtest.h"
#include "tests/support/fake_files.h"
#include "wire/error.h"

namespace {
std::atomic<bool> refuse_madvise{false};
}  // namespace

// In front of the C library's: no other way makes it fail for a mapping that is in order.
extern "C" int madvise(void* address, std::size_t size_bytes, int advice) noexcept {
  if (refuse_madvise) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(syscall(SYS_madvise, address, size_bytes, advice));
}

namespace memlease::internal {
namespace {

using testing::FakeFiles;
using wire::ErrorCode;
using wire::FileId;
using wire::FileKind;

class MappingCacheTest : public ::testing::Test {
 protected:
  // To be written.
  std::shared_ptr<Mapping> get(std::uint32_t file) {
    auto mapping = cache.get(FileId{file}, files.kind, kNoInterrupts, Access::kWrite);
    EXPECT_TRUE(mapping.ok()) << mapping.status();
    return mapping.ok() ? *mapping : nullptr;
  }

  FakeFiles files;
  MappingCache cache{files};
};

TEST_F(MappingCacheTest, MapsAFileOnceForAllWhoUseIt) {
  const auto first = get(1);
  *first->data() = std::byte{42};
  EXPECT_EQ(get(1), first);
  EXPECT_EQ(files.fetches, 1);
}

TEST_F(MappingCacheTest, MapsASegmentApartForReadingAndForWriting) {
  const auto to_read = cache.get(FileId{1}, FileKind::kSegment, kNoInterrupts);
  ASSERT_TRUE(to_read.ok());
  EXPECT_FALSE((*to_read)->writable());
  const auto to_write = get(1);
  EXPECT_TRUE(to_write->writable());
  EXPECT_NE(to_write->data(), (*to_read)->data());
  *to_write->data() = std::byte{42};
  EXPECT_EQ(*(*to_read)->data(), std::byte{42});
  EXPECT_EQ(*cache.get(FileId{1}, FileKind::kSegment, kNoInterrupts), *to_read);
  EXPECT_EQ(get(1), to_write);
  EXPECT_EQ(files.fetches, 2);
}

TEST_F(MappingCacheTest, MapsNothingForWritingThatMayNotBeWritten) {
  files.writable = false;
  EXPECT_TRUE(cache.get(FileId{1}, FileKind::kSegment, kNoInterrupts).ok());
  const auto refused = cache.get(FileId{1}, FileKind::kSegment, kNoInterrupts, Access::kWrite);
  EXPECT_EQ(wire::code_of(refused.status()), ErrorCode::kDenied);
}

TEST_F(MappingCacheTest, FetchesAgainAfterTheLastUse) {
  *get(1)->data() = std::byte{42};
  EXPECT_EQ(*get(1)->data(), std::byte{42}) << "the same file";
  EXPECT_EQ(files.fetches, 2);
}

TEST_F(MappingCacheTest, RefusesAFileOfAnotherKind) {
  const auto board = cache.get(FileId{1}, FileKind::kBoard, kNoInterrupts);
  EXPECT_EQ(wire::code_of(board.status()), ErrorCode::kInternal);
}

TEST_F(MappingCacheTest, TellsWhyThereIsNoFile) {
  files.refuses = true;
  const auto mapping = cache.get(FileId{1}, FileKind::kSegment, kNoInterrupts);
  EXPECT_EQ(wire::code_of(mapping.status()), ErrorCode::kNotFound);
  files.refuses = false;
  EXPECT_NE(get(1), nullptr);
}

TEST_F(MappingCacheTest, BringsWhatIsMissingByOneFetch) {
  const auto known = cache.get(FileId{1}, FileKind::kSegment, kNoInterrupts);
  ASSERT_TRUE(known.ok());
  files.missing = {3};
  const WantedFile wanted[] = {{FileId{1}}, {FileId{2}}, {FileId{3}}, {FileId{4}}};
  const auto brought = cache.bring(wanted, kNoInterrupts);
  ASSERT_TRUE(brought.ok()) << brought.status();
  EXPECT_EQ(brought->size(), 3U);
  EXPECT_EQ(files.fetches, 2);
  EXPECT_EQ(*cache.get(FileId{2}, FileKind::kSegment, kNoInterrupts), (*brought)[1]);
  EXPECT_EQ(*cache.get(FileId{4}, FileKind::kSegment, kNoInterrupts), (*brought)[2]);
  EXPECT_EQ(files.fetches, 2);
  EXPECT_EQ(wire::code_of(cache.get(FileId{3}, FileKind::kSegment, kNoInterrupts).status()),
            ErrorCode::kNotFound);
}

TEST_F(MappingCacheTest, BringsNoMoreThanOneAnswerHas) {
  std::vector<WantedFile> wanted;
  for (std::uint32_t file = 1; file <= 2 * wire::kMaxFetchedFiles; ++file) {
    wanted.push_back({FileId{file}});
    wanted.push_back({FileId{file}, Access::kWrite});
  }
  const auto brought = cache.bring(wanted, kNoInterrupts);
  ASSERT_TRUE(brought.ok()) << brought.status();
  EXPECT_EQ(brought->size(), wire::kMaxFetchedFiles);
  EXPECT_EQ(cache.bring(wanted, kNoInterrupts)->size(), 2 * wire::kMaxFetchedFiles);
}

// Whoever needs it is told why, by get().
TEST_F(MappingCacheTest, BringsNothingWhereTheFirstFileHasGone) {
  files.missing = {1};
  const WantedFile wanted[] = {{FileId{1}}, {FileId{2}}};
  const auto brought = cache.bring(wanted, kNoInterrupts);
  ASSERT_TRUE(brought.ok()) << brought.status();
  EXPECT_TRUE(brought->empty());
  EXPECT_EQ(wire::code_of(cache.get(FileId{1}, FileKind::kSegment, kNoInterrupts).status()),
            ErrorCode::kNotFound);
}

TEST_F(MappingCacheTest, FetchesWithoutTheLock) {
  const auto known = get(1);
  files.gates.shut("fetch");
  auto slow = std::async(std::launch::async, [&] { return get(2); });
  ASSERT_TRUE(files.gates.reached("fetch"));
  EXPECT_EQ(get(1), known);
  EXPECT_NE(get(3), nullptr);
  files.gates.open_all();
  EXPECT_NE(slow.get(), nullptr);
}

TEST_F(MappingCacheTest, KeepsTheFirstOfTwoThatWereMappedAtOnce) {
  files.gates.shut("fetch");
  auto late = std::async(std::launch::async, [&] { return get(1); });
  ASSERT_TRUE(files.gates.reached("fetch"));
  const auto first = get(1);
  files.gates.open_all();
  EXPECT_EQ(late.get(), first);
  EXPECT_EQ(files.fetches, 2);
}

// A thread may be about to read there.
TEST_F(MappingCacheTest, UnmapsNoPageOfAnotherProcessButShowsAnotherOneThere) {
  const auto own = get(1);
  *own->data() = std::byte{42};
  files.kind = FileKind::kSessionPage;
  files.writable = false;
  MappingCache others(files);
  auto first = others.get(FileId{1}, FileKind::kSessionPage, kNoInterrupts);
  ASSERT_TRUE(first.ok());
  const std::byte* const there = (*first)->data();
  EXPECT_EQ(*there, std::byte{42});
  first = nullptr;
  EXPECT_EQ(*there, std::byte{0}) << "the page has gone, its address has not";
  const auto next = others.get(FileId{2}, FileKind::kSessionPage, kNoInterrupts);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ((*next)->data(), there);
}

// The address stays one that may be read, and is used again.
TEST_F(MappingCacheTest, GivesThePlaceOfAPageBackThatCannotBeShownThere) {
  files.kind = FileKind::kSessionPage;
  files.writable = false;
  auto first = cache.get(FileId{1}, FileKind::kSessionPage, kNoInterrupts);
  ASSERT_TRUE(first.ok());
  std::byte* const there = (*first)->data();
  first = nullptr;
  refuse_madvise = true;
  const auto refused = cache.get(FileId{2}, FileKind::kSessionPage, kNoInterrupts);
  refuse_madvise = false;
  EXPECT_EQ(wire::code_of(refused.status()), ErrorCode::kInternal);
  ASSERT_EQ(msync(there, FakeFiles::kSizeBytes, MS_ASYNC), 0) << "nothing is mapped there now";
  EXPECT_EQ(*there, std::byte{0});
  const auto next = cache.get(FileId{2}, FileKind::kSessionPage, kNoInterrupts);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ((*next)->data(), there);
}

TEST_F(MappingCacheTest, KnowsWhatLiesInside) {
  const auto mapping = get(1);
  EXPECT_TRUE(mapping->contains(0, FakeFiles::kSizeBytes, 64));
  EXPECT_TRUE(mapping->contains(FakeFiles::kSizeBytes, 0, 64));
  EXPECT_FALSE(mapping->contains(64, FakeFiles::kSizeBytes, 64));
  EXPECT_FALSE(mapping->contains(32, 1, 64)) << "not aligned";
  EXPECT_FALSE(mapping->contains(64, UINT64_MAX, 64)) << "the sum overflows";
  EXPECT_FALSE(mapping->contains(FakeFiles::kSizeBytes + 64, 0, 64));
}

}  // namespace
}  // namespace memlease::internal
