// What must hold after each step, whatever it was. Each check throws a Violation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tests/simulation/world.h"

namespace memlease::simulation {

// What the last step found, where a promise is about a change.
class Invariants {
 public:
  // After a step.
  void check(World& world);
  // At the end of a world: nothing is left.
  static void check_end(const World& world);

 private:
  struct Seen {
    std::uint64_t writer_word = 0;
    wire::ArrayId home{0};  // of a replica
    bool withdrawn = false;
    bool whole = true;  // else its only slot has been written since the newest version
  };
  static void check_audit(const World& world);
  void check_changes(World& world);
  void check_limits(const World& world);

  std::map<std::uint64_t, Seen> arrays_;
  std::map<std::pair<std::string, uid_t>, server::Usage> usage_;
  std::map<std::string, std::uint64_t> memory_bytes_;
  server::Totals totals_;
  std::uint64_t newest_event_ = 0;
};

// Parts, in files of their own.
void check_arrays(World& world);    // boards, slots, versions: arrays.cc
void check_sessions(World& world);  // who there is, what each has, what he may see: sessions.cc
void check_accounts(World& world);  // sums of what is there: accounts.cc

// The state as one number, the same on each run of a seed.
std::uint64_t digest_of(const World& world);

}  // namespace memlease::simulation
