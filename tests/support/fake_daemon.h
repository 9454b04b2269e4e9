// A daemon's control socket with an Admin service that answers what a test wants, for tests of the
// admin stub and of memleasectl. No sessions, no memory, no attach channel.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/server.h"
#include "memlease/v1/admin.grpc.pb.h"
#include "tests/support/temporary_folder.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

// Set what a test needs before its first call; the rest answers with an empty message.
class FakeAdmin : public v1::Admin::Service {
 public:
  v1::StatusReply status;
  // Pages, each with its place in front: what has none there gets an empty one.
  std::map<std::string, v1::ListArraysReply> arrays;
  std::map<std::string, v1::HoldersReply> holders;
  v1::ListSessionsReply sessions;
  v1::VerifyReply verified;
  std::vector<v1::SampleReply> samples;  // one after the other; the last one again and again
  // One after the other, each to whoever asks next. Who waits for one more finds the
  // daemon ended.
  std::vector<v1::HistoryReply> histories;
  grpc::Status error;          // of every call
  mutable int turns_away = 0;  // so many calls first, as gRPC does that has no thread
  grpc::Status later_error;    // of each page but the first one
  std::chrono::milliseconds delay{0};
  std::string last_text;              // the last pattern or name
  bool asked_for_attributes = false;  // by the last call for arrays
  int calls = 0;                      // for pages
  std::uint32_t last_session = 0;
  std::vector<std::uint64_t> asked_after;  // of each call for the history

 private:
  grpc::Status answer() const;
  grpc::Status Status(grpc::ServerContext*, const v1::Empty*, v1::StatusReply*) override;
  grpc::Status ListArrays(grpc::ServerContext*, const v1::ListArraysRequest*,
                          v1::ListArraysReply*) override;
  grpc::Status ListHolders(grpc::ServerContext*, const v1::ListHoldersRequest*,
                           v1::HoldersReply*) override;
  grpc::Status ListSessions(grpc::ServerContext*, const v1::Empty*,
                            v1::ListSessionsReply*) override;
  grpc::Status WithdrawArray(grpc::ServerContext*, const v1::NameRequest*, v1::Empty*) override;
  grpc::Status Sample(grpc::ServerContext*, const v1::SampleRequest*, v1::SampleReply*) override;
  grpc::Status Verify(grpc::ServerContext*, const v1::Empty*, v1::VerifyReply*) override;
  grpc::Status History(grpc::ServerContext*, const v1::HistoryRequest*, v1::HistoryReply*) override;
  grpc::Status Evict(grpc::ServerContext*, const v1::EvictRequest*, v1::Empty*) override;
};

// Listens in a directory of its own from construction to stop() or the end.
class FakeDaemon {
 public:
  FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;
  ~FakeDaemon();

  FakeAdmin& admin() { return admin_; }
  const std::string& directory() const { return directory_.path(); }
  // What the health service says.
  void set_serving(bool serving);
  // Closes all connections and listens no more. The socket stays behind, as after a crash.
  void stop();

 private:
  void accept_all();

  FakeAdmin admin_;
  TemporaryFolder directory_;
  wire::UniqueFd listener_;
  std::unique_ptr<grpc::Server> server_;
  std::thread acceptor_;
};

}  // namespace memlease::testing
