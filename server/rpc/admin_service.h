// memlease.v1.Admin for the calls of one uid: what memleasectl shows and does. Needs no session:
// the connection's uid, as the kernel attests it, decides. Thread-safe.
//
// Root and the daemon's own user see and may do everything; others see arrays that they may read,
// sessions and quotas of their own, and sums over everybody. The methods are called on gRPC's
// threads; none waits for a client. Lists of arrays and of holders come in pages of about 256 KiB,
// and the core goes on between steps of one.
#pragma once

#include <sys/types.h>

#include "memlease/v1/admin.grpc.pb.h"
#include "server/rpc/history_call.h"
#include "server/rpc/service_host.h"

namespace memlease::server {

class AdminService final : public HistoryCall::Service {
 public:
  AdminService(ServiceHost& host, uid_t uid);

  grpc::Status Status(grpc::ServerContext* context, const v1::Empty* request,
                      v1::StatusReply* reply) override;
  grpc::Status ListArrays(grpc::ServerContext* context, const v1::ListArraysRequest* request,
                          v1::ListArraysReply* reply) override;
  grpc::Status ListHolders(grpc::ServerContext* context, const v1::ListHoldersRequest* request,
                           v1::HoldersReply* reply) override;
  grpc::Status ListSessions(grpc::ServerContext* context, const v1::Empty* request,
                            v1::ListSessionsReply* reply) override;
  // As Broker::withdraw() and Broker::evict() allow the uid.
  grpc::Status WithdrawArray(grpc::ServerContext* context, const v1::NameRequest* request,
                             v1::Empty* reply) override;
  grpc::Status Evict(grpc::ServerContext* context, const v1::EvictRequest* request,
                     v1::Empty* reply) override;
  grpc::Status Metrics(grpc::ServerContext* context, const v1::Empty* request,
                       v1::MetricsReply* reply) override;
  grpc::Status Sample(grpc::ServerContext* context, const v1::SampleRequest* request,
                      v1::SampleReply* reply) override;
  grpc::Status Verify(grpc::ServerContext* context, const v1::Empty* request,
                      v1::VerifyReply* reply) override;
  // History may take for ever, so the queue brings its calls and they keep no thread.
  void expect_calls(CallQueue& queue);

 private:
  // As a call's answer. Errors are counted by their codes.
  grpc::Status answer(const absl::Status& status);

  ServiceHost& host_;
  const uid_t uid_;
  UnreadEvents unread_events_;
};

}  // namespace memlease::server
