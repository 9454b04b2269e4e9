// One world: a folder on tmpfs that the environment's FAKECUDA_WORLD names, with the shared file
// and one file per allocation. Thread-safe; several processes may have the same one open.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tests/support/fakecuda/layout.h"

namespace fakecuda {

struct WorldOptions {
  u32 devices = 2;
  u64 capacity_bytes = 1ULL << 30;
};

class World {
 public:
  // The folder exists and is empty. Both throw std::runtime_error.
  static std::unique_ptr<World> create(const std::string& folder, const WorldOptions& options = {});
  static std::unique_ptr<World> open(const std::string& folder);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const std::string& folder() const { return folder_; }
  Layout& layout() { return *layout_; }
  const Layout& layout() const { return *layout_; }

  u32 knob(Knob knob) const;
  void set(Knob knob, u32 value);
  // By its name in the program fakecuda: "delay_us". Throws if there is none.
  static Knob knob_named(std::string_view name);

  u64 new_id() { return layout_->next_id.fetch_add(1) + 1; }
  // Keeps a name for reports; the same text may be kept twice.
  u32 keep_name(std::string_view name);
  const char* name(u32 offset) const;

  void append(Kind kind, u32 agent, u64 a = 0, u64 b = 0, u64 c = 0);
  u32 new_agent(u32 process, AgentKind kind, u32 device, u64 number);

  // The index of a call, which is entered if it is new.
  u32 call_index(std::string_view name);
  // Calls that one process made; -1: all processes together.
  u64 calls(std::string_view name, long pid = -1);
  // From the nth call on from now (1 = the next), `times` calls of this name fail; negative: all.
  void fail(std::string_view call, int error, int nth = 1, int times = 1,
            Fault::Mode mode = Fault::kRefuse, u32 pid = 0);
  void never_fail();

  // Contexts that a process ever made, on a device or on all.
  u32 contexts(long pid, u32 device) const;
  u32 contexts(long pid) const;
  // Is the process of this entry gone, whether it ended or was killed?
  bool gone(u32 process) const;
  // Bytes of a device that are taken; with `reap`, after giving back what no process has mapped any
  // more. The caller has its Turn.
  u64 used_bytes(u32 device, bool reap);
  std::string file_of(u64 allocation) const;

 private:
  World(std::string folder, Layout* layout) : folder_(std::move(folder)), layout_(layout) {}
  bool reap(Allocation& allocation);

  const std::string folder_;
  Layout* const layout_;
};

// Held while allocations are counted, made, opened, closed or given back. A killed process lets go
// of it.
class Turn {
 public:
  explicit Turn(const World& world);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  const int fd_;
};

// When a process started, in the kernel's ticks; 0 if there is none. Tells apart processes that had
// the same pid one after the other.
u64 start_time(u32 pid);
// This process's.
u64 pid_namespace();

}  // namespace fakecuda
