#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/config/subordinate_uids.h"
#include "tests/support/temporary_folder.h"

namespace memlease::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

auto range(uid_t user, uid_t first, std::uint32_t count) {
  return AllOf(Field(&SubordinateUids::user, user), Field(&SubordinateUids::first, first),
               Field(&SubordinateUids::count, count));
}

std::vector<SubordinateUids> of(const std::string& text) {
  std::istringstream file(text);
  return subordinate_uids(file);
}

TEST(SubordinateUids, AreReadAsNewuidmapDoes) {
  EXPECT_THAT(of("root:1000000:1000000000\n1001:165536:65536\nnobody:231072:1"),
              ElementsAre(range(0, 1'000'000, 1'000'000'000), range(1001, 165'536, 65'536),
                          range(65'534, 231'072, 1)));
}

TEST(SubordinateUids, LinesThatAreNoneCountForNothing) {
  EXPECT_THAT(of("\n# root:1:1\nroot\nroot:1\nroot:x:1\nroot:1:\nroot:1:1:1\nroot:-1:1\n"
                 "root:4294967296:1\nroot:1:4294967296\n:1:1\nno-such-user-here:1:1\n"),
              IsEmpty());
  EXPECT_THAT(of("root:1:1x\nroot:7:8\n"), ElementsAre(range(0, 7, 8)));
}

TEST(SubordinateUids, AreNoneWhereThereIsNoFile) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(read_subordinate_uids(folder.path() + "/subuid"), IsEmpty());
}

}  // namespace
}  // namespace memlease::server
