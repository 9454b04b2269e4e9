// How a process opens an array once for all its threads, and what becomes of an opening that is
// interrupted, on fakes.
#include <exception>
#include <future>
#include <limits>
#include <memory>

#include "client/arrays/array_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_control.h"
#include "tests/support/fake_files.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::ErrorCode;

class ArrayTableTest : public ::testing::Test {
 protected:
  ArrayTableTest() {
    files->kinds = {{1, wire::FileKind::kBoard}};
    answer.id = wire::ArrayId{9};
    answer.spec.name = "a";
    answer.spec.slots = answer.spec.max_slots = 2;
    answer.slot_bytes = 64;
    answer.slots = {{wire::FileId{2}, 0}, {wire::FileId{2}, 64}};
    answer.board_record = {wire::FileId{1}, 0};
  }
  // The next fetch is not answered.
  void stop_files() { files->answers = files->fetches.load(); }
  void go_on() { files->answers = std::numeric_limits<int>::max(); }
  absl::StatusOr<std::shared_ptr<OpenArray>> join(InterruptCheck interrupt = kNoInterrupts) {
    return arrays->join(answer, interrupt);
  }
  static absl::Status ctrl_c() { return interrupted(std::make_exception_ptr(1)); }

  testing::Gates gates;
  testing::FakeImporter gpu{"GPU-1", gates};
  testing::FakeFiles* const files = new testing::FakeFiles;        // the session's
  testing::FakeControl* const control = new testing::FakeControl;  // likewise
  const std::shared_ptr<ArrayTable> arrays = std::make_shared<ArrayTable>(
      std::make_unique<Session>("/here", wire::SessionId{7}, std::unique_ptr<FileSource>(files),
                                std::unique_ptr<ControlPort>(control)),
      gpu);
  OpenAnswer answer;
};

TEST_F(ArrayTableTest, AnInterruptedOpeningIsGivenBackByTheNextCall) {
  stop_files();
  EXPECT_NE(interrupt_of(join(&ctrl_c).status()), nullptr);
  EXPECT_THAT(control->left, IsEmpty());
  go_on();
  EXPECT_TRUE(arrays->flush(kNoInterrupts).ok());
  EXPECT_THAT(control->left, ElementsAre(1));
  EXPECT_TRUE(join().ok());
}

TEST_F(ArrayTableTest, AnInterruptEndsTheWaitForAnotherThreadsOpening) {
  files->gates.shut("fetch");
  auto first = std::async(std::launch::async, [&] { return join().value(); });
  ASSERT_TRUE(files->gates.reached("fetch"));
  EXPECT_NE(interrupt_of(join(&ctrl_c).status()), nullptr);
  files->gates.open_all();
  const auto array = first.get();
  EXPECT_EQ(join().value(), array);
  EXPECT_TRUE(arrays->flush(kNoInterrupts).ok());
  EXPECT_THAT(control->left, ElementsAre(1)) << "the answer that was not joined";
}

TEST_F(ArrayTableTest, WhatItsOwnInterruptCheckOpensAgainIsRefused) {
  stop_files();
  const auto inside = [&] { return join().status(); };
  EXPECT_EQ(wire::code_of(join(inside).status()), ErrorCode::kBusy);
  go_on();
  EXPECT_TRUE(arrays->flush(kNoInterrupts).ok());
  EXPECT_THAT(control->left, ElementsAre(1, 1));
  EXPECT_TRUE(join().ok());
}

}  // namespace
}  // namespace memlease::internal
