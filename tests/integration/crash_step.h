// The steps of the client library at which a process is killed, and what must be true afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace memlease::testing {

// How the others are brought into the position in which the victim passes the step.
enum class Stage {
  kPlain,
  kWriterWaits,      // the owner waits for a slot, and the victim holds them all
  kReadOvertaken,    // the victim is between its look and its hold while the slot is overwritten
  kReaderSleeps,     // another reader sleeps until the next version
  kSlotsHeld,        // another reader holds every slot that the victim could write
  kOwnerWrites,      // the owner is in the middle of a write
  kOwnershipWanted,  // another process waits for ownership under which the victim writes
};

// The current version afterwards.
enum class Outcome {
  kOld,      // the one from before
  kNew,      // the victim's
  kTorn,     // slots=1: none, ProducerDied; else the old one
  kDropped,  // slots=1: none, WriteAborted; else the old one
  kWithdrawn,
};

struct CrashStep {
  std::string step;
  std::vector<std::string> before = {};  // the victim's commands; {} is the array's name
  std::string last;                      // and the one that it does not survive
  Stage stage = Stage::kPlain;
  Outcome outcome = Outcome::kOld;
  bool number_used = false;  // the victim's version number counts as used
  std::uint32_t least_slots = 1;
  std::uint32_t most_slots = 64;
  int nth = 1;
  bool grows = false;  // the array may have more slots
};

// Every step at least once.
const std::vector<CrashStep>& crash_steps();
// The steps that the library's sources name. Those of arrays on devices alone, which begin with
// "device.", are a list of their own.
std::vector<std::string> steps_in_sources(bool of_devices = false);

}  // namespace memlease::testing
