#include <memory>

#include "client/ordering/kept_sources.h"
#include "gtest/gtest.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"

namespace memlease::internal {
namespace {

const Stream kStream = Stream::from_handle(16);

class KeptSourcesTest : public ::testing::Test {
 protected:
  std::shared_ptr<StreamMark> mark() { return *gpu.mark(kStream); }

  testing::Gates gates;
  testing::FakeImporter gpu{"GPU-1", gates};
  std::shared_ptr<int> source = std::make_shared<int>(1);
};

TEST_F(KeptSourcesTest, AreLetGoOfOnceTheyHaveBeenRead) {
  KeptSources kept;
  gpu.stall(kStream);
  kept.keep(mark(), source);
  EXPECT_EQ(source.use_count(), 2);
  kept.let_go();
  EXPECT_EQ(source.use_count(), 2) << "the GPU still reads it";
  gpu.resume();
  kept.let_go();
  EXPECT_EQ(source.use_count(), 1);
}

TEST_F(KeptSourcesTest, MayCallBackWhenTheyDie) {
  KeptSources kept;
  bool died = false;
  const auto call_back = [&](const bool* /*owner*/) {
    kept.let_go();  // as a destructor in Python may: no lock is held
    died = true;
  };
  kept.keep(mark(), std::shared_ptr<const void>(&died, call_back));
  kept.let_go();
  EXPECT_TRUE(died);
}

}  // namespace
}  // namespace memlease::internal
