#include "tests/simulation/command.h"

#include <algorithm>
#include <iterator>

#include "fmt/format.h"
#include "rapidcheck/Random.h"

namespace memlease::simulation {
namespace {

constexpr std::size_t kCommands = 200;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// One of these, as the next bits of the number say.
template <typename T, std::size_t N>
T choose(std::uint64_t& number, const T (&of)[N]) {
  const T chosen = of[number % N];
  number /= N;
  return chosen;
}

}  // namespace

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> all = [] {
    std::vector<Kind> kinds;
    for (const auto part : {session_kinds(), array_kinds(), lease_kinds(), daemon_kinds()}) {
      kinds.insert(kinds.end(), part.begin(), part.end());
    }
    return kinds;
  }();
  return all;
}

void choose_limits(std::uint64_t number, Setup& setup) {
  server::Broker::Limits& limits = setup.limits;
  limits.per_uid.bytes = choose<std::uint64_t>(number, {0, 0, 4 * kMiB, 12 * kMiB});
  limits.per_uid.arrays = choose<std::uint64_t>(number, {0, 0, 3, 6});
  limits.per_uid.sessions = choose<std::uint64_t>(number, {0, 0, 2});
  limits.per_uid.descriptors = choose<std::uint64_t>(number, {0, 0, 25, 60});
  limits.supply.descriptors = choose<std::uint64_t>(number, {0, 0, 64, 256});
  limits.supply.own_uid = 900;  // no process here has it
  limits.memory.memory_bytes = choose<std::uint64_t>(number, {0, 6 * kMiB, 24 * kMiB});
  limits.memory.warm_bytes = choose<std::uint64_t>(number, {0, 2 * kMiB, 64 * kMiB});
  setup.gpu_limits.uid_bytes = choose<std::uint64_t>(number, {0, 6 * kMiB});
  setup.gpu_limits.memory.memory_bytes = choose<std::uint64_t>(number, {0, 10 * kMiB});
  setup.gpu_limits.memory.warm_bytes = limits.memory.warm_bytes;
}

Setup setup_of(std::uint64_t seed) {
  rc::Random random(seed);
  random = random.split();  // commands_of() has the other half
  Setup setup;
  std::uint64_t number = random.next();
  setup.limits.arrays_per_slice = choose<std::size_t>(number, {1, 2, 64});
  setup.limits.file_numbers = choose<std::uint32_t>(number, {24, 60, wire::kMaxFileId});
  choose_limits(number, setup);
  return setup;
}

std::vector<Command> commands_of(std::uint64_t seed) {
  rc::Random random(seed);
  random.split();
  static const std::vector<std::uint32_t> kinds = [] {
    std::vector<std::uint32_t> by_weight;
    for (std::uint32_t i = 0; i < all_kinds().size(); ++i) {
      by_weight.insert(by_weight.end(), all_kinds()[i].weight, i);
    }
    return by_weight;
  }();
  std::vector<Command> commands(kCommands);
  for (Command& command : commands) {
    const std::uint64_t number = random.next();
    const auto part = [number](unsigned from, unsigned bits) {
      return static_cast<std::uint32_t>(number >> from & ((std::uint64_t{1} << bits) - 1));
    };
    command = {kinds[part(0, 16) % kinds.size()], part(16, 8), part(24, 20), part(44, 20)};
  }
  return commands;
}

std::string to_words(const Command& command) {
  return fmt::format("{} (process {}, what {}, how {})", all_kinds()[command.kind].words,
                     command.who, command.what, command.how);
}

}  // namespace memlease::simulation
