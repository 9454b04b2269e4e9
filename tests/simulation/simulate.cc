// Runs simulations of the daemon's core: simulate FIRST COUNT, the seeds from FIRST on; and
// simulate SEED, one of them, step by step. Exits with 1 where one fails, and says how.
#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fmt/format.h"
#include "tests/simulation/simulation.h"

namespace memlease::simulation {
namespace {

bool parse(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  return error == std::errc{} && end == text.end();
}

bool passes(std::uint64_t seed, const std::optional<Failure>& failure) {
  if (!failure) return true;
  fmt::print("{}", report_of(seed, *failure));
  return false;
}

bool replay(std::uint64_t seed) {
  const auto show = [step = 0](const Command& command, std::uint64_t digest) mutable {
    fmt::print("{:4} {:016x} {}\n", ++step, digest, to_words(command));
  };
  return passes(seed, run(setup_of(seed), commands_of(seed), Lie::kNone, show));
}

int simulate(int argc, char** argv) {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  if (argc < 2 || argc > 3 || !parse(argv[1], first) || (argc == 3 && !parse(argv[2], count))) {
    fmt::print(stderr, "usage: simulate FIRST COUNT | simulate SEED\n");
    return 2;
  }
  // Pages come and go: from the heap, which keeps them, that takes a third of the time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (argc == 2) return replay(first) ? 0 : 1;
  std::ptrdiff_t jumps = 0;
  for (std::uint64_t seed = first; seed - first < count; ++seed) {
    if (!passes(seed, run(seed))) return 1;
    jumps += std::ranges::count_if(commands_of(seed), is_jump);
  }
  fmt::print("{} seeds from {} on, {} jumps of a clock\n", count, first, jumps);
  return 0;
}

}  // namespace
}  // namespace memlease::simulation

int main(int argc, char** argv) { return memlease::simulation::simulate(argc, argv); }
