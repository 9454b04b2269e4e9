#include "server/rpc/health_service.h"

#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/rpc_service_method.h>

namespace memlease::server {

HealthService::HealthService() {
  using google::protobuf::Int32Value;
  using google::protobuf::StringValue;
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/grpc.health.v1.Health/Check", grpc::internal::RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<HealthService, StringValue, Int32Value>(
          [](HealthService* self, grpc::ServerContext* /*context*/, const StringValue* service,
             Int32Value* status) { return self->check(*service, *status); },
          this)));
}

grpc::Status HealthService::check(const google::protobuf::StringValue& service,
                                  google::protobuf::Int32Value& status) const {
  constexpr int kServing = 1, kNotServing = 2;
  if (!service.value().empty()) {
    return {grpc::StatusCode::NOT_FOUND, "ask for the whole server, by an empty name"};
  }
  status.set_value(serving_ ? kServing : kNotServing);
  return grpc::Status::OK;
}

}  // namespace memlease::server
