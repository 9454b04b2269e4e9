#include "server/rpc/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/core/audit.h"
#include "server/core/name_pattern.h"
#include "server/rpc/account.h"
#include "server/rpc/array_list.h"
#include "server/rpc/history_call.h"
#include "server/rpc/report_convert.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::server {
namespace {

using wire::ErrorCode;
using wire::make_error;

// Of a list: more than that by one array at most.

// The daemon's own uid may do what root may.
PeerIdentity viewer_of(uid_t uid) { return account_of(uid == geteuid() ? 0 : uid); }

bool may_see(const PeerIdentity& viewer, uid_t uid) { return viewer.uid == 0 || viewer.uid == uid; }
// The account that he spends on, which may be another uid's.
bool may_see(const PeerIdentity& viewer, const Quota& quota, const Account& account) {
  return viewer.uid == 0 || quota.find(viewer.uid) == &account;
}

// Returns the bytes of everybody's arrays.
std::uint64_t fill_quotas(const Broker& broker, const PeerIdentity& viewer,
                          v1::StatusReply& reply) {
  const Quota& bytes = broker.host().quota;
  std::uint64_t array_bytes = 0;
  const Usage limits = broker.quota().limits();
  for (const auto& [uid, account] : broker.quota().accounts()) {
    const std::uint64_t used_bytes = bytes.used_by(uid).bytes;
    array_bytes += used_bytes;
    if (!may_see(viewer, broker.quota(), account)) continue;
    const Usage usage = account.usage();
    v1::Quota& quota = *reply.add_quotas();
    quota.set_uid(uid);
    quota.set_bytes(used_bytes);
    quota.set_bytes_limit(bytes.limits().bytes);
    quota.set_arrays(usage.arrays);
    quota.set_arrays_limit(limits.arrays);
    quota.set_sessions(usage.sessions);
    quota.set_sessions_limit(limits.sessions);
    quota.set_descriptors(usage.descriptors);
    quota.set_descriptors_limit(limits.descriptors);
  }
  auto& quotas = *reply.mutable_quotas();
  std::sort(quotas.pointer_begin(), quotas.pointer_end(),
            [](const v1::Quota* a, const v1::Quota* b) { return a->uid() < b->uid(); });
  return array_bytes;
}

void add_spending(const Quota& quota, std::initializer_list<Resource> kinds,
                  const std::string& device, const PeerIdentity& viewer, v1::StatusReply& reply) {
  const Usage limits = quota.limits();
  for (const auto& [uid, account] : quota.accounts()) {
    if (!may_see(viewer, quota, account)) continue;
    for (const Resource kind : kinds) {
      v1::Spending& spending = *reply.add_spending();
      spending.set_uid(uid);
      spending.set_what(std::string(facts_of(kind).name));
      spending.set_used(account.used(kind));
      spending.set_limit(limits.*facts_of(kind).amount);
      spending.set_device(device);
    }
  }
}

// What is not among the quotas already.
void fill_spending(const Broker& broker, const PeerIdentity& viewer, v1::StatusReply& reply) {
  add_spending(
      broker.quota(),
      {Resource::kOpenArrays, Resource::kPageBytes, Resource::kFileNumbers, Resource::kConnections,
       Resource::kWaitingCalls, Resource::kRequests, Resource::kRequestBytes},
      "", viewer, reply);
  for (const auto& [name, device] : broker.devices().all()) {
    add_spending(device.quota, {Resource::kSegmentBytes, Resource::kWarmBytes},
                 &device == &broker.host() ? "" : name, viewer, reply);
  }
}

// Of those whose quotas are there.
void fill_log_lines(UidLogLimiters& log_lines, v1::StatusReply& reply) {
  for (const v1::Quota& quota : reply.quotas()) {
    v1::Spending& spending = *reply.add_spending();
    spending.set_uid(quota.uid());
    spending.set_what("log_lines");
    spending.set_used(log_lines.lines_of(quota.uid()));
    spending.set_limit(log_lines.limit());
  }
}

void fill_gpu(const Device& device, const PeerIdentity& viewer, v1::GpuStatus& gpu) {
  gpu.set_device(device.backend().device());
  gpu.set_name(device.backend().name());
  gpu.set_total_bytes(device.backend().total_bytes());
  gpu.set_memory_bytes(device.segments.memory_bytes());
  gpu.set_memory_limit_bytes(device.segments.memory_limit_bytes());
  gpu.set_warm_bytes(device.segments.warm_bytes());
  gpu.set_bytes_limit(device.quota.limits().bytes);
  std::uint64_t array_bytes = 0;
  for (const auto& [uid, account] : device.quota.accounts()) {
    const std::uint64_t bytes = account.used(Resource::kBytes);
    array_bytes += bytes;
    if (!may_see(viewer, device.quota, account)) continue;
    v1::GpuUsage& used = *gpu.add_usage();
    used.set_uid(uid);
    used.set_bytes(bytes);
  }
  gpu.set_array_bytes(array_bytes);
}

// Of those that are still there. Others have the core after some of them.
std::uint64_t bytes_of(ServiceHost& host, const std::vector<wire::ArrayId>& arrays) {
  constexpr std::size_t kPerStep = 512;
  std::uint64_t bytes = 0;
  for (auto next = arrays.begin(); next != arrays.end();) {
    host.with_broker([&](Broker& broker) {
      for (std::size_t i = 0; i < kPerStep && next != arrays.end(); ++i) {
        const Array* const array = broker.catalog().find(*next++);
        if (array != nullptr) bytes += array->slot_bytes * array->slots.size();
      }
    });
  }
  return bytes;
}

}  // namespace

AdminService::AdminService(ServiceHost& host, uid_t uid) : host_(host), uid_(uid) {}

grpc::Status AdminService::answer(const absl::Status& status) {
  host_.call_errors().count(status);
  return wire::to_grpc(status);
}

grpc::Status AdminService::Status(grpc::ServerContext* /*context*/, const v1::Empty* /*request*/,
                                  v1::StatusReply* reply) {
  const PeerIdentity viewer = viewer_of(uid_);
  const DaemonFacts facts = host_.facts();
  reply->set_version(facts.version);
  reply->set_incarnation(facts.incarnation);
  reply->set_pid(getpid());
  reply->set_uid(geteuid());
  reply->set_sockets_passed(facts.sockets_passed);
  reply->set_directory(facts.directory);
  reply->set_uptime_ms(facts.uptime_ms);
  reply->set_huge_pages(facts.huge_pages);
  host_.with_broker([&](Broker& broker) {
    reply->set_draining(broker.draining());
    reply->set_arrays(broker.catalog().size());
    reply->set_sessions(broker.sessions().size());
    const SegmentPool& memory = broker.host().segments;
    reply->set_memory_bytes(memory.memory_bytes());
    reply->set_memory_limit_bytes(memory.memory_limit_bytes());
    reply->set_warm_bytes(memory.warm_bytes());
    reply->set_kept_bytes(memory.kept_bytes());
    reply->set_array_bytes(fill_quotas(broker, viewer, *reply));
    fill_spending(broker, viewer, *reply);
    for (const auto& [name, device] : broker.devices().all()) {
      if (&device != &broker.host()) fill_gpu(device, viewer, *reply->add_gpus());
    }
  });
  fill_log_lines(host_.log_lines(), *reply);
  return grpc::Status::OK;
}

grpc::Status AdminService::ListArrays(grpc::ServerContext* /*context*/,
                                      const v1::ListArraysRequest* request,
                                      v1::ListArraysReply* reply) {
  using Kinds = ArrayCollector::Kinds;
  const PeerIdentity viewer = viewer_of(uid_);
  const auto pattern = NamePattern::parse(request->pattern());
  if (!pattern.ok()) return answer(pattern.status());
  // Bytes that are still there although the name has gone: for those who may see everything.
  ArrayCollector collector(viewer, viewer.uid == 0 ? Kinds::kAll : Kinds::kNamed, pattern->prefix(),
                           request->from());
  std::vector<std::pair<v1::ArrayInfo*, SharedAttributes>> described;
  std::size_t bytes = 0;
  reply->set_next(visit_page(
      host_, collector, [&](std::string_view name) { return pattern->matches(name); },
      [&](Broker& broker, const Array& array) {
        v1::ArrayInfo& info = *reply->add_arrays();
        fill(broker, array, info);
        bytes += info.ByteSizeLong();
        if (request->attributes() && array.rare().attributes != nullptr) {
          described.emplace_back(&info, array.rare().attributes);
          bytes += array.rare().attribute_bytes;
        }
        return bytes >= kBytesOfPage;
      }));
  for (const auto& [info, attributes] : described) {
    *info->mutable_attributes() = wire::to_proto(*attributes);
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ListHolders(grpc::ServerContext* /*context*/,
                                       const v1::ListHoldersRequest* request,
                                       v1::HoldersReply* reply) {
  const PeerIdentity viewer = viewer_of(uid_);
  const std::string& name = request->name();
  bool exists = true;
  if (!name.empty() && request->from().empty()) {
    host_.with_broker([&](Broker& broker) { exists = broker.exists(viewer, name); });
  }
  if (!exists) {
    return answer(
        make_error(ErrorCode::kNotFound,
                   fmt::format("there is no array '{}' that uid {} may read", name, viewer.uid),
                   "List what there is: memleasectl ls."));
  }
  ArrayCollector collector(viewer, ArrayCollector::Kinds::kAll, name, request->from());
  std::size_t bytes = 0;
  reply->set_next(visit_page(
      host_, collector, [&](std::string_view other) { return name.empty() || other == name; },
      [&](Broker& broker, const Array& array) {
        int next = reply->holders_size();
        add_holders(broker, array, *reply);
        for (; next < reply->holders_size(); ++next) bytes += reply->holders(next).ByteSizeLong();
        return bytes >= kBytesOfPage;
      }));
  return grpc::Status::OK;
}

grpc::Status AdminService::ListSessions(grpc::ServerContext* /*context*/,
                                        const v1::Empty* /*request*/,
                                        v1::ListSessionsReply* reply) {
  const PeerIdentity viewer = viewer_of(uid_);
  std::vector<std::vector<wire::ArrayId>> created;  // of each session of the reply
  host_.with_broker([&](Broker& broker) {
    for (const Session* session : broker.sessions().all()) {
      if (!may_see(viewer, session->peer.uid)) continue;
      fill(*session, *reply->add_sessions());
      created.emplace_back(session->created.begin(), session->created.end());
    }
  });
  for (int i = 0; i < reply->sessions_size(); ++i) {
    reply->mutable_sessions(i)->set_bytes_created(
        bytes_of(host_, created[static_cast<std::size_t>(i)]));
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::WithdrawArray(grpc::ServerContext* /*context*/,
                                         const v1::NameRequest* request, v1::Empty* /*reply*/) {
  const PeerIdentity viewer = viewer_of(uid_);
  absl::Status status;
  host_.with_broker([&](Broker& broker) { status = broker.withdraw(viewer, request->name()); });
  return answer(status);
}

grpc::Status AdminService::Evict(grpc::ServerContext* /*context*/, const v1::EvictRequest* request,
                                 v1::Empty* /*reply*/) {
  const PeerIdentity viewer = viewer_of(uid_);
  const wire::SessionId id{request->session_id()};
  absl::Status status;
  host_.with_broker([&](Broker& broker) { status = broker.evict(viewer, id); });
  if (status.ok()) status = host_.evict(id);
  return answer(status);
}

grpc::Status AdminService::Metrics(grpc::ServerContext* /*context*/, const v1::Empty* /*request*/,
                                   v1::MetricsReply* reply) {
  reply->set_text(host_.metrics());
  return grpc::Status::OK;
}

grpc::Status AdminService::Sample(grpc::ServerContext* /*context*/,
                                  const v1::SampleRequest* request, v1::SampleReply* reply) {
  const PeerIdentity viewer = viewer_of(uid_);
  SamplePart part;
  for (bool more = true; more;) {
    host_.with_broker([&](Broker& broker) { more = fill(broker, *request, viewer, part, *reply); });
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::Verify(grpc::ServerContext* /*context*/, const v1::Empty* /*request*/,
                                  v1::VerifyReply* reply) {
  if (viewer_of(uid_).uid != 0) {
    return answer(make_error(ErrorCode::kDenied,
                             fmt::format("uid {} may not have the daemon's books verified", uid_),
                             "Call it as root, or as the daemon's own user."));
  }
  Audit found;
  host_.with_broker([&](const Broker& broker) { found = audit(broker); });
  for (std::string& violation : found.violations) reply->add_violations(std::move(violation));
  reply->set_wrong(found.wrong);
  reply->set_arrays(found.arrays);
  reply->set_sessions(found.sessions);
  reply->set_memberships(found.memberships);
  reply->set_files(found.files);
  reply->set_places(found.places);
  reply->set_accounts(found.accounts);
  return grpc::Status::OK;
}

void AdminService::expect_calls(CallQueue& queue) {
  HistoryCall::expect({*this, host_, queue, unread_events_, uid_, viewer_of(uid_)});
}

}  // namespace memlease::server
