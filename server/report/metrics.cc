#include "server/report/metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string_view>

#include "server/telemetry/exposition.h"
#include "wire/session_counts.h"

namespace memlease::server {
namespace {

using Type = Exposition::Type;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// ---- About the process, by the names that Prometheus' client libraries give.

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t open_files() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  std::uint64_t count = 0;
  while (folder != nullptr && ::readdir(folder.get()) != nullptr) ++count;
  return count < 3 ? 0 : count - 3;  // without ".", ".." and the folder itself
}

void add_process(Exposition& out, double uptime_s) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  out.metric("process_cpu_seconds_total", Type::kCounter, "Processor time of the daemon.");
  out.sample({}, seconds(usage.ru_utime) + seconds(usage.ru_stime));
  out.metric("process_start_time_seconds", Type::kGauge,
             "When the daemon started, since 1970-01-01.");
  out.sample({}, std::chrono::duration<double>(now).count() - uptime_s);
  out.metric("process_resident_memory_bytes", Type::kGauge,
             "Memory of the daemon itself, with pages of arrays and boards that it has touched.");
  out.sample({}, resident_bytes());
  out.metric("process_open_fds", Type::kGauge, "Open file descriptors of the daemon.");
  out.sample({}, open_files());
  out.metric("process_max_fds", Type::kGauge, "Its limit of open file descriptors.");
  out.sample({}, std::uint64_t{files.rlim_cur});
}

// ---- About arrays and devices.

using Value = std::uint64_t DeviceFigures::*;
struct State {
  std::string_view name;  // of the label `state`; empty: there is none
  Value value;
};

void add_by_device(Exposition& out, const Figures& figures, std::string_view name,
                   std::string_view help, std::initializer_list<State> states) {
  out.metric(name, Type::kGauge, help);
  for (const auto& [device, values] : figures.devices) {
    for (const State& state : states) {
      if (state.name.empty()) {
        out.sample({{"device", device}}, values.*state.value);
      } else {
        out.sample({{"device", device}, {"state", state.name}}, values.*state.value);
      }
    }
  }
}

void add_devices(Exposition& out, const Figures& figures) {
  using Device = DeviceFigures;
  add_by_device(out, figures, "memlease_arrays",
                "Arrays: with a name, or withdrawn and still in use.",
                {{"named", &Device::arrays}, {"withdrawn", &Device::withdrawn_arrays}});
  add_by_device(out, figures, "memlease_array_bytes", "Bytes of all slots of these arrays.",
                {{"named", &Device::array_bytes}, {"withdrawn", &Device::withdrawn_bytes}});
  add_by_device(out, figures, "memlease_added_slots",
                "Slots beyond the regular ones, added because readers hold those.",
                {{"", &Device::added_slots}});
  add_by_device(out, figures, "memlease_added_bytes", "Bytes of added slots.",
                {{"", &Device::added_bytes}});
  add_by_device(out, figures, "memlease_held_slots", "Slots that readers hold now.",
                {{"", &Device::held_slots}});
  add_by_device(out, figures, "memlease_held_bytes", "Bytes of slots that readers hold now.",
                {{"", &Device::held_bytes}});
  add_by_device(out, figures, "memlease_memory_bytes",
                "Memory taken of the system or GPU: used by arrays, kept warm for the next one, or "
                "free in segments that some array uses.",
                {{"used", &Device::used_bytes},
                 {"warm", &Device::warm_bytes},
                 {"free", &Device::free_bytes}});
  add_by_device(out, figures, "memlease_memory_limit_bytes",
                "Most memory that may be taken; 0 for no limit.",
                {{"", &Device::memory_limit_bytes}});
  std::uint64_t kept_bytes = 0;
  for (const auto& [device, values] : figures.devices) kept_bytes += values.kept_bytes;
  out.metric("memlease_kept_bytes", Type::kGauge,
             "Memory taken of the system for arrays that have gone, but that processes still have "
             "open to write.");
  out.sample({}, kept_bytes);
}

// ---- What there has been.

void add_waits(Exposition& out, std::string_view what,
               const wire::WaitCounts<std::uint64_t>& waits) {
  std::array<Exposition::Bucket, wire::kWaitBounds.size()> buckets;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    buckets[i] = {std::chrono::duration<double>(wire::kWaitBounds[i]).count(), waits.buckets[i]};
  }
  out.histogram({{"kind", what}}, buckets, waits.buckets[buckets.size()],
                static_cast<double>(waits.total_us) / 1e6);
}

void add_counter(Exposition& out, std::string_view name, std::string_view help,
                 std::uint64_t value) {
  out.metric(name, Type::kCounter, help);
  out.sample({}, value);
}

// As a value of the label: held_a_slot, was_writing, was_its_writer, created_it.
std::string label_of(std::string reason) {
  std::replace(reason.begin(), reason.end(), ' ', '_');
  return reason;
}

void add_reclaims(Exposition& out, const Totals& totals) {
  out.metric("memlease_reclaimed_arrays_total", Type::kCounter,
             "Arrays that a process had in use, or had made for itself, when it exited without "
             "giving them back.");
  for (const auto& [reason, reclaims] : totals.reclaims) {
    out.sample({{"reason", label_of(reason)}}, reclaims.arrays);
  }
  out.metric("memlease_reclaimed_bytes_total", Type::kCounter, "Bytes of these arrays.");
  for (const auto& [reason, reclaims] : totals.reclaims) {
    out.sample({{"reason", label_of(reason)}}, reclaims.bytes);
  }
}

void add_totals(Exposition& out, const Totals& totals) {
  add_counter(out, "memlease_sessions_opened_total", "Processes that have connected.",
              totals.sessions_opened);
  add_counter(out, "memlease_sessions_evicted_total", "Processes that have been evicted.",
              totals.sessions_evicted);
  add_counter(out, "memlease_arrays_created_total", "Arrays that have been created.",
              totals.arrays_created);
  add_counter(
      out, "memlease_versions_total",
      "Versions that arrays have come to; one whose write was dropped counts with the next.",
      totals.versions);
  add_counter(out, "memlease_versions_skipped_total",
              "Versions that followers have not seen, as newer ones were there.",
              totals.sessions.versions_skipped);
  add_counter(out, "memlease_writes_without_slot_total",
              "Writes that were not begun, as readers held all slots.",
              totals.sessions.writes_without_slot);
  add_counter(out, "memlease_empty_writes_total",
              "Writes that ended without anybody having asked for their bytes.",
              totals.empty_writes);
  add_counter(out, "memlease_copied_versions_total",
              "Versions that processes have copied between the devices of an array.",
              totals.copied_versions);
  add_counter(out, "memlease_copied_bytes_total", "Bytes of these versions.", totals.copied_bytes);
  add_counter(out, "memlease_slots_added_total", "Slots that have been added to arrays.",
              totals.slots_added);
  out.metric("memlease_wait_seconds", Type::kHistogram,
             "Waits in reads, for a version, and in writes, for a slot or writer ownership; those "
             "that a process slept in.");
  add_waits(out, "version", totals.sessions.version_waits);
  add_waits(out, "slot", totals.sessions.slot_waits);
  add_reclaims(out, totals);
}

void add_errors(Exposition& out, const CallErrors& errors) {
  out.metric("memlease_call_errors_total", Type::kCounter,
             "Calls to the daemon that it has answered with an error.");
  for (int number = 1; wire::is_error_code(number); ++number) {
    const auto code = static_cast<wire::ErrorCode>(number);
    out.sample({{"code", wire::name_of(code)}}, errors.of(code));
  }
}

void add_cuts(Exposition& out, const GateCuts& cuts) {
  out.metric("memlease_gate_cuts_total", Type::kCounter,
             "Connections of other users that have been cut, as they sent too much of HTTP/2, or "
             "their calls kept most of the memory where that was short.");
  for (std::size_t i = 0; i < kExcessNames.size(); ++i) {
    out.sample({{"limit", kExcessNames.at(i)}}, cuts.of(static_cast<Excess>(i)));
  }
}

void add_degradations(Exposition& out, const Degradations& degradations) {
  out.metric("memlease_degraded", Type::kGauge,
             "What works in a slower or poorer way: without huge pages, hosts that wait for GPUs, "
             "files of the daemon that are gone, no memory for anything new.");
  out.sample({{"mechanism", name_of(Mechanism::kHugePages)}},
             std::uint64_t{degradations.no_huge_pages});
  out.sample({{"mechanism", name_of(Mechanism::kEventWaits)}},
             std::uint64_t{degradations.hosts_wait});
  out.sample({{"mechanism", name_of(Mechanism::kDirectory)}},
             std::uint64_t{degradations.lost_files});
  out.sample({{"mechanism", name_of(Mechanism::kMemory)}}, std::uint64_t{degradations.no_memory});
}

}  // namespace

std::string metrics_text(const Figures& figures, const DaemonFacts& facts,
                         const Degradations& degradations, const CallErrors& errors,
                         const GateCuts& cuts) {
  Exposition out;
  out.metric("memlease_build_info", Type::kGauge, "Always 1; its label is the daemon's version.");
  out.sample({{"version", facts.version}}, std::uint64_t{1});
  out.metric("memlease_draining", Type::kGauge, "1 once the daemon is about to end.");
  out.sample({}, std::uint64_t{figures.draining});
  out.metric("memlease_sessions", Type::kGauge,
             "Processes: connected, or hung up and not exited yet.");
  out.sample({{"state", "connected"}}, figures.sessions_connected);
  out.sample({{"state", "leaving"}}, figures.sessions_leaving);
  out.metric("memlease_writes_in_progress", Type::kGauge, "Writes that are under way now.");
  out.sample({}, figures.writes_in_progress);
  add_devices(out, figures);
  add_totals(out, figures.totals);
  add_errors(out, errors);
  add_cuts(out, cuts);
  add_degradations(out, degradations);
  add_process(out, static_cast<double>(facts.uptime_ms) / 1000);
  return out.text();
}

}  // namespace memlease::server
