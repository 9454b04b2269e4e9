// Where the work of two streams ends, and what is known where no such end can be recorded.
#include <chrono>
#include <future>

#include "client/ordering/work_end.h"
#include "gtest/gtest.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

class WorkEndTest : public ::testing::Test {
 protected:
  static inline const Stream kTheirs = Stream::from_handle(16);
  static inline const Stream kView = Stream::from_handle(0x100);

  bool is_over(Stream stream) { return *(*gpu.mark(stream))->complete(); }
  std::future<bool> wait(const WorkEnd& end) {
    return std::async(std::launch::async, [this, end] { return host_wait_all(gpu, end); });
  }

  testing::Gates gates;
  testing::FakeImporter gpu{"GPU-1", gates};
};

TEST_F(WorkEndTest, IsUnknownIfTheCallersStreamIs) {
  EXPECT_EQ(join(gpu, {}).value(), Stream());
  EXPECT_EQ(join(gpu, {{}, kView}).value(), Stream());
}

TEST_F(WorkEndTest, OfOneStreamIsThereUnchecked) {
  gpu.capture(kTheirs);
  EXPECT_EQ(join(gpu, {kTheirs, {}}).value(), kTheirs);
  EXPECT_EQ(join(gpu, {kTheirs, kTheirs}).value(), kTheirs);
  EXPECT_EQ(gpu.captured_count(), 0U);
}

TEST_F(WorkEndTest, OfTwoStreamsIsInTheLibrarysBehindBoth) {
  gpu.stall(kTheirs);
  EXPECT_EQ(join(gpu, {kTheirs, kView}).value(), kView);
  EXPECT_FALSE(is_over(kView));
  gpu.resume();
  EXPECT_TRUE(is_over(kView));
}

TEST_F(WorkEndTest, MakesTheCallersStreamNotWait) {
  gpu.stall(kView);
  ASSERT_TRUE(join(gpu, {kTheirs, kView}).ok());
  EXPECT_TRUE(is_over(kTheirs));
}

TEST_F(WorkEndTest, IsNowhereWhereAStreamOfTwoCapturesAGraph) {
  gpu.capture(kTheirs);
  for (const WorkEnd& end : {WorkEnd{kTheirs, kView}, WorkEnd{kView, kTheirs}}) {
    EXPECT_EQ(wire::code_of(join(gpu, end).status()), wire::ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(gpu.captured_count(), 0U);
}

TEST_F(WorkEndTest, MayBeYetToComeAfterAnyErrorButTheDevices) {
  EXPECT_FALSE(work_unknown(absl::OkStatus()));
  EXPECT_FALSE(work_unknown(wire::make_error(wire::ErrorCode::kInternal, "the GPU failed", "")));
  for (const auto code : {wire::ErrorCode::kInvalidArgument, wire::ErrorCode::kInterrupted,
                          wire::ErrorCode::kDaemonLost}) {
    EXPECT_TRUE(work_unknown(wire::make_error(code, "the wait ended", "")));
  }
}

TEST_F(WorkEndTest, OfAllIsWaitedForByTheHost) {
  gpu.stall(Stream::from_handle(99));  // the device's, whichever stream it is
  auto waiting = wait({kTheirs, {}});
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(5)), std::future_status::timeout);
  gpu.resume();
  EXPECT_TRUE(waiting.get());
}

// A graph would be lost.
TEST_F(WorkEndTest, IsNotWaitedForWhereAStreamCapturesAGraph) {
  gpu.capture(kTheirs);
  gpu.stall(kView);
  for (const WorkEnd& end : {WorkEnd{kTheirs, kView}, WorkEnd{kView, kTheirs}}) {
    auto waiting = wait(end);
    EXPECT_EQ(waiting.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    gpu.resume();
    EXPECT_FALSE(waiting.get());
    gpu.stall(kView);
  }
}

TEST_F(WorkEndTest, OfAFailedDeviceHasCome) {
  gpu.stall(kTheirs);
  gpu.fail();
  EXPECT_TRUE(host_wait_all(gpu, {kTheirs, {}}));
}

}  // namespace
}  // namespace memlease::internal
