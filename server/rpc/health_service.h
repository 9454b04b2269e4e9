// Whether the daemon takes new work, by gRPC's health protocol: the Check of the whole server.
// gRPC's own service is not used, as it is made of callbacks (call_queue.h). Thread-safe.
#pragma once

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>

#include <atomic>

namespace memlease::server {

class HealthService final : public grpc::Service {
 public:
  HealthService();
  void set_serving(bool serving) { serving_ = serving; }

 private:
  // The protocol's messages as ones that protobuf brings: on the wire HealthCheckRequest{service =
  // 1} is a StringValue, and HealthCheckResponse{status = 1}, an enum, is an Int32Value.
  grpc::Status check(const google::protobuf::StringValue& service,
                     google::protobuf::Int32Value& status) const;

  std::atomic<bool> serving_{true};
};

}  // namespace memlease::server
