#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/device/memfd_device_backend.h"
#include "tests/contract/broken_memory.h"
#include "tests/contract/memory_contract.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_memory.h"
#include "tests/support/open_files.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using server::MemfdDeviceBackend;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Memory>
std::vector<std::string> all_violations(Memory& memory) {
  auto found = violations_of(static_cast<server::DeviceBackend&>(memory));
  for (auto& text : violations_of(static_cast<server::PageSource&>(memory))) {
    found.push_back(std::move(text));
  }
  return found;
}

TEST(MemoryContract, MemfdsKeepIt) {
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever);
  EXPECT_THAT(all_violations(memory), IsEmpty());
}

TEST(MemoryContract, MemfdsWithWhateverHugePagesThereAreKeepIt) {
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kAuto);
  EXPECT_THAT(all_violations(memory), IsEmpty()) << "huge pages: " << memory.huge_pages();
}

TEST(MemoryContract, TheFakeKeepsIt) {
  FakeMemory memory;
  EXPECT_THAT(all_violations(memory), IsEmpty());
}

struct Case {
  std::string name;
  Flaw flaw;
  std::vector<std::string> found;  // each must be among the violations
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"Seals",
     Flaw::kNoSeals,
     {"seals are missing", "can shrink", "can grow", "seal the file against"}},
    {"Mode", Flaw::kOpenMode, {"mode is not 0600", "another uid can reopen"}},
    {"Export", Flaw::kWritableExport, {"not O_RDONLY", "mapped for writing", "can be written"}},
    {"Exec", Flaw::kSurvivesExec, {"survives exec"}},
    {"Zero", Flaw::kNotZeroed, {"not zero"}},
    {"Commit", Flaw::kNotCommitted, {"not really there"}},
    {"Change", Flaw::kNeverChanges, {"a change of the daemon's is not there"}},
    {"AfterChange", Flaw::kStaysOpen, {"after a change the daemon can write"}},
    {"Map", Flaw::kDaemonMapsAll, {"maps a segment", "write a client's page"}},
    {"SeesNoWriter", Flaw::kSeesNoWriter, {"does not see who can write it"}},
    {"SeesWriters", Flaw::kSeesWriters, {"sees a writer where nobody can write it"}},
    {"NeverRevoked", Flaw::kNeverRevoked, {"keeps the pages of what is nobody's"}},
    {"AlwaysRevoked", Flaw::kAlwaysRevoked, {"loses its pages with the daemon"}},
    {"Leak", Flaw::kLeaksDescriptor, {"left behind"}},
};

class BrokenContract : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, BrokenContract, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

TEST_P(BrokenContract, IsFoundOut) {
  BrokenMemory memory(GetParam().flaw);
  const auto found = all_violations(memory);
  for (const std::string& text : GetParam().found) {
    EXPECT_THAT(found, Contains(HasSubstr(text)));
  }
}

TEST(BrokenMemory, WithoutItsFlawKeepsTheContract) {
  BrokenMemory memory(Flaw::kNone);
  EXPECT_THAT(all_violations(memory), IsEmpty());
}

// A large allocation goes in steps, each of which is asked for first.
TEST(MemfdDeviceBackend, ALackOfMemoryHalfwayIsAnErrorAndLeavesNothing) {
  int asked = 0;
  const auto room = [&](std::uint64_t /*bytes*/, std::uint64_t /*held*/,
                        wire::ReserveKept /*kept*/) {
    return wire::MemoryBound{++asked < 3 ? std::uint64_t{1} << 40 : 5, "the group"};
  };
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever, room);
  const auto before = open_files();
  const auto segment = memory.create_segment(std::uint64_t{200} << 20, wire::ReserveKept::kAll);
  EXPECT_EQ(wire::code_of(segment.status()), wire::ErrorCode::kOutOfMemory);
  EXPECT_THAT(wire::message_of(segment.status()),
              HasSubstr("no host memory for 176160768 bytes, but for 5 (the group)"));
  EXPECT_EQ(asked, 3) << "nothing is asked for after a no";
  EXPECT_EQ(open_files(), before);
}

// Each open file of its own would be memory of the daemon's for as long as a client keeps it.
TEST(MemfdDeviceBackend, AllWhoGetAFileShareOneThatIsOpen) {
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever);
  auto segment = memory.create_segment(4096, wire::ReserveKept::kAll);
  ASSERT_TRUE(segment.ok());
  for (const bool writable : {false, true}) {
    const auto one = (*segment)->export_fd(writable);
    const auto other = (*segment)->export_fd(writable);
    ASSERT_TRUE(one.ok() && other.ok());
    EXPECT_EQ(::lseek(one->get(), 7, SEEK_SET), 7);
    EXPECT_EQ(::lseek(other->get(), 0, SEEK_CUR), 7);
  }
}

// To close one waits for who keeps the kernel's list of locks, where somebody has locked the file.
TEST(MemfdDeviceBackend, NothingIsOpenedOrClosedToHandOutAFile) {
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever);
  auto segment = memory.create_segment(4096, wire::ReserveKept::kAll);
  ASSERT_TRUE(segment.ok());
  for (const bool writable : {false, true}) {
    auto first = (*segment)->export_fd(writable);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ((*segment)->export_fd(writable)->get(), first->get());
    const int fd = first->get();
    EXPECT_TRUE((*segment)->is_lent());
    first->reset();
    EXPECT_NE(::fcntl(fd, F_GETFD), -1);
    EXPECT_TRUE(testing::eventually([&] { return !(*segment)->is_lent(); }))
        << "but by who drops the locks";
  }
}

// That would wait for who keeps the kernel's list of locks. One is not given for a file that is
// open for writing, whoever has it open.
TEST(MemfdDeviceBackend, NoLeaseIsAskedForToTellWhoCanWriteAFile) {
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever);
  auto segment = memory.create_segment(4096, wire::ReserveKept::kAll);
  ASSERT_TRUE(segment.ok());
  const auto reader = (*segment)->export_fd(false);
  ASSERT_TRUE(reader.ok());
  const wire::UniqueFd apart(
      ::open(fmt::format("/proc/self/fd/{}", reader->get()).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(apart);
  ASSERT_EQ(::fcntl(reader->get(), F_SETLEASE, F_RDLCK), -1);
  EXPECT_EQ((*segment)->elsewhere(), server::Elsewhere::kNoWriter) << "of those it has made";
  ASSERT_TRUE((*segment)->export_fd(true).ok());
  EXPECT_TRUE(testing::eventually([&] {
    return (*segment)->elsewhere() == server::Elsewhere::kNoWriter;
  })) << "but by who drops the locks";
}

// Where there is no watch the lease tells.
TEST(MemfdDeviceBackend, WithoutAWatchItTellsWhoCanWriteAFileAllTheSame) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};  // so that there is no inotify
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  auto segment = memory.create_segment(4096, wire::ReserveKept::kAll);
  ASSERT_TRUE(segment.ok());
  const auto is_let_go = [&] { return !(*segment)->is_lent(); };
  auto writer = (*segment)->export_fd(true);
  ASSERT_TRUE(writer.ok());
  wire::UniqueFd kept(::fcntl(writer->get(), F_DUPFD_CLOEXEC, 0));
  writer->reset();
  EXPECT_TRUE(testing::eventually(is_let_go));
  EXPECT_EQ((*segment)->elsewhere(), server::Elsewhere::kWriter);
  EXPECT_FALSE((*segment)->is_lent()) << "nobody has a copy of what is closed next";
  kept.reset();
  EXPECT_EQ((*segment)->elsewhere(), server::Elsewhere::kNoWriter);
}

TEST(MemfdDeviceBackend, WhoHasLittleMayHaveSomeOfTheReserve) {
  const auto room = [](std::uint64_t /*bytes*/, std::uint64_t /*held*/, wire::ReserveKept kept) {
    return wire::MemoryBound{kept == wire::ReserveKept::kAll ? 0U : 8192U, "memory"};
  };
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever, room);
  constexpr auto kAll = wire::ReserveKept::kAll;
  constexpr auto kThreeEighths = wire::ReserveKept::kThreeEighths;
  EXPECT_FALSE(memory.create_segment(4096, kAll).ok());
  EXPECT_FALSE(memory.has_room(4096).ok());
  const auto segment = memory.create_segment(8192, kThreeEighths);
  ASSERT_TRUE(segment.ok());
  EXPECT_EQ((*segment)->size_bytes(), 8192U);
  EXPECT_FALSE(memory.create_segment(12288, kThreeEighths).ok());
  for (const bool daemon_writes : {false, true}) {
    EXPECT_FALSE(memory.create_pages(4096, daemon_writes, kAll).ok());
    const auto page = memory.create_pages(4096, daemon_writes, kThreeEighths);
    ASSERT_TRUE(page.ok());
    EXPECT_NE((*page)->data(), nullptr);
    EXPECT_FALSE(memory.create_pages(12288, daemon_writes, kThreeEighths).ok());
  }
}

TEST(MemfdDeviceBackend, LocksThatAClientHasPutOnAFileGoWhenItIsHandedOut) {
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever);
  const auto board = memory.create_pages(65536, true, wire::ReserveKept::kAll);
  ASSERT_TRUE(board.ok());
  const auto client = (*board)->export_fd(false);
  ASSERT_TRUE(client.ok());
  const wire::UniqueFd apart(
      ::open(fmt::format("/proc/self/fd/{}", client->get()).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(apart);
  const auto is_locked = [&] {
    struct flock some{};
    some.l_type = F_WRLCK;
    EXPECT_EQ(::fcntl(apart.get(), F_OFD_GETLK, &some), 0);
    return some.l_type != F_UNLCK;
  };
  struct flock bytes{};
  bytes.l_type = F_RDLCK;
  bytes.l_start = 100;
  bytes.l_len = 1;
  ASSERT_EQ(::fcntl(client->get(), F_OFD_SETLK, &bytes), 0);
  EXPECT_TRUE(is_locked());
  EXPECT_TRUE(testing::eventually([&] {
    EXPECT_TRUE((*board)->export_fd(false).ok());
    return !is_locked();
  }));
}

bool punch(int fd, std::uint64_t size_bytes) {
  return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                     static_cast<off_t>(size_bytes)) == 0;
}

// As where the daemon may not keep them.
void let_pages_go(int fd) {
  int flags = 0;
  if (::ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0) return;
  flags &= ~FS_IMMUTABLE_FL;
  ::ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

// Who looks at pages that are just being taken out waits until they are.
TEST(MemfdDeviceBackend, WhoIsTheFirstToWriteAFileTakesNoPagesOutOfItAndTheDaemonDoes) {
  constexpr std::uint64_t kSize = std::uint64_t{64} << 10;
  const bool goes = !MemfdDeviceBackend::keeps_pages();
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever);
  auto made = memory.create_pages(kSize, false, wire::ReserveKept::kAll);
  ASSERT_TRUE(made.ok());
  auto writer = (*made)->export_fd(true);
  auto reader = (*made)->export_fd(false);
  ASSERT_TRUE(writer.ok() && reader.ok());
  void* const kept = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, reader->get(), 0);
  void* const data = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, writer->get(), 0);
  ASSERT_TRUE(kept != MAP_FAILED && data != MAP_FAILED);
  EXPECT_EQ(punch(writer->get(), kSize), goes);
  EXPECT_EQ(::madvise(data, kSize, MADV_REMOVE) == 0, goes);
  EXPECT_EQ(::fallocate(writer->get(), 0, 0, kSize) == 0, goes);
  std::memset(data, 42, kSize);
  EXPECT_EQ(std::memcmp(kept, data, kSize), 0);
  ::munmap(data, kSize);
  writer->reset();
  reader->reset();
  ASSERT_TRUE(testing::eventually([&] { return !(*made)->is_lent(); }));
  ASSERT_EQ((*made)->elsewhere(), server::Elsewhere::kNoWriter);
  EXPECT_TRUE((*made)->revoke());
  EXPECT_EQ(*static_cast<const char*>(kept), 0) << "for the daemon they go";
  ::munmap(kept, kSize);
}

// Has the kernel put a huge page there for somebody who reads the file? It does from Linux 6.1 on,
// where it has one.
bool collapses(int fd, std::uint64_t at) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  constexpr int kCollapse = 25;  // MADV_COLLAPSE
  void* const room = ::mmap(nullptr, 2 * kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(room, MAP_FAILED);
  auto* const begin = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(room) + kHuge - 1) / kHuge * kHuge);
  EXPECT_EQ(::mmap(begin, kHuge, PROT_READ, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(at)),
            begin);
  const volatile std::byte first = *begin;
  static_cast<void>(first);
  const bool done = ::madvise(begin, kHuge, kCollapse) == 0;
  ::munmap(room, 2 * kHuge);
  return done;
}

// Meanwhile everybody else who looks at its pages would wait, for as long as he likes.
TEST(MemfdDeviceBackend, WhoReadsAFileHasNoHugePagePutInThePlaceOfItsPages) {
  constexpr std::uint64_t kPages = std::uint64_t{64} << 10;
  constexpr std::uint64_t kSegment = (std::uint64_t{5} << 20) + 4096;
  const wire::UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::fallocate(other.get(), 0, 0, kPages), 0);
  RecordProperty("the_kernel_would", collapses(other.get(), 0) ? "yes" : "no");
  const auto files_before = open_files();
  {
    MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever);
    for (const bool daemon_writes : {false, true}) {
      auto pages = memory.create_pages(kPages, daemon_writes, wire::ReserveKept::kAll);
      ASSERT_TRUE(pages.ok());
      EXPECT_FALSE(collapses((*pages)->export_fd(false)->get(), 0));
    }
    auto segment = memory.create_segment(kSegment, wire::ReserveKept::kAll);
    ASSERT_TRUE(segment.ok());
    const auto reader = (*segment)->export_fd(false);
    for (std::uint64_t at = 0; at < kSegment; at += std::uint64_t{2} << 20) {
      EXPECT_FALSE(collapses(reader->get(), at)) << at;
    }
  }
  EXPECT_TRUE(closes_all_but(files_before)) << "also who drops locks";
}

// Who has a file can hold its lock in the kernel.
TEST(MemfdDeviceBackend, NoLockOfAFileIsTakenThatSomebodyHas) {
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever);
  const auto made = memory.create_segment(4096, wire::ReserveKept::kAll);
  ASSERT_TRUE(made.ok());
  const auto reader = (*made)->export_fd(false);
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE((*made)->export_fd(true).ok());
  int flags = 0;
  if (::ioctl(reader->get(), FS_IOC_GETFLAGS, &flags) == 0) {
    EXPECT_EQ(flags & FS_IMMUTABLE_FL, 0);
  }
}

// What a client takes out of his pages comes back when the daemon looks at them: so it counts for
// as long as there is a file.
TEST(MemfdDeviceBackend, RoomIsAskedForBesideAllThatItHolds) {
  constexpr std::uint64_t kPage = std::uint64_t{64} << 10;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> asked;
  std::uint64_t left = kPage;
  const auto room = [&](std::uint64_t wanted_bytes, std::uint64_t held_bytes,
                        wire::ReserveKept /*kept*/) {
    asked.emplace_back(wanted_bytes, held_bytes);
    return wire::MemoryBound{left, "memory"};
  };
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kNever, room);
  auto page = memory.create_pages(kPage, /*daemon_writes=*/false, wire::ReserveKept::kAll);
  ASSERT_TRUE(page.ok());
  const auto writer = (*page)->export_fd(true);
  ASSERT_TRUE(writer.ok());
  let_pages_go(writer->get());
  ASSERT_TRUE(punch(writer->get(), kPage));
  EXPECT_TRUE(memory.create_segment(kPage, wire::ReserveKept::kAll).ok());
  left = 0;
  EXPECT_FALSE(memory.create_segment(kPage, wire::ReserveKept::kAll).ok());
  page->reset();
  EXPECT_FALSE(memory.create_segment(kPage, wire::ReserveKept::kAll).ok());
  const std::pair beside_none{kPage, std::uint64_t{0}};
  EXPECT_THAT(asked, ::testing::ElementsAre(beside_none, std::pair{kPage, kPage},
                                            std::pair{kPage, kPage}, beside_none));
}

// Ordinary pages play the huge ones, as most systems have none; the pool is said to be used up.
TEST(MemfdDeviceBackend, ALackOfHugePagesIsKnownUntilTheNextSegmentHasSome) {
  bool pool_has_some = true;
  int asked = 0;
  const auto room = [&](std::uint64_t /*bytes*/, std::uint64_t /*held*/,
                        wire::ReserveKept /*kept*/) {
    const bool is_there = pool_has_some || ++asked == 2;
    return wire::MemoryBound{is_there ? std::uint64_t{1} << 40 : 0, "memory"};
  };
  MemfdDeviceBackend memory(MemfdDeviceBackend::HugePages::kAuto, room, 0);
  ASSERT_TRUE(memory.uses_huge_pages());
  EXPECT_FALSE(memory.lacks_huge_pages());
  pool_has_some = false;
  EXPECT_TRUE(memory.create_segment(std::uint64_t{4} << 20, wire::ReserveKept::kAll).ok());
  EXPECT_EQ(asked, 2) << "huge pages first, then ordinary ones";
  EXPECT_TRUE(memory.lacks_huge_pages());
  EXPECT_EQ(wire::code_of(memory.create_segment(4096, wire::ReserveKept::kAll).status()),
            wire::ErrorCode::kOutOfMemory);
  EXPECT_TRUE(memory.lacks_huge_pages()) << "a small segment says nothing of them";
  pool_has_some = true;
  EXPECT_TRUE(memory.create_segment(std::uint64_t{4} << 20, wire::ReserveKept::kAll).ok());
  EXPECT_FALSE(memory.lacks_huge_pages());
}

TEST(FakeMemory, FailsWhenItIsTold) {
  FakeMemory memory;
  memory.fail_only(2);
  const auto first = memory.create_segment(4096, wire::ReserveKept::kAll);
  EXPECT_TRUE(first.ok());
  EXPECT_EQ(wire::code_of(memory.create_pages(4096, true, wire::ReserveKept::kAll).status()),
            wire::ErrorCode::kOutOfMemory);
  const auto third = memory.create_pages(4096, false, wire::ReserveKept::kAll);
  EXPECT_TRUE(third.ok());
  EXPECT_EQ(memory.calls(), 3U);
  EXPECT_EQ(memory.live(), (FakeMemory::Live{2, 8192}));
}

}  // namespace
}  // namespace memlease::testing
