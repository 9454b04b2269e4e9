// Deterministic simulation of the daemon's core. The broker is the daemon's own, and so is the
// client's half of the slot protocol; time, memory, descriptors, the GPU and the processes are this
// program's, in one thread. A seed says which limits there are and what happens in 200 steps; after
// each step all that must hold is looked at. The same seed is the same run, whenever and wherever
// the same sources are built.
//
// What it does not have: the daemon's sockets, threads and signals (tests/integration), and two
// steps at once (tests/model, tests/client/slots).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/simulation/command.h"

namespace memlease::simulation {

struct Failure {
  std::string what;
  std::size_t step = 0;  // which command it came after; their number: at the end
};

// Called after each step, with what the state comes to as one number.
using OnStep = std::function<void(const Command& command, std::uint64_t digest)>;

// These commands on a fresh world, then its end. nullopt: all has held.
std::optional<Failure> run(const Setup& setup, std::span<const Command> commands,
                           Lie lie = Lie::kNone, const OnStep& on_step = {});
// What a seed stands for.
std::optional<Failure> run(std::uint64_t seed, Lie lie = Lie::kNone);

// Of commands that fail, as few as can be found that still fail.
std::vector<Command> shrink(const Setup& setup, std::vector<Command> commands,
                            Lie lie = Lie::kNone);

// For people: what has failed, and the shortest way there.
std::string report_of(std::uint64_t seed, const Failure& failure, Lie lie = Lie::kNone);

}  // namespace memlease::simulation
