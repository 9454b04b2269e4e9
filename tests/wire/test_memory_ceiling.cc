#include <filesystem>
#include <fstream>
#include <string>

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
  MemoryCeiling ceiling() const { return memory_ceiling(7, root.path()); }

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

}  // namespace
}  // namespace memlease::wire
