// A user's program with a gRPC and a protobuf of its own, Debian's shared ones, beside libmemlease.
// It makes one call of each between the other's, and prints "done".
#include <google/protobuf/struct.pb.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <memlease/memlease.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

void require(bool holds, const char* what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

void use_protobuf() {
  google::protobuf::Struct written;
  (*written.mutable_fields())["key"].set_string_value("value");
  google::protobuf::Struct read;
  require(read.ParseFromString(written.SerializeAsString()), "protobuf parses what it wrote");
  require(read.fields().at("key").string_value() == "value", "protobuf reads what it wrote");
}

// A call of the health service, which every gRPC server has, over TCP.
void use_grpc(int port) {
  const auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  require(queue.Next(&tag, &ok) && ok, "gRPC's call ends");
  require(status.ok(), status.error_message().c_str());
}

void use_memlease() {
  memlease::ConnectOptions options;
  options.start = false;
  const auto client = memlease::Client::connect(options);
  require(!client.exists("nothing/of-this-name"), "memlease answers");
}

}  // namespace

int main() try {
  use_protobuf();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::CallbackGenericService others;  // health is not enough for a server to start
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&others);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  require(server != nullptr, "gRPC's server starts");
  use_grpc(port);
  use_memlease();
  use_grpc(port);
  use_memlease();
  server->Shutdown();
  std::cout << "done\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return EXIT_FAILURE;
}
