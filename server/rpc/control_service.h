// memlease.v1.Control for the calls of one uid: converts, asks the core, converts back. The caller
// is untrusted; its session's token comes with every call. Thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "memlease/v1/control.grpc.pb.h"
#include "server/rpc/service_host.h"

namespace memlease::server {

class ControlService final : public v1::Control::Service {
 public:
  ControlService(ServiceHost& host, uid_t uid) : host_(host), uid_(uid) {}

  grpc::Status Create(grpc::ServerContext* context, const v1::CreateRequest* request,
                      v1::OpenReply* reply) override;
  grpc::Status Open(grpc::ServerContext* context, const v1::OpenRequest* request,
                    v1::OpenReply* reply) override;
  grpc::Status OpenReplica(grpc::ServerContext* context, const v1::ReplicaRequest* request,
                           v1::OpenReply* reply) override;
  grpc::Status WriteElsewhere(grpc::ServerContext* context, const v1::ArrayRequest* request,
                              v1::Empty* reply) override;
  grpc::Status Subscribe(grpc::ServerContext* context, const v1::ArrayRequest* request,
                         v1::SubscribeReply* reply) override;
  grpc::Status AcquireWriter(grpc::ServerContext* context, const v1::ArrayRequest* request,
                             v1::AcquireWriterReply* reply) override;
  grpc::Status ConfirmWriter(grpc::ServerContext* context, const v1::ConfirmWriterRequest* request,
                             v1::Empty* reply) override;
  grpc::Status AddSlot(grpc::ServerContext* context, const v1::AddSlotRequest* request,
                       v1::Empty* reply) override;
  grpc::Status CancelWriter(grpc::ServerContext* context, const v1::ArrayRequest* request,
                            v1::Empty* reply) override;
  grpc::Status Leave(grpc::ServerContext* context, const v1::LeaveRequest* request,
                     v1::Empty* reply) override;
  grpc::Status Withdraw(grpc::ServerContext* context, const v1::NameRequest* request,
                        v1::Empty* reply) override;
  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest* request,
                    v1::ListReply* reply) override;
  grpc::Status LookUp(grpc::ServerContext* context, const v1::LookUpRequest* request,
                      v1::LookUpReply* reply) override;
  grpc::Status ImportMemory(grpc::ServerContext* context, const v1::FileRequest* request,
                            v1::ImportMemoryReply* reply) override;
  grpc::Status CloseImports(grpc::ServerContext* context, const v1::CloseImportsRequest* request,
                            v1::Empty* reply) override;
  grpc::Status Holders(grpc::ServerContext* context, const v1::ArrayRequest* request,
                       v1::HoldersReply* reply) override;

 private:
  // Runs fn for the session that the call speaks for.
  using SessionCall = std::function<absl::Status(Broker&, Session&)>;
  grpc::Status for_session(const grpc::ServerContextBase& context, const char* call,
                           const SessionCall& fn);
  // The same with more memory, if there is a growth, or why that is not to be had.
  using GrownCall = std::function<absl::Status(Broker&, Session&, const absl::Status& grown)>;
  grpc::Status for_session(const grpc::ServerContextBase& context, const char* call,
                           const std::optional<SegmentPool::Growth>& growth, const GrownCall& fn);
  // The same for a call that takes room: it is tried again with the memory that it says it lacks,
  // and as long as there may be room later. `array`: whose owner pays for it.
  using Lacking = absl::StatusOr<std::optional<SegmentPool::Growth>>;
  using MemoryCall = std::function<Lacking(Broker&, Session&)>;
  grpc::Status with_memory(const grpc::ServerContext& context, const char* call,
                           const MemoryCall& fn, std::optional<wire::ArrayId> array = {});
  // Opens what `make` makes on the device, which is made ready first.
  using Make = std::function<absl::StatusOr<Broker::Creation>(Broker&, Session&)>;
  grpc::Status make(const grpc::ServerContext& context, const char* call, const std::string& device,
                    const Make& make, v1::OpenReply& reply,
                    std::optional<wire::ArrayId> array = {});
  // As a call's answer, which is counted.
  grpc::Status answer(const absl::Status& status);

  ServiceHost& host_;
  const uid_t uid_;
};

}  // namespace memlease::server
