// What a log has written, by a pipe that does not block.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"
#include "wire/unique_fd.h"

namespace memlease::server {

class LogPipe : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    read_.reset(ends[0]);
    write_.reset(ends[1]);
  }
  std::string written() {
    char text[65536];
    const ssize_t size = ::read(read_.get(), text, sizeof text);
    return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
  }

  wire::UniqueFd read_;
  wire::UniqueFd write_;
};

}  // namespace memlease::server
