// Each step that orders two processes' GPU work, left out: the checker must find the race. With all
// of them it finds none.
#include <algorithm>

#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

using fakecuda::Finding;
using What = Finding::What;

struct LeftOut {
  const char* step;
  const char* where;  // "writer" or "reader"
  What race;
  friend void PrintTo(const LeftOut& left_out, std::ostream* out) { *out << left_out.step; }
};

class DeviceRaces : public DeviceTest, public ::testing::WithParamInterface<LeftOut> {
 protected:
  // A writer with two streams that overwrites what a reader with two streams has let go, and what
  // it has dropped itself.
  void scenario(const std::string& step, const std::string& where) {
    Client writer(daemon);
    Client reader(daemon);
    if (!step.empty()) (where == "writer" ? writer : reader).is_ok("leave_out " + step);
    writer.is_ok("create a 2 1000 cuda:0");
    for (int round = 1; round <= 4; ++round) {
      const std::string stream = round % 2 == 0 ? " s" : " t";
      writer.is_ok("write a" + stream);
      writer.is_ok("fill a " + std::to_string(round) + stream);
      writer.is_ok("publish a");
      reader.is_ok("gate p");  // so that the other stream is done first
      for (const std::string on : {" p", " q"}) {
        reader.is_ok("read a" + on);
        reader.is_ok("look a " + std::to_string(round) + on);
        reader.is_ok("release a");
      }
      reader.is_ok("ungate");
      writer.is_ok("write a" + stream);
      writer.is_ok("fill a 99" + stream);
      writer.is_ok("drop a");
    }
  }
};

TEST_F(DeviceRaces, ThereAreNoneWithAllSteps) { scenario("", ""); }

TEST_P(DeviceRaces, ThisStepLeftOutIsFound) {
  scenario(GetParam().step, GetParam().where);
  const auto findings = world.findings();
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [](const Finding& found) {
    return found.what == GetParam().race;
  })) << fakecuda::describe(findings);
}

INSTANTIATE_TEST_SUITE_P(
    Steps, DeviceRaces,
    ::testing::Values(LeftOut{"wait for the version", "reader", What::kReadAfterWrite},
                      LeftOut{"record the write", "writer", What::kReadAfterWrite},
                      LeftOut{"wait for readers", "writer", What::kWriteAfterRead},
                      LeftOut{"record the read", "reader", What::kWriteAfterRead},
                      LeftOut{"join earlier reads", "reader", What::kWriteAfterRead},
                      LeftOut{"wait for writers", "writer", What::kWriteAfterWrite}));

}  // namespace
}  // namespace memlease::testing
