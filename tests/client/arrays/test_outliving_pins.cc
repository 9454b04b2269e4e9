// Which pins release_views() finds, and who lets go of a slot where a pin ends meanwhile.
#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "client/arrays/outliving_pins.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memlease::internal {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class OutlivingPinsTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint32_t kPinned = 2;

  static std::byte* map_page() {
    void* const data = mmap(nullptr, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(data, MAP_FAILED);
    return static_cast<std::byte*>(data);
  }
  std::vector<OutlivingPins::Found> list() {
    return pins.list([this](std::uint32_t slot, const std::byte* data) {
      return slot == kPinned && data == ranges->data() ? ranges.get() : nullptr;
    });
  }
  // The pin, as release_views() finds it.
  OutlivingPins::Found found() {
    pins.add(pin);
    const auto all = list();
    EXPECT_THAT(all, SizeIs(1));
    return all.front();
  }

  const std::shared_ptr<MappedRanges> ranges =
      std::make_shared<MappedRanges>(map_page(), kPageBytes, kPageBytes, false);
  // Until it has been released, and unprotected, by whoever lets go of its slot.
  PinnedSlot pin{kPinned, ranges->data(), {ranges->data(), kPageBytes}};
  OutlivingPins pins;
};

TEST_F(OutlivingPinsTest, AreFoundWithTheirPlacesUntilTheyEnd) {
  EXPECT_THAT(list(), IsEmpty()) << "a pin of a lease that goes on";
  const auto known = found();
  EXPECT_EQ(known.slot, kPinned);
  EXPECT_EQ(known.data, pin.data);
  EXPECT_EQ(known.ranges, ranges);
  pins.remove(pin);
  EXPECT_THAT(list(), IsEmpty());
}

TEST_F(OutlivingPinsTest, AreLeftOutWhereTheirSlotIsInNoRanges) {
  PinnedSlot on_a_device{kPinned + 1, ranges->data()};
  pins.add(on_a_device);
  pins.add(pin);
  const auto all = list();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all.front().number, pin.number);
}

TEST_F(OutlivingPinsTest, OneThatIsReleasedLooksAtCopiesAndIsFoundNoMore) {
  const auto known = found();
  ASSERT_TRUE(pins.release(known));
  EXPECT_EQ(pin.state, PinnedSlot::State::kReleased);
  EXPECT_EQ(pin.copies, ranges);
  EXPECT_FALSE(pin.pages) << "they have been replaced";
  EXPECT_THAT(list(), IsEmpty());
  EXPECT_FALSE(pins.release(known)) << "its slot is given up once";
}

// It has said so, and has not come to its removal.
TEST_F(OutlivingPinsTest, OneThatIsAboutToEndLetsGoOfItsSlotItself) {
  const auto known = found();
  pin.state = PinnedSlot::State::kEnds;
  EXPECT_FALSE(pins.release(known));
  EXPECT_EQ(pin.state, PinnedSlot::State::kEnds);
  EXPECT_TRUE(pin.pages) << "it makes them writable yet";
  pins.remove(pin);
  EXPECT_THAT(list(), IsEmpty());
}

TEST_F(OutlivingPinsTest, OneThatHasEndedIsNotTakenForALaterOneInItsPlace) {
  const auto known = found();
  pins.remove(pin);
  EXPECT_FALSE(pins.release(known));
  const auto later = found();
  EXPECT_FALSE(pins.release(known));
  EXPECT_EQ(pin.state, PinnedSlot::State::kHolds);
  EXPECT_TRUE(pins.release(later));
}

}  // namespace
}  // namespace memlease::internal
