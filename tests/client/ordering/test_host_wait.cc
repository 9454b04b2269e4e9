// Waits of the host for a stream: what ends them, and what they do without a mark.
#include <chrono>
#include <future>
#include <memory>

#include "client/ordering/host_wait.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

// As one that has no memory for a mark.
class GpuWithoutMarks : public testing::FakeImporter {
 public:
  using FakeImporter::FakeImporter;
  absl::StatusOr<std::unique_ptr<StreamMark>> mark(Stream stream) override {
    if (has_marks) return FakeImporter::mark(stream);
    return wire::make_error(wire::ErrorCode::kOutOfMemory, "there is no room for a mark", "");
  }
  bool has_marks = true;
};

class HostWaitTest : public ::testing::Test {
 protected:
  static inline const Stream kAwaited = Stream::from_handle(16);
  static inline const Stream kBeside = Stream::from_handle(17);

  std::future<absl::Status> wait() {
    return std::async(std::launch::async, [this] { return finish(gpu, kAwaited); });
  }
  static bool goes_on(const std::future<absl::Status>& waiting) {
    return waiting.wait_for(std::chrono::milliseconds(5)) == std::future_status::timeout;
  }
  // A question that ends a wait when it is asked for the third time.
  absl::Status ask() {
    if (++asked < 3) return absl::OkStatus();
    return wire::make_error(wire::ErrorCode::kInterrupted, "the test ends the wait", "");
  }

  testing::Gates gates;
  GpuWithoutMarks gpu{"GPU-1", gates};
  int asked = 0;
};

TEST_F(HostWaitTest, LastsAsLongAsTheStreamsWorkAndNoOther) {
  gpu.stall(kAwaited);
  auto waiting = wait();
  EXPECT_TRUE(goes_on(waiting));
  gpu.resume();
  EXPECT_TRUE(waiting.get().ok());
  gpu.stall(kBeside);
  EXPECT_TRUE(finish(gpu, kAwaited).ok());
}

TEST_F(HostWaitTest, ThatMayLastEndsWithWhatItIsToldWhenItAsks) {
  gpu.stall(kAwaited);
  auto waiting =
      std::async(std::launch::async, [&] { return finish(gpu, kAwaited, [&] { return ask(); }); });
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_FALSE(*(*gpu.mark(kAwaited))->complete());
  gpu.resume();
  EXPECT_EQ(wire::code_of(waiting.get()), wire::ErrorCode::kInterrupted);
  EXPECT_EQ(asked, 3);
}

TEST_F(HostWaitTest, ForWhatIsOverAsksNobody) {
  asked = 2;
  EXPECT_TRUE(finish(gpu, kAwaited, [&] { return ask(); }).ok());
}

TEST_F(HostWaitTest, ForACallersStreamThatCapturesAGraphIsRefused) {
  gpu.capture(kAwaited);
  const auto refused = finish(gpu, kAwaited, [&] { return ask(); });
  EXPECT_EQ(wire::code_of(refused), wire::ErrorCode::kInvalidArgument);
  EXPECT_EQ(gpu.captured_count(), 0U) << "a mark would be one of the graph's";
}

TEST_F(HostWaitTest, WithoutAMarkIsForTheWholeDevice) {
  gpu.stall(kBeside);
  gpu.has_marks = false;
  auto waiting = wait();
  EXPECT_TRUE(goes_on(waiting));
  gpu.resume();
  EXPECT_TRUE(waiting.get().ok());
}

TEST_F(HostWaitTest, EndsWithTheDevice) {
  gpu.stall(kAwaited);
  auto waiting = wait();
  EXPECT_TRUE(testing::eventually([&] { return gpu.mark_count() == 1; })) << "it looks at no mark";
  gpu.fail();
  EXPECT_TRUE(device_failed(waiting.get()));
  EXPECT_TRUE(device_failed(finish(gpu, kAwaited)));
}

TEST_F(HostWaitTest, OnlyAnInternalErrorIsTheDevices) {
  EXPECT_FALSE(device_failed(absl::OkStatus()));
  EXPECT_FALSE(device_failed(wire::make_error(wire::ErrorCode::kInterrupted, "stopped", "")));
  EXPECT_TRUE(device_failed(wire::make_error(wire::ErrorCode::kInternal, "failed", "")));
}

}  // namespace
}  // namespace memlease::internal
