#include "wire/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace memlease::wire {

bool hold_standard_descriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    const int access = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;  // not what it is used for
    const int fd = ::open("/dev/null", access | O_CLOEXEC);
    if (fd < 0) return false;
    if (fd > STDERR_FILENO) ::close(fd);  // another thread has taken the number meanwhile
  }
  return true;
}

}  // namespace memlease::wire
