// The table in which a signal handler looks for the array that an address belongs to.
#include <array>
#include <cstddef>
#include <list>

#include "client/arrays/fault_table.h"
#include "gtest/gtest.h"

namespace memlease::internal {
namespace {

// Has some bytes, and is in the table as long as it lives.
class FakeArray final : public FaultTable::Array {
 public:
  explicit FakeArray(const char* name) : name_(name) { FaultTable::add(*this); }
  ~FakeArray() override { FaultTable::remove(*this); }
  FakeArray(const FakeArray&) = delete;
  FakeArray& operator=(const FakeArray&) = delete;

  bool find_place(const void* address, FaultTable::Place& place) const override {
    if (address < bytes.data() || address >= bytes.data() + bytes.size()) return false;
    place.array = name_;
    return true;
  }

  std::array<std::byte, 8> bytes{};

 private:
  const char* const name_;
};

TEST(FaultTable, AnAddressBelongsToOneArrayOrToNone) {
  const FakeArray a("a"), b("b");
  EXPECT_STREQ(FaultTable::find(&a.bytes[0]).array, "a");
  EXPECT_STREQ(FaultTable::find(&b.bytes[7]).array, "b");
  const std::byte elsewhere{};
  EXPECT_EQ(FaultTable::find(&elsewhere).array, nullptr);
}

TEST(FaultTable, ArraysBeyondItsSizeAreNotFoundAndHarmNobody) {
  constexpr std::size_t kMore = 5000;  // than it has entries
  std::list<FakeArray> arrays;
  for (std::size_t i = 0; i < kMore; ++i) arrays.emplace_back("a");
  EXPECT_STREQ(FaultTable::find(arrays.front().bytes.data()).array, "a");
  EXPECT_EQ(FaultTable::find(arrays.back().bytes.data()).array, nullptr);
  arrays.pop_back();
  EXPECT_STREQ(FaultTable::find(arrays.front().bytes.data()).array, "a") << "it took no entry";
  arrays.pop_front();
  {
    const FakeArray next("c");
    EXPECT_STREQ(FaultTable::find(next.bytes.data()).array, "c") << "in the one that is free";
  }
  arrays.clear();
  const FakeArray next("b");
  EXPECT_STREQ(FaultTable::find(next.bytes.data()).array, "b");
}

}  // namespace
}  // namespace memlease::internal
