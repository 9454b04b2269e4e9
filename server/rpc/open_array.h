// What the calls that open arrays are asked and answer, and those that come over the attach
// channel, where the array's files come with the answer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "memlease/v1/control.pb.h"
#include "server/core/broker.h"
#include "server/core/session_host.h"
#include "server/rpc/service_host.h"
#include "wire/array_spec.h"
#include "wire/ids.h"

namespace memlease::server {

// Of a request that may say whose array it wants.
template <typename Request>
std::optional<uid_t> owner_of(const Request& request) {
  return request.has_owner_uid() ? std::optional<uid_t>(request.owner_uid()) : std::nullopt;
}

void fill(const Broker::Subscribed& subscribed, v1::SubscribeReply& reply);
// What a client needs to map an array.
void fill(const Broker::Opened& opened, std::uint64_t host_waits_ms, v1::OpenReply& reply);

// Of the call Create.
struct Creating {
  wire::ArraySpec spec;
  SharedAttributes attributes;  // null: none
  bool exist_ok = false;
  std::optional<uid_t> owner;

  absl::StatusOr<Broker::Creation> in(Broker& broker, Session& session) const {
    return broker.create(session, spec, exist_ok, attributes, owner);
  }
};
absl::StatusOr<Creating> from_proto(const v1::CreateRequest& request);

// The calls Open and Create, as SessionHost has them. The request is not trusted.
absl::StatusOr<OpenedArray> open_array(ServiceHost& host, wire::SessionId session,
                                       const std::string& request);
absl::StatusOr<OpenedArray> create_array(ServiceHost& host, wire::SessionId session,
                                         const std::string& request);

}  // namespace memlease::server
