// A program whose headers are not those of the library.
#include <memlease/memlease.h>

#include <string>

#include "gtest/gtest.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

class Versions : public ::testing::Test {
 protected:
  Versions() {
    options.directory = daemon.directory();
    options.start = false;
  }

  PrivateDaemon daemon;
  ConnectOptions options;
};

TEST_F(Versions, OfOneMinorVersionFit) {
  Client::connect(options).close();
  const std::string patched =
      std::to_string(MEMLEASE_VERSION_MAJOR) + "." + std::to_string(MEMLEASE_VERSION_MINOR) + ".99";
  Client::connect(options, patched.c_str()).close();
}

TEST_F(Versions, OfAnotherMinorVersionAreRefusedWithBoth) {
  for (const char* headers : {"0.0.9", "1000.1.0", "0.1000.0", ""}) {
    try {
      static_cast<void>(Client::connect(options, headers));
      ADD_FAILURE() << headers;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::VersionSkew);
      EXPECT_NE(error.message().find(std::string("memlease ") + headers), std::string::npos);
      EXPECT_NE(error.message().find(MEMLEASE_VERSION), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace memlease::testing
