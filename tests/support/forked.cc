#include "tests/support/forked.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "fmt/format.h"

namespace memlease::testing {

std::string in_forked_child(const std::function<std::string()>& fn) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    std::string result;
    try {
      result = fn();
    } catch (const std::exception& error) {
      result = error.what();
    }
    _exit(write(ends[1], result.data(), result.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  char buffer[1024];
  const ssize_t size = read(ends[0], buffer, sizeof buffer);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (size <= 0 || status != 0) return fmt::format("the child ended with status {}", status);
  return {buffer, static_cast<std::size_t>(size)};
}

}  // namespace memlease::testing
