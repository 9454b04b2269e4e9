#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"
#include "wire/memory_ceiling.h"

namespace memlease::wire {
namespace {

class MemoryCeilingTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(root.path()) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  void write_group(const std::string& group, std::uint64_t limit_mib, std::uint64_t usage_mib) {
    write("sys/fs/cgroup/" + group + "/memory.max", std::to_string(limit_mib << 20));
    write("sys/fs/cgroup/" + group + "/memory.current", std::to_string(usage_mib << 20));
  }
  MemoryBound ceiling() const { return memory_ceiling(7, root.path()); }
  MemoryBound room() const {
    return memory_room(7, UINT64_MAX, {}, ReserveKept::kAll, root.path());
  }

  testing::TemporaryFolder root;
};

TEST_F(MemoryCeilingTest, IsTheMachinesMemoryWithoutGroups) {
  EXPECT_EQ(ceiling().what, "the machine's memory");
  EXPECT_EQ(ceiling().bytes, memory_ceiling(7, "/nowhere").bytes);
}

TEST_F(MemoryCeilingTest, IsTheLowestOfTheGroupsOfVersion2) {
  write("proc/7/cgroup", "0::/outer/inner");
  write("sys/fs/cgroup/outer/inner/memory.max", "max");
  write("sys/fs/cgroup/outer/memory.max", "1048576");
  EXPECT_EQ(ceiling().bytes, 1048576U);
  EXPECT_EQ(ceiling().what, root.path() + "/sys/fs/cgroup/outer/memory.max");
  write("sys/fs/cgroup/outer/inner/memory.max", "4096");
  EXPECT_EQ(ceiling().bytes, 4096U);
}

TEST_F(MemoryCeilingTest, IsTheLowestOfTheGroupsOfVersion1) {
  write("proc/7/cgroup", "5:memory:/outer/inner\n4:cpu:/outer");
  write("sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(ceiling().what, "the machine's memory");
  write("sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "536870912");
  EXPECT_EQ(ceiling().bytes, 536870912U);
}

TEST_F(MemoryCeilingTest, KnowsAGroupWhoseControllersAreMountedTogether) {
  write("sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "536870912");
  for (const char* controllers : {"hugetlb,memory", "memory,hugetlb", "cpu,memory,hugetlb"}) {
    write("proc/7/cgroup", std::string("5:") + controllers + ":/outer");
    EXPECT_EQ(ceiling().bytes, 536870912U) << controllers;
  }
  write("proc/7/cgroup", "5:name=memory:/outer");
  EXPECT_EQ(ceiling().what, "the machine's memory");
}

TEST_F(MemoryCeilingTest, IsThatOfAContainerWhichSeesItsOwnGroupAlone) {
  write("sys/fs/cgroup/memory.max", "8192");
  EXPECT_EQ(ceiling().bytes, 8192U);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096");
  EXPECT_EQ(ceiling().bytes, 4096U);
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST_F(MemoryCeilingTest, RoomIsWhatTheMachineHasBesideAReserve) {
  write("proc/meminfo", "MemTotal: 9999999 kB\nMemFree: 17 kB\nMemAvailable: 1048576 kB");
  EXPECT_EQ(room().bytes, (1024 - 256) * kMiB);
  EXPECT_EQ(room().what, "the machine's memory");
  write("proc/meminfo", "MemAvailable: 1024 kB");
  EXPECT_EQ(room().bytes, 0U);
}

TEST_F(MemoryCeilingTest, RoomIsWhatTheFullestGroupOfVersion2HasBesideItsReserve) {
  write("proc/meminfo", "MemAvailable: 104857600 kB");
  write("proc/7/cgroup", "0::/outer/inner");
  write_group("outer/inner", 1024, 100);
  EXPECT_EQ(room().bytes, (1024 - 256 - 100) * kMiB);
  EXPECT_EQ(room().what, root.path() + "/sys/fs/cgroup/outer/inner/memory.max");
  // Others beside it take of what is around both.
  write_group("outer", 2048, 1700);
  EXPECT_EQ(room().bytes, (2048 - 256 - 1700) * kMiB);
  EXPECT_EQ(room().what, root.path() + "/sys/fs/cgroup/outer/memory.max");
  write("sys/fs/cgroup/outer/memory.current", std::to_string(2048 * kMiB));
  EXPECT_EQ(room().bytes, 0U);
}

TEST_F(MemoryCeilingTest, RoomCountsACacheOfFilesAsFree) {
  write("proc/meminfo", "MemAvailable: 104857600 kB");
  write("proc/7/cgroup", "0::/group\n5:memory:/old");
  write_group("group", 1024, 700);
  write("sys/fs/cgroup/group/memory.stat",
        "file 629145600\nshmem 524288000\ninactive_file 83886080\nactive_file 10485760\n"
        "slab_reclaimable 10485760");
  EXPECT_EQ(room().bytes, (1024 - 256 - 600) * kMiB);
  write("sys/fs/cgroup/memory/old/memory.limit_in_bytes", std::to_string(1024 * kMiB));
  write("sys/fs/cgroup/memory/old/memory.usage_in_bytes", std::to_string(700 * kMiB));
  write("sys/fs/cgroup/memory/old/memory.stat",
        "inactive_file 629145600\ntotal_inactive_file 41943040\ntotal_active_file 31457280");
  EXPECT_EQ(room().bytes, (1024 - 256 - 630) * kMiB);
}

TEST_F(MemoryCeilingTest, RoomEndsWhereTheKernelWouldSlowTheGroupDown) {
  write("proc/7/cgroup", "0::/group");
  write("sys/fs/cgroup/group/memory.max", "max");
  write("sys/fs/cgroup/group/memory.high", std::to_string(1024 * kMiB));
  write("sys/fs/cgroup/group/memory.current", std::to_string(1000 * kMiB));
  EXPECT_EQ(room().bytes, 0U);
  EXPECT_EQ(room().what, root.path() + "/sys/fs/cgroup/group/memory.high");
}

TEST_F(MemoryCeilingTest, WhoWantsLittleIsAnsweredWithoutALookAtTheCache) {
  write("proc/meminfo", "MemAvailable: 104857600 kB");
  write("proc/7/cgroup", "0::/group");
  write_group("group", 1024, 740);
  write("sys/fs/cgroup/group/memory.stat", "inactive_file 524288000");
  EXPECT_GE(memory_room(7, 20 * kMiB, {}, ReserveKept::kAll, root.path()).bytes, 20 * kMiB);
  EXPECT_EQ(memory_room(7, 600 * kMiB, {}, ReserveKept::kAll, root.path()).bytes,
            (1024 - 256 - 240) * kMiB);
}

TEST_F(MemoryCeilingTest, OfTheReserveIsLeftWhatCachesDoNotNeed) {
  write("proc/7/cgroup", "0::/outer/group");
  write_group("outer", 4096, 100);
  const auto left = [&](std::uint64_t used_mib) {
    write_group("outer/group", 1024, used_mib);
    return reserve_left(7, root.path());
  };
  write("sys/fs/cgroup/outer/group/memory.stat", "inactive_file 0");
  EXPECT_EQ(left(1024 - 128), ReserveLeft::kHalf);
  EXPECT_EQ(left(1024 - 127), ReserveLeft::kLessThanHalf);
  EXPECT_EQ(left(950), ReserveLeft::kLessThanHalf);
  EXPECT_EQ(left(970), ReserveLeft::kLessThanQuarter);
  write("sys/fs/cgroup/outer/group/memory.stat", fmt::format("inactive_file {}", 20 * kMiB));
  EXPECT_EQ(left(970), ReserveLeft::kLessThanHalf);
  EXPECT_EQ(left(910), ReserveLeft::kHalf);
  write_group("outer", 4096, 4090);
  EXPECT_EQ(left(10), ReserveLeft::kLessThanQuarter) << "a group is in others";
}

// It may be on another group's account for a while.
TEST_F(MemoryCeilingTest, SharedMemoryThatIsNotThereIsNotFree) {
  write("proc/7/cgroup", "0::/group");
  write_group("group", 1024, 300);
  write("sys/fs/cgroup/group/memory.stat", fmt::format("anon 1\nshmem {}", 200 * kMiB));
  const auto beside = [&](std::uint64_t shared_bytes, std::uint64_t heap_bytes = 0) {
    return memory_room(7, UINT64_MAX, {shared_bytes, heap_bytes}, ReserveKept::kAll, root.path())
        .bytes;
  };
  EXPECT_EQ(beside(200 * kMiB), (1024 - 256 - 300) * kMiB);
  EXPECT_EQ(beside(150 * kMiB), (1024 - 256 - 300) * kMiB) << "others have some, too";
  EXPECT_EQ(beside(260 * kMiB), (1024 - 256 - 360) * kMiB);
  EXPECT_EQ(beside(900 * kMiB), 0U);
  EXPECT_EQ(beside(200 * kMiB, 90 * kMiB), (1024 - 256 - 300) * kMiB) << "100 are there";
  EXPECT_EQ(beside(200 * kMiB, 150 * kMiB), (1024 - 256 - 350) * kMiB);
}

TEST_F(MemoryCeilingTest, FiveEighthsOfTheReserveAreForWhoHasLittle) {
  write("proc/7/cgroup", "0::/group");
  const auto room_beside = [&](std::uint64_t used_mib) {
    write_group("group", 1024, used_mib);
    return memory_room(7, UINT64_MAX, {}, ReserveKept::kThreeEighths, root.path()).bytes;
  };
  EXPECT_EQ(room_beside(1024 - 256), 160 * kMiB);
  EXPECT_EQ(room().bytes, 0U);
  EXPECT_EQ(room_beside(1024 - 96), 0U);
}

TEST_F(MemoryCeilingTest, TheReserveOfASmallGroupIsAQuarter) {
  write("proc/7/cgroup", "0::/group");
  write_group("group", 128, 10);
  EXPECT_EQ(room().bytes, (128 - 32 - 10) * kMiB);
}

std::size_t times_open(const std::string& file) {
  std::size_t times = 0;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    times += std::filesystem::read_symlink(fd, gone) == file ? 1 : 0;
  }
  return times;
}

// On the way to them are locks of the kernel's that others can keep.
TEST(OwnMemory, IsLookedUpInFilesThatAreKeptOpen) {
  const MemoryBound room = memory_room(::getpid());
  EXPECT_GT(room.bytes, 0U);
  EXPECT_EQ(times_open("/proc/meminfo"), 1U);
  EXPECT_EQ(memory_room(::getpid(), 1).what,
            memory_room(::getpid(), 1, {}, ReserveKept::kAll).what);
  EXPECT_EQ(times_open("/proc/meminfo"), 1U);
  EXPECT_EQ(memory_ceiling(::getpid()).bytes, memory_ceiling(::getppid()).bytes);
}

// Whose descriptors are closed, as those of a daemon that goes to the background.
TEST(OwnMemory, IsLookedUpAnewByAChild) {
  const std::uint64_t bytes = memory_ceiling(::getpid()).bytes;
  EXPECT_NE(memory_room(::getpid()).bytes, 0U);
  const pid_t child = ::fork();
  if (child == 0) {
    for (int fd = 3; fd < 256; ++fd) ::close(fd);
    const bool right = memory_ceiling(::getpid()).bytes == bytes &&
                       memory_room(::getpid()).bytes < std::uint64_t{1} << 60 &&
                       times_open("/proc/meminfo") == 1;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace memlease::wire
