#include "tests/support/fakecuda/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace fakecuda {

void wait_a_little(const std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const timespec limit = {0, 2'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void bump(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1);
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace fakecuda
