#include "tests/support/forked.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <utility>

#include "fmt/format.h"

namespace memlease::testing {

namespace {

struct Pipe {
  Pipe() {
    if (pipe(ends) != 0) std::abort();
  }
  int ends[2];
};

[[noreturn]] void report(int to, const std::function<std::string()>& fn) {
  std::string result;
  try {
    result = fn();
  } catch (const std::exception& error) {
    result = error.what();
  }
  _exit(write(to, result.data(), result.size()) < 0 ? 1 : 0);
}

std::string result_of(pid_t child, int from) {
  char buffer[1024];
  const ssize_t size = read(from, buffer, sizeof buffer);
  close(from);
  int status = 0;
  waitpid(child, &status, 0);
  if (size <= 0 || status != 0) return fmt::format("the child ended with status {}", status);
  return {buffer, static_cast<std::size_t>(size)};
}

}  // namespace

std::string in_forked_child(const std::function<std::string()>& fn) {
  const Pipe results;
  const pid_t child = fork();
  if (child == 0) report(results.ends[1], fn);
  close(results.ends[1]);
  return result_of(child, results.ends[0]);
}

std::vector<std::string> in_forked_children(int count, const std::function<std::string()>& fn) {
  const Pipe gate;
  std::vector<std::pair<pid_t, int>> children;
  for (int i = 0; i < count; ++i) {
    const Pipe results;
    const pid_t child = fork();
    if (child == 0) {
      close(gate.ends[1]);
      char opened = 0;
      if (read(gate.ends[0], &opened, 1) == 0) report(results.ends[1], fn);
      _exit(1);
    }
    close(results.ends[1]);
    children.emplace_back(child, results.ends[0]);
  }
  close(gate.ends[1]);
  close(gate.ends[0]);
  std::vector<std::string> results;
  results.reserve(children.size());
  for (const auto& [child, from] : children) results.push_back(result_of(child, from));
  return results;
}

}  // namespace memlease::testing
