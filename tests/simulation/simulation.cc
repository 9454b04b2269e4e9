#include "tests/simulation/simulation.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "rapidcheck/shrink/Shrink.h"
#include "rapidcheck/shrinkable/Create.h"
#include "rapidcheck/shrinkable/Operations.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/violation.h"

namespace memlease::simulation {

std::optional<Failure> run(const Setup& setup, std::span<const Command> commands, Lie lie,
                           const OnStep& on_step) {
  World world(setup, lie);
  Invariants invariants;
  std::size_t step = 0;
  try {
    for (const Command& command : commands) {
      all_kinds()[command.kind].run(world, command);
      world.give_back();
      invariants.check(world);
      if (on_step) on_step(command, digest_of(world));
      ++step;
    }
    world.finish();
    world.give_back();
    Invariants::check_end(world);
  } catch (const Violation& violation) {
    return Failure{violation.what(), step};
  }
  return std::nullopt;
}

std::optional<Failure> run(std::uint64_t seed, Lie lie) {
  return run(setup_of(seed), commands_of(seed), lie);
}

std::vector<Command> shrink(const Setup& setup, std::vector<Command> commands, Lie lie) {
  // What comes after it does not matter.
  if (const auto failure = run(setup, commands, lie)) {
    commands.resize(std::min(commands.size(), failure->step + 1));
  }
  const auto shorter = [](const std::vector<Command>& all) {
    return rc::shrink::removeChunks(all);
  };
  const auto all = rc::shrinkable::shrinkRecur(std::move(commands), shorter);
  const auto fails = [&](const std::vector<Command>& some) {
    return run(setup, some, lie).has_value();
  };
  return rc::shrinkable::findLocalMin(all, fails).first;
}

std::string report_of(std::uint64_t seed, const Failure& failure, Lie lie) {
  const Setup setup = setup_of(seed);
  const std::vector<Command> few = shrink(setup, commands_of(seed), lie);
  std::string report = fmt::format("seed {} fails after step {}: {}\n{} steps are enough:\n", seed,
                                   failure.step + 1, failure.what, few.size());
  for (const Command& command : few) report += fmt::format("  {}\n", to_words(command));
  const auto shortest = run(setup, few, lie);
  return report + (shortest ? shortest->what : "it does not fail so any more") + "\n";
}

}  // namespace memlease::simulation
