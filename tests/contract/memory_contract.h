// What every DeviceBackend and PageSource promises, as checks that can be run on any of them: on
// the real ones, on the fake, and on broken ones, which must not get by. Needs root, since one
// check is made as another uid.
#pragma once

#include <string>
#include <vector>

#include "server/core/device_backend.h"
#include "server/core/page_source.h"

namespace memlease::testing {

// In words, what the implementation does not keep; empty if it keeps everything.
std::vector<std::string> violations_of(server::DeviceBackend& backend);
std::vector<std::string> violations_of(server::PageSource& source);

}  // namespace memlease::testing
