#include "tests/support/fakecuda/check.h"

#include <set>
#include <tuple>
#include <unordered_map>

#include "tests/support/fakecuda/clocks.h"
#include "tests/support/fakecuda/word_condition.h"

namespace fakecuda {
namespace {

using What = Finding::What;
constexpr u64 kWhole = ~kWriteBit;

struct Agent {
  VectorClock clock;
  u32 process = 0;
  AgentKind kind = AgentKind::kHost;
  u32 device = 0;
  u64 number = 0;
  u32 operation = 0;  // the name of what it does now
};

struct Freed {
  Epoch by;
  bool done = false;
};

class Checker {
 public:
  explicit Checker(const World& world) : world_(world) {}

  std::vector<Finding> run() {
    const Layout& layout = world_.layout();
    const u64 count = std::min<u64>(layout.records_used, kMaxRecords);
    for (u64 i = 0; i < count; ++i) {
      const Record& record = layout.records[i];
      // A process that was killed may have left a gap.
      if (record.kind.load(std::memory_order_acquire) != Kind::kNone) take(record);
    }
    find_leaks();
    return std::move(findings_);
  }

 private:
  void take(const Record& record) {
    Agent& agent = agent_of(record.agent);
    agent.clock.tick(record.agent);
    switch (record.kind.load(std::memory_order_relaxed)) {
      case Kind::kAgent:
        agent.process = static_cast<u32>(record.a);
        agent.kind = static_cast<AgentKind>(record.b & 0xff);
        agent.device = static_cast<u32>(record.b >> 8);
        agent.number = record.c;
        agent.clock.join(gone_);
        break;
      case Kind::kEnqueue:
        operations_[record.a] = {agent.clock, static_cast<u32>(record.b)};
        break;
      case Kind::kExecute:
        if (auto found = operations_.find(record.a); found != operations_.end()) {
          agent.clock.join(found->second.first);
          agent.operation = found->second.second;
          operations_.erase(found);
        }
        break;
      case Kind::kTouch:
        agent.operation = static_cast<u32>(record.b);
        break;
      case Kind::kAccess:
        access(record, (record.b & kWriteBit) != 0, record.b & ~kWriteBit, record.c);
        break;
      case Kind::kFree:
        access(record, true, 0, kWhole);
        freed_[record.a] = {epoch(record.agent), true};
        break;
      case Kind::kRelease:
        keys_[{record.a, record.b, record.c}].join(agent.clock);
        break;
      case Kind::kAcquire:
        acquire(record);
        break;
      case Kind::kWriteWord:
        words_[{record.a, record.b}].emplace_back(record.c, agent.clock);
        break;
      case Kind::kWaitWord:
        wait_word(record);
        break;
      case Kind::kSawWord:
        saw_word(record);
        break;
      case Kind::kExit:
        exit(static_cast<u32>(record.a));
        break;
      case Kind::kViolation:
        misuse(record);
        break;
      case Kind::kAllocate:
      case Kind::kNone:
        break;
    }
  }

  Agent& agent_of(u32 number) { return agents_[number]; }
  Epoch epoch(u32 agent) {
    const Agent& is = agent_of(agent);
    return {agent, is.clock.of(agent), is.operation};
  }

  // Nobody needs to be told: what a process did is over for all, and for those who come later.
  void exit(u32 process) {
    for (const auto& [number, other] : agents_) {
      if (other.process == process) gone_.join(other.clock);
    }
    for (auto& [number, other] : agents_) other.clock.join(gone_);
  }

  void access(const Record& record, bool write, u64 offset, u64 bytes) {
    const Agent& agent = agent_of(record.agent);
    const Epoch now = epoch(record.agent);
    const Freed freed = freed_[record.a];
    if (freed.done && freed.by.before(agent.clock)) {
      add(What::kUseAfterFree, freed.by, true, now, write, record.a, offset, bytes);
      return;
    }
    shadows_[record.a].access(now, agent.clock, write, offset, offset + bytes,
                              [&](const Epoch& earlier, bool earlier_writes, u64 from, u64 to) {
                                const What what = !write           ? What::kReadAfterWrite
                                                  : earlier_writes ? What::kWriteAfterWrite
                                                                   : What::kWriteAfterRead;
                                add(what, earlier, earlier_writes, now, write, record.a, from,
                                    to >= kWhole ? 0 : to - from);
                              });
  }

  void acquire(const Record& record) {
    const auto found = keys_.find({record.a, record.b, record.c});
    if (found == keys_.end()) {
      orphan(record, "an event's record that never completed");
    } else {
      agent_of(record.agent).clock.join(found->second);
    }
  }

  // The first write that answers the wait orders it, whichever one it saw: what it saw depends on
  // the run.
  void wait_word(const Record& record) {
    const u64 offset = record.b & ~(0xfULL << 60);
    const auto condition = static_cast<u32>(record.b >> 60);
    for (const auto& [value, clock] : words_[{record.a, offset}]) {
      if (word_answers(value, record.c, condition)) {
        agent_of(record.agent).clock.join(clock);
        return;
      }
    }
    // A word begins as 0, and nobody had to write that.
    if (!word_answers(0, record.c, condition)) {
      orphan(record, "a word's value that no stream wrote");
    }
  }

  // A host may have seen what another host has stored.
  void saw_word(const Record& record) {
    for (const auto& [value, clock] : words_[{record.a, record.b}]) {
      if (static_cast<std::int64_t>(record.c - value) >= 0) {
        agent_of(record.agent).clock.join(clock);
      }
    }
  }

  void orphan(const Record& record, const char* what) {
    Finding finding;
    finding.what = What::kOrphanWait;
    finding.second = side(epoch(record.agent), false);
    finding.text = what;
    add(std::move(finding));
  }

  void misuse(const Record& record) {
    Finding finding;
    finding.what = What::kMisuse;
    finding.first = side(epoch(record.agent), false);
    switch (static_cast<Violation>(record.a)) {
      case Violation::kFreedWhileOpen:
        finding.allocation = record.b;
        finding.text = "memory was freed while another process had it open";
        break;
      case Violation::kEventUsedAfterDestroy:
        finding.text =
            "an event was used after it was destroyed (slot " + std::to_string(record.b) + ")";
        break;
      case Violation::kStreamUsedAfterDestroy:
        finding.text = "a stream was used that had been destroyed, or never made";
        break;
      case Violation::kSharedNeighbours:
        finding.allocation = record.b;
        finding.text =
            "memory of " + std::to_string(record.c) +
            " bytes was exported, which is no multiple of 2 MiB: its neighbours would be "
            "exported with it";
        break;
      case Violation::kUnmappedWhileRegistered:
        finding.allocation = record.b;
        finding.text = "host memory of " + std::to_string(record.c) +
                       " bytes was unmapped before it was unregistered";
        break;
      case Violation::kUnregisteredWhileInUse:
        finding.allocation = record.b;
        finding.text = "host memory of " + std::to_string(record.c) +
                       " bytes was unregistered while a stream had still to look at a word there";
        break;
      case Violation::kUnorderedWord:
        finding.text = "a word went backwards, to " + std::to_string(record.c);
        break;
    }
    add(std::move(finding));
  }

  void find_leaks() {
    const auto& processes = world_.layout().processes;
    for (u32 i = 0; i < kMaxProcesses && processes[i].state != Process::kFree; ++i) {
      const Process& process = processes[i];
      // Whoever was killed could not clean up.
      if (process.state != Process::kEnded) continue;
      std::string held;
      const auto count = [&](int number, const char* what) {
        if (number != 0) held += (held.empty() ? "" : ", ") + std::to_string(number) + " " + what;
      };
      count(process.allocations, "allocations");
      count(process.imports, "open memory handles");
      count(process.host_buffers, "pinned host buffers");
      count(process.streams, "streams");
      count(process.events, "events");
      if (held.empty()) continue;
      Finding finding;
      finding.what = What::kLeak;
      finding.first.agent = process_name(i);
      finding.first.pid = process.pid;
      finding.text = held;
      add(std::move(finding));
    }
  }

  std::string process_name(u32 index) const {
    const Process& process = world_.layout().processes[index];
    return "process " + std::to_string(process.pid) + " (" + process.name.data() + ")";
  }

  Side side(const Epoch& epoch, bool write) {
    const Agent& agent = agent_of(epoch.agent);
    static constexpr const char* kNames[] = {"the host side", "stream", "the legacy stream",
                                             "a per-thread stream"};
    Side side;
    side.operation = world_.name(epoch.name);
    side.agent = kNames[static_cast<std::size_t>(agent.kind)];
    if (agent.kind == AgentKind::kStream) side.agent += " " + std::to_string(agent.number);
    side.agent += " of " + process_name(agent.process);
    if (agent.kind != AgentKind::kHost) side.agent += ", device " + std::to_string(agent.device);
    side.pid = world_.layout().processes[agent.process].pid;
    side.write = write;
    return side;
  }

  void add(What what, const Epoch& first, bool first_writes, const Epoch& second,
           bool second_writes, u64 allocation, u64 offset, u64 bytes) {
    Finding finding;
    finding.what = what;
    finding.first = side(first, first_writes);
    finding.second = side(second, second_writes);
    finding.allocation = allocation;
    finding.offset = offset;
    finding.bytes = bytes;
    add(std::move(finding));
  }

  void add(Finding finding) {
    const std::string key = std::string(name_of(finding.what)) + '\n' + finding.first.operation +
                            finding.first.agent + '\n' + finding.second.operation +
                            finding.second.agent + '\n' + std::to_string(finding.allocation) +
                            finding.text;
    const auto [known, fresh] = known_.try_emplace(key, findings_.size());
    if (fresh) {
      findings_.push_back(std::move(finding));
    } else {
      ++findings_[known->second].times;
    }
  }

  const World& world_;
  std::unordered_map<u32, Agent> agents_;
  VectorClock gone_;  // of all processes that are known to have ended
  std::unordered_map<u64, std::pair<VectorClock, u32>> operations_;  // enqueued, not begun
  std::map<std::tuple<u64, u64, u64>, VectorClock> keys_;
  std::map<std::pair<u64, u64>, std::vector<std::pair<u64, VectorClock>>> words_;
  std::unordered_map<u64, Shadow> shadows_;
  std::unordered_map<u64, Freed> freed_;
  std::unordered_map<std::string, std::size_t> known_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check(const World& world) { return Checker(world).run(); }

const char* name_of(What what) {
  switch (what) {
    case What::kReadAfterWrite:
      return "read after write";
    case What::kWriteAfterRead:
      return "write after read";
    case What::kWriteAfterWrite:
      return "write after write";
    case What::kUseAfterFree:
      return "use after free";
    case What::kOrphanWait:
      return "wait for nothing";
    case What::kMisuse:
      return "misuse";
    case What::kLeak:
      return "leak";
  }
  return "?";
}

std::string describe(const Finding& finding) {
  const auto tell = [](const char* which, const Side& side) {
    return std::string("\n  ") + which + ": " + side.operation + (side.write ? " wrote" : " read") +
           "\n    in " + side.agent;
  };
  std::string text = name_of(finding.what);
  if (finding.times > 1) text += " (" + std::to_string(finding.times) + " times)";
  switch (finding.what) {
    case What::kOrphanWait:
      return text + ": " + finding.second.agent + " went on after waiting for " + finding.text;
    case What::kMisuse:
      return text + ": " + finding.text + "\n  by " + finding.first.agent;
    case What::kLeak:
      return text + ": " + finding.first.agent + " ended and kept " + finding.text;
    default:
      break;
  }
  text += ": allocation " + std::to_string(finding.allocation);
  if (finding.bytes != 0) {
    text += ", bytes " + std::to_string(finding.offset) + " to " +
            std::to_string(finding.offset + finding.bytes);
  }
  return text + tell("earlier", finding.first) + tell("later", finding.second) +
         "\n  nothing orders them: no event, word or synchronisation leads from one to the other";
}

}  // namespace fakecuda
