#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "client/session/mapped_ranges.h"
#include "gtest/gtest.h"
#include "wire/unique_fd.h"

namespace memlease::internal {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kPages = 8;
constexpr std::uint64_t kBytes = kPages * kPageBytes;

// Mapped again from the first mapping, or, as huge pages must be, from the file.
enum class From : std::uint8_t { kMapping, kFile };

// A segment, as the daemon's files are, and what a process has mapped of it.
class MappedRangesTest : public ::testing::TestWithParam<From> {
 public:
  ~MappedRangesTest() override { munmap(bytes, kBytes); }

 protected:
  MappedRangesTest() {
    EXPECT_EQ(ftruncate(file.get(), kBytes), 0);
    bytes = map(PROT_READ | PROT_WRITE);
    for (std::uint64_t page = 0; page < kPages; ++page) fill(page, 1);
  }
  std::byte* map(int access) const {
    void* const made = mmap(nullptr, kBytes, access, MAP_SHARED, file.get(), 0);
    EXPECT_NE(made, MAP_FAILED);
    EXPECT_EQ(madvise(made, kBytes, MADV_DONTFORK), 0);
    return static_cast<std::byte*>(made);
  }
  std::shared_ptr<MappedRanges> ranges(bool writable = false) const {
    return std::make_shared<MappedRanges>(map(writable ? PROT_READ | PROT_WRITE : PROT_READ),
                                          kBytes, kPageBytes, writable, file_to_keep());
  }
  wire::UniqueFd file_to_keep() const {
    if (GetParam() == From::kMapping) return {};
    return wire::UniqueFd(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  }
  // As another process writes it.
  void fill(std::uint64_t page, unsigned char value) const {
    std::memset(bytes + page * kPageBytes, value, kPageBytes);
  }

  wire::UniqueFd file{memfd_create("segment", 0)};
  std::byte* bytes = nullptr;
};

std::array<MappedRanges::Area, 1> page_of(const std::byte* range, std::uint64_t page) {
  return {{{range + page * kPageBytes, kPageBytes}}};
}

TEST_P(MappedRangesTest, AViewSeesWhatItSawAndLeasesSeeWhatIsWritten) {
  const auto mapped = ranges();
  const std::byte* const before = mapped->data();
  ASSERT_TRUE(mapped->keep_copies(page_of(before, 3)).ok());
  const std::byte* const after = mapped->data();
  EXPECT_NE(after, before);
  for (std::uint64_t page = 0; page < kPages; ++page) fill(page, 2);
  EXPECT_EQ(before[3 * kPageBytes], std::byte{1});
  EXPECT_EQ(before[4 * kPageBytes - 1], std::byte{1});
  EXPECT_EQ(before[3 * kPageBytes - 1], std::byte{2}) << "the neighbours are the segment's own";
  EXPECT_EQ(before[4 * kPageBytes], std::byte{2});
  EXPECT_EQ(after[3 * kPageBytes], std::byte{2});
  mapped->let_go(before + 3 * kPageBytes);
  EXPECT_EQ(before[3 * kPageBytes], std::byte{2}) << "the copy goes with its last view";
}

TEST_P(MappedRangesTest, ASlotThatSharesItsPagesIsCopiedToRead) {
  const auto mapped = ranges();
  const std::byte* const before = mapped->data();
  const std::array<MappedRanges::Area, 1> area{{{before + kPageBytes + 256, 512}}};
  EXPECT_TRUE(mapped->can_keep(area[0]));
  ASSERT_TRUE(mapped->keep_copies(area).ok());
  fill(1, 2);
  EXPECT_EQ(before[kPageBytes + 256], std::byte{1});
  EXPECT_EQ(mapped->data()[kPageBytes + 256], std::byte{2});
  mapped->let_go(area[0].data);
}

TEST_P(MappedRangesTest, PagesThatOthersWriteToAreNotCopied) {
  const auto mapped = ranges(true);
  const std::byte* const data = mapped->data();
  EXPECT_FALSE(mapped->can_keep({data + 256, 512}));
  EXPECT_FALSE(mapped->can_keep({data + 256, kPageBytes})) << "of two pages a part";
  EXPECT_TRUE(mapped->can_keep({data + kPageBytes, kPageBytes + 1}));
  EXPECT_FALSE(mapped->can_keep({bytes, 2 * kPageBytes})) << "not one of its addresses";
}

TEST_P(MappedRangesTest, AWriterGoesOnWhereItsRangeIsAndIsLedElsewhereNext) {
  const auto mapped = ranges(true);
  std::byte* const before = mapped->data();
  const std::array<MappedRanges::Area, 1> area{{{before, 2 * kPageBytes}}};
  ASSERT_EQ(mprotect(before, 2 * kPageBytes, PROT_READ), 0);  // as a published version's are
  ASSERT_TRUE(mapped->keep_copies(area).ok());
  before[5 * kPageBytes] = std::byte{7};
  EXPECT_EQ(bytes[5 * kPageBytes], std::byte{7}) << "a write that was under way";
  mapped->data()[0] = std::byte{8};
  EXPECT_EQ(bytes[0], std::byte{8});
  EXPECT_EQ(before[0], std::byte{1});
  mapped->let_go(before);
  before[0] = std::byte{9};
  EXPECT_EQ(bytes[0], std::byte{9}) << "writable again";
}

TEST_P(MappedRangesTest, TwoRangesTakeTurns) {
  const auto mapped = ranges();
  std::byte* const first = mapped->data();
  ASSERT_TRUE(mapped->keep_copies(page_of(first, 0)).ok());
  std::byte* const second = mapped->data();
  mapped->let_go(first);
  for (int i = 0; i < 100; ++i) {
    std::byte* const now = mapped->data();
    EXPECT_EQ(now, i % 2 == 0 ? second : first);
    ASSERT_TRUE(mapped->keep_copies(page_of(now, 1)).ok());
    mapped->let_go(now + kPageBytes);
  }
}

TEST_P(MappedRangesTest, ARangeWithCopiesServesNoLeases) {
  const auto mapped = ranges();
  std::vector<std::byte*> seen;
  for (unsigned char version = 1; version <= 5; ++version) {
    seen.push_back(mapped->data());
    fill(0, version);
    ASSERT_TRUE(mapped->keep_copies(page_of(seen.back(), 0)).ok());
  }
  fill(0, 99);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(std::count(seen.begin(), seen.end(), seen[i]), 1);
    EXPECT_EQ(*seen[i], std::byte(i + 1));
    EXPECT_EQ(mapped->offset_of(seen[i] + 5), 5);
  }
  for (std::byte* view : seen) mapped->let_go(view);
}

TEST_P(MappedRangesTest, AnAreaIsCopiedOnceForAllItsViews) {
  const auto mapped = ranges();
  const std::byte* const before = mapped->data();
  ASSERT_TRUE(mapped->keep_copies(page_of(before, 2)).ok());
  fill(2, 2);
  const std::array<MappedRanges::Area, 1> wider{{{before + kPageBytes, 3 * kPageBytes}}};
  ASSERT_TRUE(mapped->keep_copies(wider).ok()) << "a view that held the slot as well";
  mapped->let_go(before + 2 * kPageBytes);
  EXPECT_EQ(before[2 * kPageBytes], std::byte{1}) << "for the other view";
  EXPECT_EQ(before[kPageBytes], std::byte{1});
  mapped->let_go(before + kPageBytes);
  EXPECT_EQ(before[2 * kPageBytes], std::byte{2});
}

TEST_P(MappedRangesTest, LivesAsLongAsItsViews) {
  auto mapped = ranges();
  const std::byte* const before = mapped->data();
  ASSERT_TRUE(mapped->keep_copies(page_of(before, 0)).ok());
  const std::shared_ptr<MappedRanges> of_view = mapped->shared_from_this();
  mapped.reset();
  fill(0, 2);
  EXPECT_EQ(*before, std::byte{1});
  of_view->let_go(before);
}

TEST_P(MappedRangesTest, WhoReadsNoticesNothing) {
  const auto mapped = ranges();
  const std::byte* const before = mapped->data();
  std::atomic<bool> stop{false};
  std::atomic<bool> torn{false};
  std::thread reader([&] {
    while (!stop) {
      for (std::uint64_t page = 0; page < kPages; ++page) {
        if (static_cast<const volatile std::byte*>(before)[page * kPageBytes] != std::byte{1})
          torn = true;
      }
    }
  });
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(mapped->keep_copies(page_of(before, i % kPages)).ok());
    mapped->let_go(before + (i % kPages) * kPageBytes);
  }
  stop = true;
  reader.join();
  EXPECT_FALSE(torn);
}

TEST_P(MappedRangesTest, AChildFaultsAtAllOfThem) {
  const auto mapped = ranges();
  const std::byte* const before = mapped->data();
  ASSERT_TRUE(mapped->keep_copies(page_of(before, 0)).ok());
  const std::byte* const after = mapped->data();
  for (const std::byte* address : {before, before + kPageBytes, after}) {
    const pid_t child = fork();
    if (child == 0) {
      ::signal(SIGSEGV, SIG_DFL);
      _exit(static_cast<int>(*static_cast<const volatile std::byte*>(address)));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  }
  EXPECT_EQ(*before, std::byte{1});
  mapped->let_go(before);
}

TEST_P(MappedRangesTest, ItsPagesAreMappedOnceMoreForTheCallerAlone) {
  const auto mapped = ranges();
  const MappedRanges::Pages pages = mapped->map_once_more(2 * kPageBytes + 8, kPageBytes);
  ASSERT_NE(pages.data, nullptr);
  EXPECT_EQ(pages.size_bytes, 2 * kPageBytes);
  EXPECT_TRUE(pages.writable);
  pages.data[pages.offset] = std::byte{7};
  EXPECT_EQ(bytes[2 * kPageBytes + 8], std::byte{7});
  EXPECT_EQ(mapped->offset_of(pages.data), std::nullopt);
  const pid_t child = fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    _exit(static_cast<int>(*static_cast<const volatile std::byte*>(pages.data)));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT_EQ(munmap(pages.data, pages.size_bytes), 0);
}

INSTANTIATE_TEST_SUITE_P(, MappedRangesTest, ::testing::Values(From::kMapping, From::kFile));

// Who forks and goes on does not keep the memory, nor does the program find a foreign descriptor.
TEST(MappedRangesFile, IsClosedInAForkedChildAndWithTheRanges) {
  const wire::UniqueFd file(memfd_create("segment", 0));
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  void* const data = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(data, MAP_FAILED);
  const int kept = fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
  const auto is_open = [kept] { return fcntl(kept, F_GETFD) >= 0; };
  auto ranges = std::make_shared<MappedRanges>(static_cast<std::byte*>(data), kBytes, kPageBytes,
                                               false, wire::UniqueFd(kept));
  EXPECT_TRUE(is_open());
  const pid_t child = fork();
  if (child == 0) _exit(is_open() ? 1 : 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_open());
  ranges.reset();
  EXPECT_FALSE(is_open());
}

}  // namespace
}  // namespace memlease::internal
