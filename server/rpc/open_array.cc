#include "server/rpc/open_array.h"

#include <cassert>
#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "server/rpc/room_wait.h"
#include "wire/attach_frame.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::server {

void fill(const Broker::Subscribed& subscribed, v1::SubscribeReply& reply) {
  *reply.mutable_row() = wire::to_proto(subscribed.row);
}

// What a client needs to map an array.
void fill(const Broker::Opened& opened, std::uint64_t host_waits_ms, v1::OpenReply& reply) {
  const Array& array = *opened.array;
  reply.set_array_id(wire::to_int(array.id));
  *reply.mutable_spec() = wire::to_proto(array.spec());
  *reply.mutable_board_record() = wire::to_proto(array.board_at);
  // The board says where the others are.
  for (std::uint32_t s = 0; s < array.kind->slots; ++s) {
    *reply.add_slots() = wire::to_proto(array.slots[s]);
  }
  reply.set_slot_bytes(array.slot_bytes);
  reply.set_may_write(opened.may_write);
  reply.set_created(opened.created);
  reply.set_owner_uid(array.domain.uid);
  reply.set_owner_gid(array.domain.gid);
  if (!array.rare().write_events.empty()) {
    *reply.mutable_events() = wire::to_proto(array.rare().write_events.at());
  }
  reply.set_host_waits_ms(host_waits_ms);
  if (opened.subscribed) {
    fill(*opened.subscribed, *reply.mutable_subscribed());
    *reply.mutable_writer() = wire::to_proto(opened.writer);
  }
  if (!array.rare().home) {
    if (array.rare().attributes)
      *reply.mutable_attributes() = wire::to_proto(*array.rare().attributes);
    return;
  }
  reply.set_home_id(wire::to_int(*array.rare().home));
  reply.set_replica_number(array.rare().replica_number);
}

absl::StatusOr<Creating> from_proto(const v1::CreateRequest& request) {
  auto spec = wire::from_proto(request.spec());
  if (!spec.ok()) return spec.status();
  auto attributes = wire::shared_from_proto(request.attributes());
  if (!attributes.ok()) return attributes.status();
  return Creating{*std::move(spec), *std::move(attributes), request.exist_ok(), owner_of(request)};
}

namespace {

absl::Status no_request(const char* call) {
  return wire::make_error(wire::ErrorCode::kInvalidArgument,
                          fmt::format("OPEN has no request of {}", call),
                          "Only memlease's own client library speaks to attach.sock.");
}

// Nothing: what it takes, takes long.
using Opening =
    std::function<absl::StatusOr<std::optional<Broker::Opened>>(Broker& broker, Session& session)>;

absl::StatusOr<OpenedArray> with_files(ServiceHost& host, wire::SessionId id, const char* call,
                                       const Opening& open) {
  v1::OpenReply reply;
  OpenedArray answer;
  absl::Status status;
  uid_t uid = 0;
  host.with_broker([&](Broker& broker) {
    Session& session = *broker.sessions().find(id);
    uid = session.peer.uid;
    const auto opened = open(broker, session);
    status = opened.status();
    if (RoomWait::is_worthwhile(host, broker, status, uid)) {
      status = absl::OkStatus();  // a call can wait
      return;
    }
    if (!opened.ok() || !*opened) return;
    fill(**opened, host.host_waits_ms(), reply);
    if (reply.ByteSizeLong() > wire::kMaxCallBytes) {
      assert(!(*opened)->created);
      reply.Clear();
      status = broker.leave(session, (*opened)->array->id, 1);
      return;
    }
    for (const wire::FileId file : (*opened)->new_files) {
      auto grant = broker.fetch_file(id, file);
      if (grant.ok()) answer.files.push_back({file, *std::move(grant)});
    }
  });
  if (status.ok() && reply.array_id() == 0) return answer;
  host.log().debug("call", {{"name", call},
                            {"uid", uid},
                            {"answer", status.ok() ? "OK" : wire::name_of(wire::code_of(status))}});
  host.call_errors().count(status);
  if (!status.ok()) return status;
  answer.answer = reply.SerializeAsString();
  return answer;
}

}  // namespace

absl::StatusOr<OpenedArray> open_array(ServiceHost& host, wire::SessionId id,
                                       const std::string& request) {
  v1::OpenRequest asked;
  if (!asked.ParseFromString(request)) return no_request("Open");
  const auto open = [&](Broker& broker,
                        Session& session) -> absl::StatusOr<std::optional<Broker::Opened>> {
    return broker.open(session, asked.name(), owner_of(asked), asked.subscribe());
  };
  return with_files(host, id, "Open", open);
}

// An array that is made must be answered: what its answer has beside the request, places of slots
// above all, has room there.
absl::StatusOr<OpenedArray> create_array(ServiceHost& host, wire::SessionId id,
                                         const std::string& request) {
  if (request.size() > wire::kMaxCreateBytes) return OpenedArray{};
  v1::CreateRequest asked;
  if (!asked.ParseFromString(request)) return no_request("Create");
  const auto creating = from_proto(asked);
  if (!creating.ok()) {
    host.call_errors().count(creating.status());
    return creating.status();
  }
  const auto create = [&](Broker& broker,
                          Session& session) -> absl::StatusOr<std::optional<Broker::Opened>> {
    if (!broker.has_device(creating->spec.device)) return std::nullopt;
    auto creation = creating->in(broker, session);
    if (!creation.ok()) return creation.status();
    if (auto* opened = std::get_if<Broker::Opened>(&*creation)) return std::move(*opened);
    // Memory is not made on this thread.
    const auto& growth = std::get<SegmentPool::Growth>(*creation);
    broker.add_memory(growth, absl::CancelledError()).IgnoreError();
    return std::nullopt;
  };
  return with_files(host, id, "Create", create);
}

}  // namespace memlease::server
