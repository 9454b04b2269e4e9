#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contract/broken_device.h"
#include "tests/contract/device_contract.h"

namespace memlease::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Case {
  std::string name;
  DeviceFlaw flaw;
  std::string found;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"Sizes", DeviceFlaw::kOddSizes, "no multiples"},
    {"Alignment", DeviceFlaw::kAlignment, "less than 256"},
    {"Size", DeviceFlaw::kWrongSize, "another one than was asked for"},
    {"Descriptor", DeviceFlaw::kDescriptor, "has a descriptor"},
    {"Map", DeviceFlaw::kDaemonMaps, "maps a segment"},
    {"NoHandle", DeviceFlaw::kNoHandle, "has no handle"},
    {"OneHandle", DeviceFlaw::kOneHandle, "two segments have one handle"},
    {"Zero", DeviceFlaw::kNotZeroed, "fresh bytes are not zero"},
    {"Used", DeviceFlaw::kUsedNotZeroed, "used bytes are not zero"},
    {"Shared", DeviceFlaw::kSharedBytes, "share bytes"},
    {"Endless", DeviceFlaw::kEndless, "is not OutOfMemory"},
    {"Exhausted", DeviceFlaw::kExhausted, "no memory at all"},
};

class BrokenDeviceContract : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, BrokenDeviceContract, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

TEST_P(BrokenDeviceContract, IsFoundOut) {
  BrokenDevice device(GetParam().flaw);
  EXPECT_THAT(violations_of(device, device), Contains(HasSubstr(GetParam().found)));
}

TEST(BrokenDevice, WithoutItsFlawKeepsTheContract) {
  BrokenDevice device(DeviceFlaw::kNone);
  EXPECT_THAT(violations_of(device, device), IsEmpty());
}

}  // namespace
}  // namespace memlease::testing
