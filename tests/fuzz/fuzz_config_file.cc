// The daemon's file of settings: it is read, or refused with a reason that names the file.
#include <string>

#include "server/config/config_option.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto settings = memlease::server::read_settings(text, "/memleased.toml");
  memlease::testing::require(
      settings.ok() || settings.status().message().find("/memleased.toml") == 0,
      "a refusal names the file");
  return 0;
}
