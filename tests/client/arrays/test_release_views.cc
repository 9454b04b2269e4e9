// Whose slots release_views() takes, and what the views see from then on, on fakes.
#include <cstddef>
#include <memory>

#include "client/arrays/pin.h"
#include "client/arrays/release_views.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"

namespace memlease::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kPublished = 1;  // of version 1

class ReleaseViewsTest : public ::testing::Test, protected testing::ArrayWorld {
 protected:
  ReleaseViewsTest() {
    auto mapped = owner->session().mappings().get(
        answer.slots[kPublished].file, wire::FileKind::kSegment, kNoInterrupts, Access::kWrite);
    EXPECT_TRUE(mapped.ok()) << mapped.status();
    segment = *mapped;
    bytes() = std::byte{1};
    publish_elsewhere();
    EXPECT_TRUE(array->map_writer_row(kWriter, kNoInterrupts).ok());
  }
  // What another process has written there.
  std::byte& bytes() const { return segment->data()[answer.slots[kPublished].offset]; }
  // A lease that has a pin.
  Pin lease() {
    const auto reader = array->reader(kNoInterrupts);
    EXPECT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->acquire(0, 0).slot, kPublished);
    return make_pin(*array, kPublished, array->read_data(kPublished));
  }
  void end_lease(const Pin& pin) {
    array->end_read(kPublished);
    end_lease_of(*array, pin);
  }
  static std::byte seen(const Pin& pin) { return *static_cast<const std::byte*>(pin.get()); }
  std::uint32_t holds() { return row<wire::ReaderRow>(kOwnReader).holds()[kPublished].load(); }

  std::shared_ptr<Mapping> segment;
  std::shared_ptr<OpenArray> array = open();
};

TEST_F(ReleaseViewsTest, AViewKeepsWhatItSawInACopy) {
  const Pin pin = lease();
  end_lease(pin);
  EXPECT_EQ(holds(), 1U);
  ASSERT_TRUE(release_views(*array).ok());
  EXPECT_EQ(holds(), 0U);
  bytes() = std::byte{2};
  EXPECT_EQ(seen(pin), std::byte{1});
  EXPECT_NE(array->read_data(kPublished), pin.get()) << "leases look elsewhere from then on";
  EXPECT_EQ(*array->read_data(kPublished), std::byte{2});
}

TEST_F(ReleaseViewsTest, AViewThatHasBeenReleasedGivesNothingUpWhenItDies) {
  Pin pin = lease();
  end_lease(pin);
  ASSERT_TRUE(release_views(*array).ok());
  const Pin next = lease();
  pin.reset();
  EXPECT_EQ(holds(), 2U) << "the lease's, and its pin's";
  end_lease(next);
}

TEST_F(ReleaseViewsTest, ALeaseThatGoesOnKeepsItsSlot) {
  const Pin pin = lease();
  ASSERT_TRUE(release_views(*array).ok());
  EXPECT_EQ(holds(), 2U);
  bytes() = std::byte{2};
  EXPECT_EQ(seen(pin), std::byte{2});
  end_lease(pin);
}

TEST_F(ReleaseViewsTest, AllViewsOfASlotAreReleasedAtOnce) {
  const Pin first = lease();
  end_lease(first);
  const Pin second = lease();
  end_lease(second);
  EXPECT_EQ(holds(), 2U);
  ASSERT_TRUE(release_views(*array).ok());
  EXPECT_EQ(holds(), 0U);
  bytes() = std::byte{2};
  EXPECT_EQ(seen(first), std::byte{1});
  EXPECT_EQ(seen(second), std::byte{1});
}

TEST_F(ReleaseViewsTest, AClosedArrayIsLeftWithItsLastView) {
  const Pin pin = lease();
  end_lease(pin);
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  EXPECT_THAT(control->left, IsEmpty());
  ASSERT_TRUE(release_views(*array).ok());
  EXPECT_THAT(control->left, ElementsAre(1));
  EXPECT_EQ(seen(pin), std::byte{1});
}

TEST_F(ReleaseViewsTest, WhoHasNotReadHasNone) {
  EXPECT_TRUE(release_views(*array).ok());
  EXPECT_EQ(control->calls(), 0U);
}

}  // namespace
}  // namespace memlease::internal
