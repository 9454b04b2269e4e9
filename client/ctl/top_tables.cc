#include "client/ctl/top_tables.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace memlease::ctl {
namespace {

// The first ones of many in an order.
template <typename T, typename Before>
void keep_first(std::vector<T>& all, std::size_t count, Before before) {
  const std::size_t kept = std::min(count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    before);
  all.resize(kept);
}

struct Sums {
  std::uint64_t arrays = 0;
  std::uint64_t bytes = 0;
  double versions_per_s = 0;
  double bytes_per_s = 0;

  void add(const LiveArray& array) {
    ++arrays;
    bytes += array.bytes();
    versions_per_s += array.versions_per_s;
    bytes_per_s += array.bytes_per_s();
  }
};

double number_of(const LiveArray& array, SortKey key) {
  switch (key) {
    case SortKey::kBandwidth:
      return array.bytes_per_s();
    case SortKey::kBytes:
      return static_cast<double>(array.bytes());
    case SortKey::kVersion:
      return static_cast<double>(array.version);
    case SortKey::kOpen:
      return array.open_sessions;
    case SortKey::kName:
      return 0;
    case SortKey::kRate:
      break;
  }
  return array.versions_per_s;
}

double number_of(const Sums& sums, SortKey key) {
  if (key == SortKey::kBandwidth) return sums.bytes_per_s;
  if (key == SortKey::kBytes) return static_cast<double>(sums.bytes);
  return key == SortKey::kName ? 0 : sums.versions_per_s;
}

}  // namespace

const std::map<std::string, SortKey> kSortKeys = {
    {"rate", SortKey::kRate},       {"bandwidth", SortKey::kBandwidth}, {"bytes", SortKey::kBytes},
    {"version", SortKey::kVersion}, {"open", SortKey::kOpen},           {"name", SortKey::kName}};

Ranked top_arrays(const Live& live, const v1::ListSessionsReply& sessions, SortKey key,
                  std::size_t rows) {
  absl::flat_hash_map<std::uint32_t, std::int32_t> pids;
  for (const v1::SessionInfo& session : sessions.sessions()) {
    pids[session.session_id()] = session.pid();
  }
  std::vector<std::pair<double, const LiveArray*>> all;
  all.reserve(live.arrays().size());
  for (const LiveArray& array : live.arrays()) {
    if (!array.name.empty()) all.emplace_back(-number_of(array, key), &array);
  }
  keep_first(all, rows, [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->name) < std::tie(b.first, b.second->name);
  });
  Ranked out{{"arrays",
              {{"name", "ARRAY"},
               {"versions_per_s", "RATE"},
               {"bytes_per_s", "BANDWIDTH"},
               {"version", "VERSION"},
               {"bytes", "BYTES"},
               {"open_sessions", "OPEN"},
               {"writer_session", ""},
               {"writer_pid", "WRITER"},
               {"device", "DEVICE"}},
              {}},
             {0, 1, 2, 4, 3, 6, 0, 5, 7}};
  for (const auto& [number, array] : all) {
    const auto pid = pids.find(array->writer_session);
    out.table.rows.push_back(
        {array->name, Rate{array->versions_per_s}, BytesRate{array->bytes_per_s()}, array->version,
         Bytes{array->bytes()}, std::uint64_t{array->open_sessions},
         array->writer_session == 0 ? Cell() : Cell(std::uint64_t{array->writer_session}),
         pid == pids.end() ? Cell() : Cell(Pid{pid->second}), Device{array->device}});
  }
  return out;
}

Ranked top_sessions(const Live& live, const v1::ListSessionsReply& sessions, SortKey key,
                    std::size_t rows) {
  absl::flat_hash_map<std::uint32_t, Sums> written;
  for (const LiveArray& array : live.arrays()) {
    if (array.writer_session != 0) written[array.writer_session].add(array);
  }
  std::vector<std::pair<double, const v1::SessionInfo*>> all;
  for (const v1::SessionInfo& session : sessions.sessions()) {
    double number = number_of(written[session.session_id()], key);
    if (key == SortKey::kBytes) number = static_cast<double>(session.bytes_created());
    if (key == SortKey::kOpen) number = static_cast<double>(session.arrays_open());
    all.emplace_back(-number, &session);
  }
  keep_first(all, rows, [key](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    if (key == SortKey::kName) return a.second->command() < b.second->command();
    return a.second->session_id() < b.second->session_id();
  });
  Ranked out{{"sessions",
              {{"session", "SESSION"},
               {"pid", "PID"},
               {"uid", "USER"},
               {"versions_per_s", "RATE"},
               {"bytes_per_s", "BANDWIDTH"},
               {"writes", "WRITES"},
               {"arrays_open", "OPEN"},
               {"bytes_created", "CREATED"},
               {"connected", ""},
               {"command", "COMMAND"}},
              {}},
             {8, 0, 6, 1, 3, 5, 7, 4, 0, 2}};
  for (const auto& [number, session] : all) {
    const Sums& sums = written[session->session_id()];
    out.table.rows.push_back(
        {std::uint64_t{session->session_id()}, Pid{session->pid()}, Uid{session->uid()},
         Rate{sums.versions_per_s}, BytesRate{sums.bytes_per_s}, sums.arrays,
         std::uint64_t{session->arrays_open()}, Bytes{session->bytes_created()},
         session->connected(), Command{session->command()}});
  }
  return out;
}

Ranked top_devices(const Live& live, SortKey key, std::size_t rows) {
  std::map<std::string, Sums> devices;
  for (const LiveArray& array : live.arrays()) {
    if (!array.name.empty()) devices[array.device].add(array);
  }
  std::vector<std::pair<std::string, Sums>> all(devices.begin(), devices.end());
  keep_first(all, rows, [key](const auto& a, const auto& b) {
    return std::pair(-number_of(a.second, key), a.first) <
           std::pair(-number_of(b.second, key), b.first);
  });
  Ranked out{{"devices",
              {{"device", "DEVICE"},
               {"versions_per_s", "RATE"},
               {"bytes_per_s", "BANDWIDTH"},
               {"arrays", "ARRAYS"},
               {"bytes", "BYTES"}},
              {}},
             {0, 1, 2, 4, 3}};
  for (const auto& [device, sums] : all) {
    out.table.rows.push_back({Device{device}, Rate{sums.versions_per_s},
                              BytesRate{sums.bytes_per_s}, sums.arrays, Bytes{sums.bytes}});
  }
  return out;
}

Table top_sums(const Live& live, const v1::ListSessionsReply& sessions) {
  Sums sums;
  for (const LiveArray& array : live.arrays()) sums.add(array);
  return {"",
          {{"total_arrays", "Arrays"},
           {"total_bytes", "Bytes"},
           {"total_sessions", "Sessions"},
           {"versions_per_s", "Versions"},
           {"bytes_per_s", "Bandwidth"}},
          {{sums.arrays, Bytes{sums.bytes}, static_cast<std::uint64_t>(sessions.sessions_size()),
            Rate{sums.versions_per_s}, BytesRate{sums.bytes_per_s}}}};
}

}  // namespace memlease::ctl
