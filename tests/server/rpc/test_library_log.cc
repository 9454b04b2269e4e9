#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "memlease/v1/control.pb.h"
#include "server/rpc/library_log.h"
#include "tests/server/telemetry/log_pipe.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LibraryLogTest : public LogPipe {
 protected:
  // As a peer may send it: text that is no UTF-8.
  static void parse_nonsense() { v1::ListRequest().ParseFromString("\x0a\x02\xff\xfe"); }
};

TEST_F(LibraryLogTest, WhatGrpcSaysHasTheLogsForm) {
  Log log(LogLevel::kInfo, LogFormat::kJournal, write_.get());
  const LibraryLog libraries(log);
  gpr_log(GPR_ERROR, "no thread for \"%s\"", "x");
  EXPECT_EQ(written(), "<3>message of a library library=grpc text=\"no thread for \\\"x\\\"\"\n");
}

// They come while there are some more or less of the period's lines left: one test for all.
TEST_F(LibraryLogTest, WhatProtobufSaysHasTheLogsFormAndItsLimits) {
  {
    Log log(LogLevel::kInfo, LogFormat::kJson, write_.get());
    const LibraryLog libraries(log);
    for (int i = 0; i < 100; ++i) parse_nonsense();
    const std::string lines = written();
    EXPECT_THAT(lines, HasSubstr(R"("event":"message of a library","library":"protobuf",)"));
    EXPECT_THAT(lines, MatchesRegex("(\\{[^\n]*\\}\n)+"));
    EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 5);
  }
  parse_nonsense();
  EXPECT_EQ(written(), "") << "the log has ended";
}

}  // namespace
}  // namespace memlease::server
