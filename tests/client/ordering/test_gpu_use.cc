// What an array on a GPU has open is not closed under its work.
#include <memory>
#include <utility>

#include "client/ordering/gpu_order.h"
#include "client/ordering/gpu_use.h"
#include "tests/client/ordering/ordering_world.h"

namespace memlease::internal {
namespace {

class GpuUseTest : public OrderingWorld {
 protected:
  GpuUse use() {
    GpuUse use;
    use.order = *GpuOrder::open(gpu, imports, known(), kNoInterrupts);
    use.memory.push_back(memory);
    return use;
  }
  // Work that goes on until resume().
  void begin_work(GpuUse& use) {
    gpu.stall(kOurs);
    ASSERT_TRUE(use.order->versions().record(0, kOurs, [] { return absl::OkStatus(); }).ok());
  }

  // Also in the hands of whatever keeps it.
  const std::shared_ptr<const int> memory = std::make_shared<const int>(0);
};

TEST_F(GpuUseTest, WhatIsAssignedToIsClosedIfItsWorkIsOver) {
  GpuUse assigned = use();
  begin_work(assigned);
  gpu.resume();
  assigned = use();
  EXPECT_EQ(memory.use_count(), 2);
  assigned = {};
  EXPECT_EQ(memory.use_count(), 1);
}

TEST_F(GpuUseTest, WhatIsAssignedToStaysOpenWhileItsWorkGoesOn) {
  // The process would keep both until it exits.
  static std::shared_ptr<const int> kept_memory = memory;
  GpuUse assigned = use();
  begin_work(assigned);
  GpuOrder* const kept_order = assigned.order.get();
  assigned = {};
  EXPECT_EQ(assigned.order, nullptr);
  EXPECT_EQ(memory.use_count(), 3) << "the test's two, and one that is kept";
  imports.close_unused();
  EXPECT_FALSE(kept_order->complete());
  gpu.resume();
  EXPECT_TRUE(kept_order->complete());
  const std::unique_ptr<GpuOrder> taken_back(kept_order);
}

TEST_F(GpuUseTest, AssignedToItselfItStays) {
  GpuUse assigned = use();
  GpuUse& itself = assigned;
  assigned = std::move(itself);
  EXPECT_EQ(memory.use_count(), 2);
  EXPECT_NE(assigned.order, nullptr);
}

}  // namespace
}  // namespace memlease::internal
