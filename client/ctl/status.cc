// status, health.
#include "absl/strings/escaping.h"
#include "client/ctl/commands.h"
#include "fmt/format.h"
#include "memlease/v1/admin.pb.h"
#include "wire/error.h"

namespace memlease::ctl {

namespace {

Cell limit_of(std::uint64_t count) { return count == 0 ? Cell() : Cell(count); }

Table gpus_of(const v1::StatusReply& reply) {
  Table gpus{"gpus",
             {{"device", "GPU"},
              {"name", "NAME"},
              {"total_bytes", "MEMORY"},
              {"memory_bytes", "TAKEN"},
              {"memory_limit_bytes", "LIMIT"},
              {"array_bytes", "ARRAYS' BYTES"},
              {"warm_bytes", "KEPT WARM"}},
             {}};
  for (const v1::GpuStatus& gpu : reply.gpus()) {
    gpus.rows.push_back({Device{gpu.device()}, gpu.name(), Bytes{gpu.total_bytes()},
                         Bytes{gpu.memory_bytes()}, Limit{gpu.memory_limit_bytes()},
                         Bytes{gpu.array_bytes()}, Bytes{gpu.warm_bytes()}});
  }
  return gpus;
}

Table gpu_users_of(const v1::StatusReply& reply) {
  Table users{"gpu_quotas",
              {{"device", "GPU"}, {"uid", "USER"}, {"bytes", "BYTES"}, {"bytes_limit", "LIMIT"}},
              {}};
  for (const v1::GpuStatus& gpu : reply.gpus()) {
    for (const v1::GpuUsage& used : gpu.usage()) {
      users.rows.push_back(
          {Device{gpu.device()}, Uid{used.uid()}, Bytes{used.bytes()}, Limit{gpu.bytes_limit()}});
    }
  }
  return users;
}

// In text only what is not 0.
Table spending_of(const v1::StatusReply& reply, bool with_nothing) {
  Table spending{"spending",
                 {{"uid", "USER"},
                  {"what", "SPENDS"},
                  {"device", "GPU"},
                  {"used", "NOW", true},
                  {"limit", "LIMIT", true}},
                 {}};
  for (const v1::Spending& one : reply.spending()) {
    if (one.used() == 0 && !with_nothing) continue;
    const bool is_bytes = one.what().ends_with("bytes");
    const Cell device = one.device().empty() ? Cell() : Cell(Device{one.device()});
    const Cell used = is_bytes ? Cell(Bytes{one.used()}) : Cell(std::uint64_t{one.used()});
    const Cell limit = is_bytes ? Cell(Limit{one.limit()}) : limit_of(one.limit());
    spending.rows.push_back({Uid{one.uid()}, one.what(), device, used, limit});
  }
  return spending;
}

}  // namespace

absl::Status show_status(const Connection& daemon, const Options& options) {
  const auto reply = daemon.admin->status();
  if (!reply.ok()) return reply.status();
  const Table record{
      "",
      {{"version", "Version"},
       {"pid", "Pid"},
       {"directory", "Directory"},
       {"incarnation", "Incarnation"},
       {"uptime_ms", "Uptime"},
       {"draining", "Draining"},
       {"arrays", "Arrays"},
       {"sessions", "Sessions"},
       {"array_bytes", "Arrays' bytes"},
       {"memory_bytes", "Memory taken"},
       {"warm_bytes", "Memory kept warm"},
       {"kept_bytes", "Memory kept open"},
       {"memory_limit_bytes", "Memory limit"},
       {"huge_pages", "Huge pages"}},
      {{reply->version(), std::int64_t{reply->pid()}, reply->directory(),
        absl::BytesToHexString(reply->incarnation()), Duration{reply->uptime_ms()},
        reply->draining(), std::uint64_t{reply->arrays()}, std::uint64_t{reply->sessions()},
        Bytes{reply->array_bytes()}, Bytes{reply->memory_bytes()}, Bytes{reply->warm_bytes()},
        Bytes{reply->kept_bytes()}, Limit{reply->memory_limit_bytes()}, reply->huge_pages()}}};
  Table quotas{"quotas",
               {{"uid", "USER"},
                {"bytes", "BYTES"},
                {"bytes_limit", "LIMIT"},
                {"arrays", "ARRAYS"},
                {"arrays_limit", "LIMIT"},
                {"sessions", "SESSIONS"},
                {"sessions_limit", "LIMIT"},
                {"descriptors", "DESCRIPTORS"},
                {"descriptors_limit", "LIMIT"}},
               {}};
  for (const v1::Quota& quota : reply->quotas()) {
    quotas.rows.push_back({Uid{quota.uid()}, Bytes{quota.bytes()}, Limit{quota.bytes_limit()},
                           std::uint64_t{quota.arrays()}, limit_of(quota.arrays_limit()),
                           std::uint64_t{quota.sessions()}, limit_of(quota.sessions_limit()),
                           std::uint64_t{quota.descriptors()},
                           limit_of(quota.descriptors_limit())});
  }
  print_record(record, options,
               {quotas, gpus_of(*reply), gpu_users_of(*reply), spending_of(*reply, options.json)});
  return absl::OkStatus();
}

absl::Status show_health(const Connection& daemon, const Options& options) {
  const auto serving = daemon.admin->serving();
  if (!serving.ok()) return serving.status();
  print_record({"",
                {{"serving", ""}, {"", "Health"}},
                {{*serving, std::string(*serving ? "serving" : "draining")}}},
               options);
  if (*serving) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kBusy,
      fmt::format("the daemon in {} drains: it takes no new work", daemon.directory),
      "It ends soon; memleasectl holders shows who keeps it.");
}

}  // namespace memlease::ctl
