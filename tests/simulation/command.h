// One step of a simulation, as a number says it: what happens, to whom, and how. Every command can
// follow every other one: where there is nobody to do it, nothing happens. So any part of a list of
// commands is such a list, too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/simulation/world.h"

namespace memlease::simulation {

struct Command {
  std::uint32_t kind = 0;  // its place in all_kinds()
  std::uint32_t who = 0;   // among the processes that live
  std::uint32_t what = 0;  // which array, name, lease
  std::uint32_t how = 0;
};

struct Kind {
  const char* words;
  std::uint32_t weight;  // how often it comes
  void (*run)(World& world, const Command& command);
};

// Each part in its file.
std::span<const Kind> session_kinds();
std::span<const Kind> array_kinds();
std::span<const Kind> lease_kinds();
std::span<const Kind> daemon_kinds();
const std::vector<Kind>& all_kinds();

// What a seed stands for.
Setup setup_of(std::uint64_t seed);
std::vector<Command> commands_of(std::uint64_t seed);
// "publish (process 1, array 3, 17)".
std::string to_words(const Command& command);
// Whether somebody sets a clock, or the machine sleeps.
bool is_jump(const Command& command);

// Limits, as a number chooses them: of the start, and when settings are read again.
void choose_limits(std::uint64_t number, Setup& setup);

}  // namespace memlease::simulation
