#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/core/access.h"

namespace memlease::server {
namespace {

struct Case {
  std::string name;
  PeerIdentity peer;
  std::uint32_t mode;
  bool reads;
  bool writes;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

PeerIdentity peer(uid_t uid, gid_t gid, std::vector<gid_t> groups = {}) {
  return {1, uid, gid, std::move(groups), "test"};
}

// The array belongs to uid 1000, gid 100.
const Case kCases[] = {
    {"OwnerOfPrivate", peer(1000, 100), 0600, true, true},
    {"OwnerInAnotherGroup", peer(1000, 7), 0600, true, true},
    {"OwnerReadOnly", peer(1000, 100), 0466, true, false},
    {"OwnerCountsBeforeGroup", peer(1000, 100), 0060, false, false},
    {"OwnerCountsBeforeOthers", peer(1000, 7), 0006, false, false},
    {"GroupOfPrivate", peer(1001, 100), 0600, false, false},
    {"GroupReads", peer(1001, 100), 0640, true, false},
    {"GroupWrites", peer(1001, 100), 0660, true, true},
    {"SupplementaryGroupReads", peer(1001, 7, {8, 100}), 0640, true, false},
    {"SupplementaryGroupWrites", peer(1001, 7, {100}), 0660, true, true},
    {"GroupCountsBeforeOthers", peer(1001, 100), 0606, false, false},
    {"SupplementaryGroupCountsBeforeOthers", peer(1001, 7, {100}), 0606, false, false},
    {"OtherOfPrivate", peer(1001, 7, {8}), 0600, false, false},
    {"OtherOfGroup", peer(1001, 7), 0660, false, false},
    {"OtherReads", peer(1001, 7), 0604, true, false},
    {"OtherWrites", peer(1001, 7), 0606, true, true},
    {"WriteWithoutReadIsNoWrite", peer(1001, 7), 0602, false, false},
    {"GroupWriteWithoutReadIsNoWrite", peer(1001, 100), 0620, false, false},
    {"Root", peer(0, 0), 0600, true, true},
    {"RootOfNothing", peer(0, 0), 0000, true, true},
    {"ExecuteBitsMeanNothing", peer(1001, 7), 0611, false, false},
};

class Access : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, Access, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

TEST_P(Access, DecidesAsTheKernelDoesForFiles) {
  const AccessDomain domain{1000, 100, GetParam().mode};
  EXPECT_EQ(may_read(GetParam().peer, domain), GetParam().reads);
  EXPECT_EQ(may_write(GetParam().peer, domain), GetParam().writes);
}

}  // namespace
}  // namespace memlease::server
