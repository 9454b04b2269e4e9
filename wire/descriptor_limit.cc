#include "wire/descriptor_limit.h"

#include <sys/resource.h>

#include "fmt/format.h"

namespace memlease::wire {

std::string raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("raise the limit of open files, which is {} (ulimit -n)", limit.rlim_cur);
}

}  // namespace memlease::wire
