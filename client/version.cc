#include <memlease/version.h>

namespace memlease {

const char* version() noexcept { return MEMLEASE_VERSION; }

}  // namespace memlease
