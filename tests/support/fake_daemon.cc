#include "tests/support/fake_daemon.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cassert>
#include <cstdlib>

#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_posix.h"
#include "tests/support/unix_socket.h"

namespace memlease::testing {

grpc::Status FakeAdmin::answer() const {
  std::this_thread::sleep_for(delay);  // a slow daemon is what the test is about
  if (turns_away > 0) {
    --turns_away;
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "Server Threadpool Exhausted"};
  }
  return error;
}

grpc::Status FakeAdmin::Status(grpc::ServerContext*, const v1::Empty*, v1::StatusReply* reply) {
  *reply = status;
  return answer();
}

grpc::Status FakeAdmin::ListArrays(grpc::ServerContext*, const v1::ListArraysRequest* request,
                                   v1::ListArraysReply* reply) {
  ++calls;
  last_text = request->pattern();
  asked_for_attributes = request->attributes();
  *reply = arrays[request->from()];
  return request->from().empty() ? answer() : later_error;
}

grpc::Status FakeAdmin::ListHolders(grpc::ServerContext*, const v1::ListHoldersRequest* request,
                                    v1::HoldersReply* reply) {
  ++calls;
  last_text = request->name();
  *reply = holders[request->from()];
  return request->from().empty() ? answer() : later_error;
}

grpc::Status FakeAdmin::ListSessions(grpc::ServerContext*, const v1::Empty*,
                                     v1::ListSessionsReply* reply) {
  *reply = sessions;
  return answer();
}

grpc::Status FakeAdmin::WithdrawArray(grpc::ServerContext*, const v1::NameRequest* request,
                                      v1::Empty*) {
  last_text = request->name();
  return answer();
}

grpc::Status FakeAdmin::Evict(grpc::ServerContext*, const v1::EvictRequest* request, v1::Empty*) {
  last_session = request->session_id();
  return answer();
}

grpc::Status FakeAdmin::Sample(grpc::ServerContext*, const v1::SampleRequest*,
                               v1::SampleReply* reply) {
  if (!samples.empty()) *reply = samples.front();
  if (samples.size() > 1) samples.erase(samples.begin());
  return answer();
}

grpc::Status FakeAdmin::Verify(grpc::ServerContext*, const v1::Empty*, v1::VerifyReply* reply) {
  *reply = verified;
  return answer();
}

grpc::Status FakeAdmin::History(grpc::ServerContext*, const v1::HistoryRequest* request,
                                v1::HistoryReply* reply) {
  asked_after.push_back(request->after());
  if (!histories.empty()) {
    *reply = histories.front();
    histories.erase(histories.begin());
  } else if (request->wait()) {
    return {grpc::StatusCode::UNAVAILABLE, "the daemon has ended"};
  }
  return answer();
}

FakeDaemon::FakeDaemon() : listener_(bind_unix(directory() + "/control.sock", SOCK_STREAM)) {
  if (!listener_ || ::listen(listener_.get(), 16) != 0) std::abort();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.RegisterService(&admin_);
  server_ = builder.BuildAndStart();
  acceptor_ = std::thread([this] { accept_all(); });
}

FakeDaemon::~FakeDaemon() { stop(); }

void FakeDaemon::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;  // shut down
    grpc::AddInsecureChannelFromFd(server_.get(), fd);
  }
}

void FakeDaemon::set_serving(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void FakeDaemon::stop() {
  if (!acceptor_.joinable()) return;
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  listener_.reset();
  server_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace memlease::testing
