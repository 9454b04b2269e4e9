// holders, sessions, evict.
#include <vector>

#include "client/ctl/commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "memlease/v1/admin.pb.h"
#include "wire/array_spec.h"

namespace memlease::ctl {
namespace {

// What the holder does with the array, the strongest first.
std::string role_of(const v1::Holder& holder) {
  std::vector<std::string_view> roles;
  if (holder.writing()) {
    roles.emplace_back("writing");
  } else if (holder.writer()) {
    roles.emplace_back("writer");
  }
  if (!holder.versions().empty()) {
    roles.emplace_back("reading");
  } else if (holder.subscribed()) {
    roles.emplace_back("subscribed");
  }
  if (roles.empty()) roles.emplace_back("open");
  if (!holder.connected()) roles.emplace_back("hung up");
  return fmt::format("{}", fmt::join(roles, ", "));
}

// Slots that cannot be written for its sake: of each it has one version, or none (0).
std::uint64_t slots_held(const v1::Holder& holder) {
  return static_cast<std::uint64_t>(holder.versions_size()) + (holder.writing() ? 1 : 0);
}

}  // namespace

absl::Status list_holders(const Connection& daemon, const Options& options,
                          const std::string& name) {
  if (!name.empty()) {
    if (auto status = wire::validate_opened_name(name); !status.ok()) return status;
  }
  const auto reply = daemon.admin->list_holders(name);
  if (!reply.ok()) return reply.status();
  Table table{"holders",
              {{"array", ""},
               {"", "ARRAY"},
               {"pid", "PID"},
               {"session", "SESSION"},
               {"uid", "USER"},
               {"", "ROLE"},
               {"versions", "VERSIONS"},
               {"bytes", "BYTES"},
               {"since_unix_ms", "SINCE"},
               {"command", "COMMAND"},
               {"writer", ""},
               {"writing", ""},
               {"subscribed", ""},
               {"connected", ""},
               {"withdrawn", ""}},
              {}};
  for (const v1::Holder& holder : reply->holders()) {
    table.rows.push_back(
        {holder.array(), holder.array() + (holder.withdrawn() ? " (withdrawn)" : ""),
         Pid{holder.pid()}, std::uint64_t{holder.session_id()}, Uid{holder.uid()}, role_of(holder),
         std::vector<std::uint64_t>(holder.versions().begin(), holder.versions().end()),
         Bytes{slots_held(holder) * holder.array_bytes()}, Time{holder.since_unix_ms()},
         Command{holder.command()}, holder.writer(), holder.writing(), holder.subscribed(),
         holder.connected(), holder.withdrawn()});
  }
  print(table, options);
  return absl::OkStatus();
}

absl::Status list_sessions(const Connection& daemon, const Options& options) {
  const auto reply = daemon.admin->list_sessions();
  if (!reply.ok()) return reply.status();
  Table table{"sessions",
              {{"session", "SESSION"},
               {"pid", "PID"},
               {"uid", "USER"},
               {"gid", ""},
               {"arrays_open", "ARRAYS"},
               {"bytes_created", "BYTES"},
               {"connected", "CONNECTED"},
               {"since_unix_ms", "SINCE"},
               {"command", "COMMAND"}},
              {}};
  for (const v1::SessionInfo& session : reply->sessions()) {
    table.rows.push_back({std::uint64_t{session.session_id()}, Pid{session.pid()},
                          Uid{session.uid()}, std::uint64_t{session.gid()},
                          std::uint64_t{session.arrays_open()}, Bytes{session.bytes_created()},
                          session.connected(), Time{session.since_unix_ms()},
                          Command{session.command()}});
  }
  print(table, options);
  return absl::OkStatus();
}

absl::Status evict(const Connection& daemon, const Options& options, std::uint32_t session) {
  if (auto status = daemon.admin->evict(session); !status.ok()) return status;
  print_record({"", {{"evicted", "Evicted session"}}, {{std::uint64_t{session}}}}, options);
  return absl::OkStatus();
}

}  // namespace memlease::ctl
