// What configure() reads, for one test: an environment and a file of its own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/config/configure.h"
#include "tests/support/temporary_folder.h"

namespace memlease::server {

// Runs configure() as if started in folder_, with its own environment and, for file(), its own
// file.
class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() {
    environment_["XDG_CONFIG_HOME"] = folder_;
    environment_["XDG_RUNTIME_DIR"] = "/run/user/7";
  }

  // Writes the file that is read by default.
  std::string file(const std::string& text) {
    std::filesystem::create_directories(folder_ + "/memlease");
    const std::string path = folder_ + "/memlease/memleased.toml";
    std::ofstream(path) << text;
    return path;
  }

  Startup run(std::vector<const char*> arguments = {}) const {
    arguments.insert(arguments.begin(), "memleased");
    return configure(arguments, environment(), folder_);
  }

  // By a daemon that has left the folder.
  absl::StatusOr<Reload> reread(const Config& now, std::vector<const char*> arguments = {}) const {
    arguments.insert(arguments.begin(), "memleased");
    return reload(now, arguments, environment(), folder_);
  }

  Environment environment() const {
    return [this](const char* name) -> const char* {
      const auto found = environment_.find(name);
      return found == environment_.end() ? nullptr : found->second.c_str();
    };
  }

  Config config(std::vector<const char*> arguments = {}) const {
    const Startup startup = run(std::move(arguments));
    EXPECT_TRUE(startup.config.has_value()) << startup.error;
    return startup.config.value_or(Config{});
  }

  const memlease::testing::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  std::map<std::string, std::string> environment_;
};

}  // namespace memlease::server
