#include "tests/integration/crash_step.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace memlease::testing {
namespace {

const std::vector<std::string> kOpen = {"connect", "open {}"};
const std::vector<std::string> kPeerReads = {"connect", "read {} 0 1000"};
const std::vector<std::string> kPeerWrites = {"connect", "write {} 1000", "fill {}"};
const std::vector<std::string> kBoth = {"connect", "put {} 1000", "read {} 0 1000", "release {}"};
const std::string kRead = "read {} 0 1000";
const std::string kPut = "put {} 5000";

std::vector<CrashStep> make_steps() {
  std::vector<CrashStep> steps;
  for (const char* step : {"attach.begin", "attach.greeted", "attach.challenged", "attach.proved",
                           "attach.welcomed"}) {
    steps.push_back({.step = step, .last = "connect"});
  }
  for (const char* step : {"create.begin", "create.answered", "create.mapped"}) {
    steps.push_back(
        {.step = step, .before = {"connect"}, .last = "create {}/own 3 600 512 session"});
  }
  for (const char* step : {"open.answered", "open.mapped"}) {
    steps.push_back({.step = step, .before = {"connect"}, .last = "open {}"});
  }
  for (const char* step : {"subscribe.begin", "subscribe.answered", "subscribe.done",
                           "acquire.named", "acquire.located", "acquire.held", "acquire.exists",
                           "acquire.compared", "acquire.checked"}) {
    steps.push_back({.step = step, .before = kOpen, .last = kRead});
  }
  steps.push_back(
      {.step = "acquire.undo", .before = kOpen, .last = kRead, .stage = Stage::kReadOvertaken});
  for (const char* step : {"sleep.begin", "counts.writer", "sleep.announced", "sleep.looked"}) {
    steps.push_back({.step = step, .before = kOpen, .last = "read {} 100000 5000"});
  }
  for (const char* step : {"event.wait", "event.seen", "event.taken"}) {
    steps.push_back({.step = step, .before = kOpen, .last = "poll_read {} 5000"});
  }
  for (const char* step : {"release.begin", "release.cleared", "release.given_up"}) {
    steps.push_back({.step = step, .before = kPeerReads, .last = "release {}"});
  }
  for (const char* step : {"release.wanted", "release.counted"}) {
    steps.push_back(
        {.step = step, .before = kOpen, .last = "release {}", .stage = Stage::kWriterWaits});
  }
  for (const char* step :
       {"ownership.asked", "ownership.offered", "ownership.copied", "ownership.confirmed",
        "adopt.slot", "write.flagged", "write.allowed", "write.marked", "write.chosen"}) {
    steps.push_back({.step = step, .before = kOpen, .last = kPut});
  }
  steps.push_back(
      {.step = "adopt.slot", .before = kOpen, .last = kPut, .least_slots = 2, .nth = 2});
  steps.push_back(
      {.step = "ownership.busy", .before = kOpen, .last = kPut, .stage = Stage::kOwnerWrites});
  for (const char* step : {"write.wanted", "write.listed", "write.words", "write.held"}) {
    steps.push_back({.step = step, .before = kOpen, .last = kPut, .stage = Stage::kSlotsHeld});
  }
  for (const char* step : {"take_back.begin", "take_back.done"}) {
    steps.push_back({.step = step,
                     .before = kOpen,
                     .last = "write {} 20",
                     .stage = Stage::kSlotsHeld,
                     .most_slots = 1});
  }
  for (const char* step : {"grow.cleared", "grow.answered"}) {
    steps.push_back({.step = step,
                     .before = kOpen,
                     .last = kPut,
                     .stage = Stage::kSlotsHeld,
                     .least_slots = 2,
                     .grows = true});
  }
  steps.push_back({.step = "write.handed_out",
                   .before = kOpen,
                   .last = kPut,
                   .stage = Stage::kSlotsHeld,
                   .outcome = Outcome::kTorn,
                   .number_used = true,
                   .least_slots = 2,
                   .grows = true});
  steps.push_back({.step = "publish.slot",
                   .before = kOpen,
                   .last = kPut,
                   .stage = Stage::kSlotsHeld,
                   .outcome = Outcome::kNew,
                   .number_used = true,
                   .least_slots = 2,
                   .grows = true});
  steps.push_back({.step = "write.numbered", .before = kOpen, .last = kPut, .number_used = true});
  for (const char* step : {"write.handed_out", "bytes.half", "publish.begin"}) {
    steps.push_back({.step = step,
                     .before = kOpen,
                     .last = kPut,
                     .outcome = Outcome::kTorn,
                     .number_used = true});
  }
  steps.push_back({.step = "update.copied",
                   .before = kOpen,
                   .last = "update {} 1000",
                   .outcome = Outcome::kTorn,
                   .number_used = true,
                   .least_slots = 2});
  for (const char* step :
       {"publish.slot", "publish.publication", "end_write.unflagged", "end_write.counted"}) {
    steps.push_back({.step = step,
                     .before = kOpen,
                     .last = kPut,
                     .outcome = Outcome::kNew,
                     .number_used = true});
  }
  steps.push_back({.step = "end_write.waking",
                   .before = kOpen,
                   .last = kPut,
                   .stage = Stage::kReaderSleeps,
                   .outcome = Outcome::kNew,
                   .number_used = true});
  steps.push_back({.step = "drop.begin",
                   .before = kPeerWrites,
                   .last = "drop {}",
                   .outcome = Outcome::kTorn,
                   .number_used = true});
  for (const char* step : {"drop.slot", "end_write.unflagged", "end_write.counted"}) {
    steps.push_back({.step = step,
                     .before = kPeerWrites,
                     .last = "drop {}",
                     .outcome = Outcome::kDropped,
                     .number_used = true});
  }
  for (const char* step : {"publish.begin", "publish.slot", "publish.publication",
                           "end_write.unflagged", "end_write.counted", "end_write.waking"}) {
    steps.push_back({.step = step,
                     .before = kPeerWrites,
                     .last = "publish {}",
                     .stage = Stage::kOwnershipWanted});
  }
  for (const char* step : {"drop.begin", "drop.slot", "end_write.waking"}) {
    steps.push_back(
        {.step = step, .before = kPeerWrites, .last = "drop {}", .stage = Stage::kOwnershipWanted});
  }
  steps.push_back({.step = "withdraw.begin", .before = kOpen, .last = "withdraw {}"});
  for (const auto& before : {kOpen, kPeerReads, kPeerWrites}) {
    steps.push_back({.step = "withdraw.answered",
                     .before = before,
                     .last = "withdraw {}",
                     .outcome = Outcome::kWithdrawn});
  }
  for (const char* step : {"leave.begin", "leave.answered"}) {
    steps.push_back({.step = step,
                     .before = kBoth,
                     .last = "close {}",
                     .outcome = Outcome::kNew,
                     .number_used = true});
  }
  return steps;
}

}  // namespace

const std::vector<CrashStep>& crash_steps() {
  static const std::vector<CrashStep> steps = make_steps();
  return steps;
}

std::vector<std::string> steps_in_sources(bool of_devices) {
  namespace fs = std::filesystem;
  static const std::regex call(R"re(crash_point\("([a-z_.]+)"\))re");
  std::vector<std::string> steps;
  for (const auto& entry : fs::recursive_directory_iterator(MEMLEASE_SOURCE_DIR "/client")) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream file(entry.path());
    std::stringstream buffer;
    buffer << file.rdbuf();
    const std::string text = buffer.str();
    for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it) {
      const std::string step = (*it)[1];
      if (step.starts_with("device.") == of_devices) steps.push_back(step);
    }
  }
  return steps;
}

}  // namespace memlease::testing
