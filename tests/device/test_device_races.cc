// Each step that orders two processes' GPU work, left out: the checker must find the race. With all
// of them it finds none. On hardware there is no checker: kernels that spin make sure that the
// wrong order is the one that happens, and the reader sees wrong values.
#include <string>

#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

struct LeftOut {
  const char* step;
  const char* where;  // "writer" or "reader"
  const char* other;  // what then races with the writer's tk_fill; which comes first is chance
  friend void PrintTo(const LeftOut& left_out, std::ostream* out) { *out << left_out.step; }
};

class DeviceRaces : public DeviceTest, public ::testing::WithParamInterface<LeftOut> {
 protected:
  // A writer with two streams that overwrites what a reader with two streams has let go, and what
  // it has dropped itself. Returns how many wrong values the reader has seen.
  std::uint64_t scenario(const std::string& step, const std::string& where) {
    Client writer(daemon);
    Client reader(daemon);
    if (!step.empty()) (where == "writer" ? writer : reader).is_ok("leave_out " + step);
    writer.is_ok("create a 2 1000 cuda:0");
    reader.is_ok("gate p");  // its reads are late, so that streams must wait for them
    spin(reader, " p", 3000);
    spin(reader, " q", 4500);  // a record of theirs, which waits for p's, must wait for theirs, too
    for (int round = 1; round <= 4; ++round) {
      const std::string stream = round % 2 == 0 ? " s" : " t";
      writer.is_ok("write a" + stream);
      spin(writer, stream, 200);
      writer.is_ok("fill a " + std::to_string(round) + stream);
      writer.is_ok("publish a");
      for (const std::string on : {" p", " q"}) {
        reader.is_ok("read a" + on);
        reader.is_ok("look a " + std::to_string(round) + on);
        reader.is_ok("release a");
      }
      writer.is_ok("write a" + stream);
      spin(writer, stream, 500);
      writer.is_ok("fill a 99" + stream);
      writer.is_ok("drop a");
    }
    reader.is_ok("ungate");
    // All of it runs, also what the step left out would have let go too early.
    std::uint64_t wrong = 0;
    for (const std::string on : {"p", "q"}) wrong += reader.ask("mismatches " + on).number();
    return wrong;
  }

 private:
  // The stand-in needs no time to tell what may happen.
  static void spin(Client& client, const std::string& stream, int ms) {
    if (!fakecuda::is_loaded()) client.is_ok("spin" + stream + " " + std::to_string(ms));
  }
};

// R-SYNC-3, 5, 6: each step is there.
TEST_F(DeviceRaces, ThereAreNoneWithAllSteps) { EXPECT_EQ(scenario("", ""), 0U); }

// R-SYNC-3, 5, 6: the controls; without a record the other side waits for an older one.
TEST_P(DeviceRaces, ThisStepLeftOutIsFound) {
  const std::uint64_t wrong = scenario(GetParam().step, GetParam().where);
  if (!fakecuda::is_loaded()) {
    EXPECT_GT(wrong, 0U);
    return;
  }
  expect_race("tk_fill", GetParam().other);
}

INSTANTIATE_TEST_SUITE_P(Steps, DeviceRaces,
                         ::testing::Values(LeftOut{"wait for the version", "reader", "tk_check"},
                                           LeftOut{"record the write", "writer", "tk_check"},
                                           LeftOut{"wait for readers", "writer", "tk_check"},
                                           LeftOut{"record the read", "reader", "tk_check"},
                                           LeftOut{"join earlier reads", "reader", "tk_check"},
                                           LeftOut{"wait for writers", "writer", "tk_fill"}));

}  // namespace
}  // namespace memlease::testing
