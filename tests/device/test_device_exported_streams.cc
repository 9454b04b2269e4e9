// A consumer of a view works on the stream that the view has given it. The lease was told a default
// stream, which is never given away: its end is behind both.
#include <string>

#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

struct Work {
  const char* lease_stream;
  bool writes;
};

class DeviceExportedStreams : public DeviceTest, public ::testing::WithParamInterface<Work> {
 protected:
  // The work itself, then what comes behind it in another process.
  void scenario(const std::string& left_out) {
    Client consumer(daemon);
    Client other(daemon);
    other.is_ok("create a 1 1000 cuda:0");
    publish(other, 1);
    if (!left_out.empty()) consumer.is_ok("leave_out " + left_out);
    const std::string on = std::string(" ") + GetParam().lease_stream;
    if (GetParam().writes) {
      consumer.is_ok("write a" + on);
      consumer.is_ok("export_write a");
      consumer.is_ok("fill a 2 exported");
      consumer.is_ok("publish a" + on);
      read(other, 2);
    } else {
      consumer.is_ok("read a" + on);
      consumer.is_ok("export_read a");
      consumer.is_ok("look a 1 exported");
      consumer.is_ok("release a" + on);
      publish(other, 2);
    }
    other.is_ok("synchronize s");
    consumer.is_ok("synchronize exported");
  }
};

// R-CAI-11, R-SYNC-9.
TEST_P(DeviceExportedStreams, EndTheLease) { scenario(""); }

// R-CAI-11, R-SYNC-9: the control.
TEST_P(DeviceExportedStreams, RaceIfTheyAreNotJoined) {
  FAKECUDA_STAND_IN_ONLY();
  scenario("join the exported stream");
  expect_race("tk_fill", "tk_check");
}

INSTANTIATE_TEST_SUITE_P(Default, DeviceExportedStreams,
                         ::testing::Values(Work{"legacy", true}, Work{"legacy", false},
                                           Work{"per_thread", true}, Work{"per_thread", false}),
                         [](const auto& tested) {
                           return std::string(tested.param.lease_stream) +
                                  (tested.param.writes ? "_write" : "_read");
                         });

}  // namespace
}  // namespace memlease::testing
