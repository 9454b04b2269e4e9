// What a client that has a session and a token may ask for and must not get. The client library
// would refuse most of it itself.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "memlease/v1/control.grpc.pb.h"
#include "tests/integration/raw_control.h"
#include "wire/error.h"

namespace memlease::testing {

// That would succeed.
v1::CreateRequest good_create(const std::string& name);

// A session without the library; `id` is an array of somebody else that it has not opened.
struct Attacker {
  RawControl& control;
  std::string credential;
  std::uint64_t id;

  template <typename Request, typename Reply>
  absl::Status call(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Reply*),
                    const Request& request = {}) const {
    return control.call(method, credential, request);
  }
  template <typename Reply>
  absl::Status on_array(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*,
                                                                  const v1::ArrayRequest&, Reply*),
                        std::uint64_t array_id) const {
    v1::ArrayRequest request;
    request.set_array_id(array_id);
    return call(method, request);
  }
  absl::Status confirm(std::uint64_t array_id, std::uint64_t offer) const {
    v1::ConfirmWriterRequest request;
    request.set_array_id(array_id);
    request.set_offer(offer);
    return call(&v1::Control::Stub::ConfirmWriter, request);
  }
  absl::Status leave(std::uint64_t array_id, std::uint32_t opens, std::uint64_t number = 0) const {
    v1::LeaveRequest request;
    add_departure(request, array_id, opens);
    request.mutable_departures(0)->set_number(number);
    return call(&v1::Control::Stub::Leave, request);
  }
  // The array itself is the last of them.
  absl::Status leave_many(std::size_t arrays) const {
    v1::LeaveRequest request;
    for (std::size_t i = 1; i < arrays; ++i) add_departure(request, UINT64_MAX - i, 1);
    add_departure(request, id, UINT32_MAX);
    return call(&v1::Control::Stub::Leave, request);
  }
  static void add_departure(v1::LeaveRequest& request, std::uint64_t array_id,
                            std::uint32_t opens) {
    v1::Departure& departure = *request.add_departures();
    departure.set_array_id(array_id);
    departure.set_opens(opens);
  }
};

struct Hostile {
  std::string name;
  wire::ErrorCode code;
  std::function<absl::Status(const Attacker&)> call;
};
inline void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

// One of each kind. Each is refused by its code.
std::span<const Hostile> hostile_calls();

}  // namespace memlease::testing
