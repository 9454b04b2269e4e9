// holders, sessions, evict.
#include <vector>

#include "client/ctl/commands.h"
#include "client/ctl/listing.h"
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

using Holder = v1::Holder;

const Field<Holder> kHolderFields[] = {
    {"array", "", "", [](const Holder& h) -> Cell { return h.array(); }},
    {"", "ARRAY", "",
     [](const Holder& h) -> Cell { return h.array() + (h.withdrawn() ? " (withdrawn)" : ""); }},
    {"pid", "PID", "", [](const Holder& h) -> Cell { return Pid{h.pid()}; }},
    {"session", "SESSION", "",
     [](const Holder& h) -> Cell { return std::uint64_t{h.session_id()}; }},
    {"uid", "USER", "", [](const Holder& h) -> Cell { return Uid{h.uid()}; }},
    {"", "ROLE", "", [](const Holder& h) -> Cell { return role_of(h); }},
    {"versions", "VERSIONS", "",
     [](const Holder& h) -> Cell {
       return std::vector<std::uint64_t>(h.versions().begin(), h.versions().end());
     }},
    {"bytes", "BYTES", "",
     [](const Holder& h) -> Cell { return Bytes{slots_held(h) * h.array_bytes()}; }},
    {"since_unix_ms", "SINCE", "", [](const Holder& h) -> Cell { return Time{h.since_unix_ms()}; }},
    {"command", "COMMAND", "", [](const Holder& h) -> Cell { return Command{h.command()}; }},
    {"writer", "", "", [](const Holder& h) -> Cell { return h.writer(); }},
    {"writing", "", "", [](const Holder& h) -> Cell { return h.writing(); }},
    {"subscribed", "", "", [](const Holder& h) -> Cell { return h.subscribed(); }},
    {"connected", "", "", [](const Holder& h) -> Cell { return h.connected(); }},
    {"withdrawn", "", "", [](const Holder& h) -> Cell { return h.withdrawn(); }},
};

}  // namespace

absl::Status list_holders(const Connection& daemon, const Options& options,
                          const std::string& name) {
  if (!name.empty()) {
    if (auto status = wire::validate_opened_name(name); !status.ok()) return status;
  }
  using HolderField = Field<Holder>;
  std::vector<const HolderField*> fields;
  std::vector<Column> columns;
  for (const HolderField& field : kHolderFields) {
    if ((options.json ? field.key : field.title).empty()) continue;
    fields.push_back(&field);
    columns.push_back({field.key, field.title});
  }
  Listing listing("holders", columns, options);
  const auto ask = [&](const std::string& from) { return daemon.admin->list_holders(name, from); };
  const auto show = [&](const v1::HoldersReply& page) {
    std::vector<Row> rows;
    rows.reserve(static_cast<std::size_t>(page.holders_size()));
    for (const Holder& holder : page.holders()) {
      Row& row = rows.emplace_back();
      row.reserve(fields.size());
      for (const HolderField* field : fields) row.push_back(field->cell_of(holder));
    }
    listing.add(rows);
    return absl::OkStatus();
  };
  if (auto status = for_each_page<v1::HoldersReply>(ask, show); !status.ok()) return status;
  listing.end();
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
