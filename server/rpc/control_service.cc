#include "server/rpc/control_service.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "server/core/name_pattern.h"
#include "server/rpc/array_list.h"
#include "server/rpc/open_array.h"
#include "server/rpc/report_convert.h"
#include "server/rpc/room_wait.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::server {
namespace {

constexpr int kNamesOfPage = 8192;

// Nobody takes the answer of a call that its client has given up: what it has opened is given back.
absl::Status give_back_if_cancelled(const grpc::ServerContext& context, Broker& broker,
                                    Session& session, const Broker::Opened& opened) {
  return context.IsCancelled() ? broker.leave(session, opened.array->id, 1) : absl::OkStatus();
}

absl::Status too_many_departures(int count) {
  return wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      fmt::format("{} arrays are to be left by one call, which takes {} at most", count,
                  wire::kMostDepartures),
      "Leave them by several calls.");
}

std::span<const std::uint8_t> credential_of(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto token = metadata.find("memlease-token-bin");
  if (token == metadata.end()) return {};
  return {reinterpret_cast<const std::uint8_t*>(token->second.data()), token->second.size()};
}

}  // namespace

grpc::Status ControlService::for_session(const grpc::ServerContextBase& context, const char* call,
                                         const SessionCall& fn) {
  return for_session(context, call, {}, [&](Broker& broker, Session& session, const auto&) {
    return fn(broker, session);
  });
}

grpc::Status ControlService::for_session(const grpc::ServerContextBase& context, const char* call,
                                         const std::optional<SegmentPool::Growth>& growth,
                                         const GrownCall& fn) {
  absl::Status status;
  bool has_session = true;
  const auto authenticated = [&](Broker& broker, const absl::Status& grown) {
    auto session = broker.authenticate(credential_of(context), uid_);
    has_session = session.ok();
    status = has_session ? fn(broker, **session, grown) : session.status();
  };
  if (growth) {
    host_.grow(*growth, authenticated);
  } else {
    host_.with_broker([&](Broker& broker) { authenticated(broker, absl::OkStatus()); });
  }
  host_.log().debug("call",
                    {{"name", call},
                     {"uid", uid_},
                     {"answer", status.ok() ? "OK" : wire::name_of(wire::code_of(status))}});
  grpc::Status answered = answer(status);
  if (has_session) return answered;
  return {grpc::StatusCode::UNAUTHENTICATED, answered.error_message(), answered.error_details()};
}

grpc::Status ControlService::answer(const absl::Status& status) {
  host_.call_errors().count(status);
  return wire::to_grpc(status);
}

// Memory that is missing is made between two rounds, without the broker's lock.
grpc::Status ControlService::with_memory(const grpc::ServerContext& context, const char* call,
                                         const MemoryCall& fn, std::optional<wire::ArrayId> array) {
  RoomWait room(host_, uid_);
  std::optional<SegmentPool::Growth> growth;
  for (;;) {
    bool again = false;
    std::optional<SegmentPool::Growth> missing;
    const auto round = [&](Broker& broker, Session& session, const absl::Status& grown) {
      Lacking lacks = grown.ok() ? fn(broker, session) : grown;
      if (lacks.ok()) {
        missing = *std::move(lacks);
        return absl::OkStatus();
      }
      again = !context.IsCancelled() &&
              room.begin(broker, lacks.status(), broker.payer_of(session, array));
      return again ? absl::OkStatus() : lacks.status();
    };
    grpc::Status status = for_session(context, call, growth, round);
    if (!status.ok() || (!missing && !again)) return status;
    room.wait();
    growth = std::move(missing);
  }
}

grpc::Status ControlService::make(const grpc::ServerContext& context, const char* call,
                                  const std::string& device, const Make& make, v1::OpenReply& reply,
                                  std::optional<wire::ArrayId> array) {
  bool prepared = false;
  bool prepare = false;
  const auto create = [&](Broker& broker, Session& session) -> Lacking {
    // Not before the caller is known: nobody else makes the daemon load CUDA.
    prepare = !prepared && !broker.has_device(device);
    if (prepare) return std::nullopt;
    auto creation = make(broker, session);
    if (!creation.ok()) return creation.status();
    const auto* opened = std::get_if<Broker::Opened>(&*creation);
    if (opened == nullptr) return std::get<SegmentPool::Growth>(*std::move(creation));
    fill(*opened, host_.host_waits_ms(), reply);
    if (auto given = give_back_if_cancelled(context, broker, session, *opened); !given.ok()) {
      return given;
    }
    return std::nullopt;
  };
  grpc::Status status = with_memory(context, call, create, array);
  if (!status.ok() || !prepare) return status;
  if (auto found = host_.prepare_device(device); !found.ok()) return answer(found);
  prepared = true;
  return with_memory(context, call, create, array);
}

grpc::Status ControlService::Create(grpc::ServerContext* context, const v1::CreateRequest* request,
                                    v1::OpenReply* reply) {
  const auto creating = from_proto(*request);
  if (!creating.ok()) return answer(creating.status());
  const auto create = [&](Broker& broker, Session& session) {
    return creating->in(broker, session);
  };
  return make(*context, "Create", creating->spec.device, create, *reply);
}

grpc::Status ControlService::OpenReplica(grpc::ServerContext* context,
                                         const v1::ReplicaRequest* request, v1::OpenReply* reply) {
  const wire::ArrayId id{request->array_id()};
  if (request->which_case() == v1::ReplicaRequest::kDevice) {
    const auto open = [&](Broker& broker, Session& session) {
      return broker.open_replica(session, id, request->device());
    };
    return make(*context, "OpenReplica", request->device(), open, *reply, id);
  }
  return for_session(*context, "OpenReplica", [&](Broker& broker, Session& session) {
    auto opened = broker.open_replica(session, id, request->number());
    if (!opened.ok()) return opened.status();
    fill(*opened, host_.host_waits_ms(), *reply);
    return give_back_if_cancelled(*context, broker, session, *opened);
  });
}

grpc::Status ControlService::WriteElsewhere(grpc::ServerContext* context,
                                            const v1::ArrayRequest* request, v1::Empty* /*reply*/) {
  return for_session(*context, "WriteElsewhere", [&](Broker& broker, Session& session) {
    return broker.write_elsewhere(session, wire::ArrayId{request->array_id()});
  });
}

grpc::Status ControlService::Open(grpc::ServerContext* context, const v1::OpenRequest* request,
                                  v1::OpenReply* reply) {
  const auto open = [&](Broker& broker, Session& session) -> Lacking {
    auto opened = broker.open(session, request->name(), owner_of(*request), request->subscribe());
    if (!opened.ok()) return opened.status();
    fill(*opened, host_.host_waits_ms(), *reply);
    if (auto given = give_back_if_cancelled(*context, broker, session, *opened); !given.ok()) {
      return given;
    }
    return std::nullopt;
  };
  return with_memory(*context, "Open", open);
}

grpc::Status ControlService::Subscribe(grpc::ServerContext* context,
                                       const v1::ArrayRequest* request, v1::SubscribeReply* reply) {
  const auto subscribe = [&](Broker& broker, Session& session) -> Lacking {
    auto subscribed = broker.subscribe(session, wire::ArrayId{request->array_id()});
    if (!subscribed.ok()) return subscribed.status();
    fill(*subscribed, *reply);
    return std::nullopt;
  };
  return with_memory(*context, "Subscribe", subscribe);
}

grpc::Status ControlService::AcquireWriter(grpc::ServerContext* context,
                                           const v1::ArrayRequest* request,
                                           v1::AcquireWriterReply* reply) {
  const auto acquire = [&](Broker& broker, Session& session) -> Lacking {
    auto answer = broker.acquire_writer(session, wire::ArrayId{request->array_id()});
    if (!answer.ok()) return answer.status();
    reply->set_state(static_cast<v1::AcquireWriterReply::State>(answer->state));
    *reply->mutable_row() = wire::to_proto(answer->row);
    *reply->mutable_from() = wire::to_proto(answer->from);
    reply->set_offer(answer->offer);
    if (answer->ahead == 0) return std::nullopt;
    reply->set_ahead(answer->ahead);
    *reply->mutable_turn_at() = wire::to_proto(answer->turn.at);
    reply->set_turn(answer->turn.count);
    return std::nullopt;
  };
  return with_memory(*context, "AcquireWriter", acquire);
}

grpc::Status ControlService::ConfirmWriter(grpc::ServerContext* context,
                                           const v1::ConfirmWriterRequest* request,
                                           v1::Empty* /*reply*/) {
  return for_session(*context, "ConfirmWriter", [&](Broker& broker, Session& session) {
    return broker.confirm_writer(session, wire::ArrayId{request->array_id()}, request->offer());
  });
}

grpc::Status ControlService::AddSlot(grpc::ServerContext* context,
                                     const v1::AddSlotRequest* request, v1::Empty* /*reply*/) {
  const wire::ArrayId array{request->array_id()};
  const auto add = [&](Broker& broker, Session& session) {
    return broker.add_slot(session, array, request->slots());
  };
  return with_memory(*context, "AddSlot", add, array);
}

grpc::Status ControlService::CancelWriter(grpc::ServerContext* context,
                                          const v1::ArrayRequest* request, v1::Empty* /*reply*/) {
  return for_session(*context, "CancelWriter", [&](Broker& broker, Session& session) {
    return broker.cancel_writer(session, wire::ArrayId{request->array_id()});
  });
}

grpc::Status ControlService::Leave(grpc::ServerContext* context, const v1::LeaveRequest* request,
                                   v1::Empty* /*reply*/) {
  return for_session(*context, "Leave", [&](Broker& broker, Session& session) -> absl::Status {
    if (static_cast<std::size_t>(request->departures_size()) > wire::kMostDepartures) {
      return too_many_departures(request->departures_size());
    }
    session.done_departures.note_answered(request->answered_below());
    absl::Status answer;
    for (const v1::Departure& departure : request->departures()) {
      const auto left = broker.leave_once(session, wire::ArrayId{departure.array_id()},
                                          departure.opens(), departure.number());
      // Which alone says that it is worth to ask again.
      const bool busy = wire::code_of(left) == wire::ErrorCode::kBusy;
      if (busy || answer.ok()) answer = left;
    }
    return answer;
  });
}

grpc::Status ControlService::Withdraw(grpc::ServerContext* context, const v1::NameRequest* request,
                                      v1::Empty* /*reply*/) {
  return for_session(*context, "Withdraw", [&](Broker& broker, Session& session) {
    return broker.withdraw(session.peer, request->name());
  });
}

grpc::Status ControlService::List(grpc::ServerContext* context, const v1::ListRequest* request,
                                  v1::ListReply* reply) {
  const auto pattern = NamePattern::parse(request->pattern());
  if (!pattern.ok()) return answer(pattern.status());
  PeerIdentity viewer;
  grpc::Status status = for_session(*context, "List", [&](Broker& /*broker*/, Session& session) {
    viewer = session.peer;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  const auto matches = [&](std::string_view name) { return pattern->matches(name); };
  ArrayCollector collector(viewer, ArrayCollector::Kinds::kHomes, pattern->prefix(),
                           request->from());
  std::size_t bytes = 0;
  while (!collector.done() && reply->names_size() < kNamesOfPage && bytes < kBytesOfPage) {
    for (ArrayCollector::Found& found : next_matches(host_, collector, matches)) {
      bytes += found.name.size();
      reply->add_names(std::move(found.name));
    }
  }
  if (!collector.done()) reply->set_next(collector.place());
  return grpc::Status::OK;
}

grpc::Status ControlService::LookUp(grpc::ServerContext* context, const v1::LookUpRequest* request,
                                    v1::LookUpReply* reply) {
  return for_session(*context, "LookUp", [&](Broker& broker, Session& session) {
    if (auto valid = wire::validate_name(request->name()); !valid.ok()) return valid;
    reply->set_exists(broker.exists(session.peer, request->name()));
    if (reply->exists() || !request->to_wait()) return absl::OkStatus();
    const auto creations = broker.creations(request->name());
    if (!creations.ok()) return creations.status();
    *reply->mutable_count_at() = wire::to_proto(creations->at);
    reply->set_count(creations->count);
    return absl::OkStatus();
  });
}

grpc::Status ControlService::ImportMemory(grpc::ServerContext* context,
                                          const v1::FileRequest* request,
                                          v1::ImportMemoryReply* reply) {
  return for_session(*context, "ImportMemory", [&](Broker& broker, Session& session) {
    auto memory = broker.imports().open_memory(session, wire::FileId{request->file_id()});
    if (!memory.ok()) return memory.status();
    reply->set_handle(wire::to_proto(memory->handle));
    reply->set_size_bytes(memory->size_bytes);
    return absl::OkStatus();
  });
}

grpc::Status ControlService::CloseImports(grpc::ServerContext* context,
                                          const v1::CloseImportsRequest* request,
                                          v1::Empty* /*reply*/) {
  return for_session(*context, "CloseImports", [&](Broker& broker, Session& session) {
    for (const std::uint32_t id : request->file_ids()) {
      broker.imports().close_memory(session, wire::FileId{id});
    }
    return absl::OkStatus();
  });
}

grpc::Status ControlService::Holders(grpc::ServerContext* context, const v1::ArrayRequest* request,
                                     v1::HoldersReply* reply) {
  return for_session(*context, "Holders", [&](Broker& broker, Session& session) {
    const wire::ArrayId id{request->array_id()};
    const Array* array = broker.catalog().find(id);
    if (array == nullptr || !session.memberships.contains(id)) {
      return wire::make_error(wire::ErrorCode::kNotFound,
                              fmt::format("array {} is not open in this session", to_int(id)),
                              "Open it first.");
    }
    add_holders(broker, *array, *reply);
    return absl::OkStatus();
  });
}

}  // namespace memlease::server
