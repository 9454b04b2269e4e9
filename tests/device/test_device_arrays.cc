// GPU arrays between processes: the same bytes for all, ordered on the GPU.
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

using ::testing::StartsWith;

class DeviceArrays : public DeviceTest {};

TEST_F(DeviceArrays, WhatOneProcessWritesAnotherReads) {
  Client writer(daemon);
  EXPECT_THAT(writer.is_ok("create a 3 1000 cuda:0"), StartsWith("GPU-"));
  writer.is_ok("write a s");
  writer.is_ok("fill a 7 s");
  EXPECT_EQ(writer.is_ok("publish a"), "1");
  Client reader(daemon);
  EXPECT_EQ(reader.is_ok("read a r"), "1 1");
  reader.is_ok("look a 7 r");
  reader.is_ok("release a");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

TEST_F(DeviceArrays, TheReadersStreamWaitsAndTheHostDoesNot) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  writer.is_ok("gate s");
  writer.is_ok("write a s");
  writer.is_ok("fill a 7 s");
  writer.is_ok("publish a");
  reader.is_ok("read a r");
  reader.is_ok("look a 7 r");
  reader.is_ok("release a");
  EXPECT_EQ(reader.is_ok("idle r"), "0");
  writer.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

TEST_F(DeviceArrays, TheWritersStreamWaitsForReadersThatHaveLetGo) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  for (int value = 1; value <= 2; ++value) {
    writer.is_ok("write a s");
    writer.is_ok("fill a " + std::to_string(value) + " s");
    writer.is_ok("publish a");
    if (value == 1) {
      reader.is_ok("read a r");
      reader.is_ok("gate r");
      reader.is_ok("look a 1 r");
      reader.is_ok("release a");
    }
  }
  EXPECT_EQ(writer.is_ok("write a s"), "3 1");  // the slot that the reader had
  writer.is_ok("fill a 3 s");
  writer.is_ok("publish a");
  EXPECT_EQ(writer.is_ok("idle s"), "0");
  reader.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  writer.is_ok("synchronize s");
}

}  // namespace
}  // namespace memlease::testing
