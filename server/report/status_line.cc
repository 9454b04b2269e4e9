#include "server/report/status_line.h"

#include <array>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "server/core/report.h"

namespace memlease::server {
namespace {

constexpr std::size_t kMostNamed = 8;

std::string in_units(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  return fmt::format("{:.{}f} {}", number, unit == 0 ? 0 : 1, kUnits.at(unit));
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::uint64_t array_bytes(const Broker& broker) {
  std::uint64_t bytes = 0;
  for (const auto& [name, device] : broker.devices().all()) {
    bytes += device.quota.used(Resource::kBytes);
  }
  return bytes;
}

}  // namespace

std::string lease_holders(const Broker& broker) {
  std::set<pid_t> pids;
  std::set<std::uint32_t> sessions;
  for (const Array* array : broker.catalog().all()) {
    for (const HolderReport& holder : holders_of(broker, *array)) {
      if (!holder.writing && holder.versions.empty()) continue;
      const Session& session = *holder.session;
      if (session.peer.has_pid()) {
        pids.insert(session.peer.pid);
      } else {
        sessions.insert(wire::to_int(session.id));
      }
    }
  }
  std::vector<std::string> names;
  for (const pid_t pid : pids) names.push_back(fmt::format("pid {}", pid));
  for (const std::uint32_t id : sessions) names.push_back(fmt::format("session {}", id));
  const bool all = names.size() <= kMostNamed;
  if (!all) names.resize(kMostNamed);
  return fmt::format("{}{}", fmt::join(names, ", "), all ? "" : ", ...");
}

std::string status_line(const Broker& broker) {
  const std::string served =
      fmt::format("{}, {}, {}", counted(broker.catalog().size(), "array"),
                  in_units(array_bytes(broker)), counted(broker.sessions().size(), "session"));
  if (!broker.draining()) return "serving " + served;
  const std::string holders = lease_holders(broker);
  if (holders.empty()) return "ending: " + served;
  return "ending: waiting for leases of " + holders;
}

}  // namespace memlease::server
