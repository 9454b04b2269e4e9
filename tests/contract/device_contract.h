// What a DeviceBackend promises whose memory other processes open by handles, as checks
// that can be run on any of them: on GPUs, and on broken ones, which must not get by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/core/device_backend.h"

namespace memlease::testing {

// Another process on the device. Each call opens what it is about and closes it.
class Neighbour {
 public:
  virtual ~Neighbour() = default;
  // How many words of 8 bytes are not `expected`; none: the memory could not be opened.
  virtual std::optional<std::uint64_t> differing(const wire::DeviceHandle& memory,
                                                 std::uint64_t words, std::uint64_t expected) = 0;
  // Complete when it returns.
  virtual bool fill(const wire::DeviceHandle& memory, std::uint64_t words, std::uint64_t value) = 0;
};

// In words, what the backend does not keep; empty if it keeps everything.
std::vector<std::string> violations_of(server::DeviceBackend& backend, Neighbour& neighbour);

}  // namespace memlease::testing
