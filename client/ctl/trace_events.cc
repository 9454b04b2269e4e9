#include "client/ctl/trace_events.h"

#include <algorithm>

#include "client/ctl/cell.h"
#include "fmt/format.h"

namespace memlease::ctl {
namespace {

constexpr std::uint64_t kWriting = 0;

// A process whose pid cannot be seen from here.
constexpr std::int64_t kNamelessPids = std::int64_t{1} << 30;

}  // namespace

TraceEvents::TraceEvents(Write write, std::int32_t daemon_pid)
    : write_(std::move(write)), daemon_pid_(daemon_pid) {
  name("process_name", daemon_pid_, 0, "memleased");
}

void TraceEvents::sample(std::uint64_t us, const Live& live, const v1::HoldersReply& holders) {
  std::map<Lease, const v1::Holder*> held;
  std::map<std::string_view, const v1::Holder*> writers;
  for (const v1::Holder& holder : holders.holders()) {
    if (holder.writer()) writers[holder.array()] = &holder;
    if (holder.writing()) held[{holder.session_id(), holder.array(), kWriting}] = &holder;
    for (const std::uint64_t version : holder.versions()) {
      // 0: the slot is being taken away from it, or has no version yet.
      if (version != 0) held[{holder.session_id(), holder.array(), version}] = &holder;
    }
  }
  // What has gone makes room on its line for what has come.
  for (auto it = open_.begin(); it != open_.end();) {
    if (held.contains(it->first)) {
      ++it;
      continue;
    }
    end_slice(us, it->first, it->second);
    it = open_.erase(it);
  }
  for (const auto& [lease, holder] : held) {
    if (!open_.contains(lease)) begin_slice(us, lease, *holder);
  }
  for (const LiveArray& array : live.arrays()) {
    const auto writer = writers.find(array.name);
    publish(us, array, writer == writers.end() ? nullptr : writer->second);
  }
  last_us_ = us;
}

void TraceEvents::begin_slice(std::uint64_t us, const Lease& lease, const v1::Holder& holder) {
  std::set<std::size_t>& used = lanes_[{holder.session_id(), holder.array()}];
  std::size_t lane = 0;
  while (used.contains(lane)) ++lane;
  used.insert(lane);
  const std::int64_t pid = process_of(holder);
  const std::string line =
      lane == 0 ? holder.array() : fmt::format("{} #{}", holder.array(), lane + 1);
  open_[lease] = {us, pid, thread_of(pid, line), lane, holder.array_bytes()};
  ++leases_;
}

void TraceEvents::end_slice(std::uint64_t us, const Lease& lease, const Slice& slice) {
  const auto& [session, array, version] = lease;
  lanes_[{session, array}].erase(slice.lane);
  const bool writes = version == kWriting;
  write_(fmt::format(
      R"({{"name": "{}", "cat": "lease", "ph": "X", "ts": {}, "dur": {}, "pid": {}, "tid": {}, )"
      R"("args": {{"array": {}, "bytes": {}, "session": {}}}}})",
      writes ? "writes" : fmt::format("reads v{}", version), slice.begin_us, us - slice.begin_us,
      slice.pid, slice.thread, json_string(array), slice.bytes, session));
}

// The counter begins with the version before the first change, so that arrays that stand still cost
// nothing.
void TraceEvents::publish(std::uint64_t us, const LiveArray& array, const v1::Holder* writer) {
  const auto [it, is_new] = arrays_.try_emplace(array.id, Seen{array.version, false});
  Seen& seen = it->second;
  if (is_new || array.version <= seen.version || array.name.empty()) return;
  if (!seen.counted) count(last_us_, array.name, seen.version);
  count(us, array.name, array.version);
  const std::uint64_t published = array.version - seen.version;
  versions_ += published;
  seen = {array.version, true};
  if (writer == nullptr) return;
  const std::int64_t pid = process_of(*writer);
  write_(fmt::format(
      R"({{"name": "v{}", "cat": "version", "ph": "i", "s": "t", "ts": {}, "pid": {}, "tid": {}, )"
      R"("args": {{"array": {}, "published": {}}}}})",
      array.version, us, pid, thread_of(pid, array.name + " versions"), json_string(array.name),
      published));
}

void TraceEvents::count(std::uint64_t us, const std::string& array, std::uint64_t version) {
  write_(fmt::format(
      R"({{"name": {}, "ph": "C", "ts": {}, "pid": {}, "tid": 0, "args": {{"version": {}}}}})",
      json_string(array), us, daemon_pid_, version));
}

void TraceEvents::happened(std::uint64_t us, std::string_view what, const v1::HistoryEvent& event) {
  const std::int64_t pid = processes_.contains(event.pid()) ? event.pid() : daemon_pid_;
  const std::string text =
      event.array().empty() ? std::string(what) : fmt::format("{} {}", what, event.array());
  write_(fmt::format(
      R"({{"name": {}, "cat": "event", "ph": "i", "s": "p", "ts": {}, "pid": {}, "tid": 0, )"
      R"("args": {{"pid": {}, "bytes": {}, "reason": {}, "command": {}}}}})",
      json_string(text), us, pid, event.pid(), event.bytes(), json_string(event.reason()),
      json_string(event.command())));
}

void TraceEvents::end(std::uint64_t us) {
  for (const auto& [lease, slice] : open_) end_slice(us, lease, slice);
  open_.clear();
}

std::int64_t TraceEvents::process_of(const v1::Holder& holder) {
  const std::int64_t pid = holder.pid() > 0 ? holder.pid() : kNamelessPids + holder.session_id();
  if (processes_.insert(pid).second) {
    name("process_name", pid, 0, to_human(Command{holder.command()}, 0));
  }
  return pid;
}

std::uint64_t TraceEvents::thread_of(std::int64_t pid, const std::string& line) {
  const auto [it, is_new] = threads_.try_emplace({pid, line}, threads_.size() + 1);
  if (is_new) name("thread_name", pid, it->second, line);
  return it->second;
}

void TraceEvents::name(std::string_view what, std::int64_t pid, std::uint64_t thread,
                       std::string_view text) {
  write_(fmt::format(R"({{"name": "{}", "ph": "M", "pid": {}, "tid": {}, "args": {{"name": {}}}}})",
                     what, pid, thread, json_string(text)));
}

}  // namespace memlease::ctl
