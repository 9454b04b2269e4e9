// The gRPC server with real sockets and real gRPC clients, of other users too: a child changes its
// uid, connects, and sends the connection back. The tests need root for that.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "memlease/v1/control.grpc.pb.h"
#include "server/config/directory.h"
#include "server/core/connection_charges.h"
#include "server/core/payers.h"
#include "server/rpc/grpc_server.h"
#include "server/telemetry/uid_log_limiters.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

inline constexpr uid_t kOtherUid = 12345;
inline constexpr std::chrono::seconds kTestTimeout{20};
// A pattern of List: a reply of a megabyte.
inline constexpr std::string_view kLargeReply = "large";

// A connection whose kernel-attested peer is `uid`.
wire::UniqueFd connect_as(uid_t uid, const std::string& path);
// All that comes until the other side closes.
std::string read_to_end(int fd);

// What the handlers of all uids share.
struct Handlers {
  std::atomic<int> services{0};
  std::atomic<int> waiting{0};
  std::atomic<int> cancelled{0};
  std::atomic<bool> release{false};
};

class GrpcClient {
 public:
  explicit GrpcClient(std::shared_ptr<grpc::Channel> channel);
  explicit GrpcClient(wire::UniqueFd fd);

  // The uid that the server takes the caller for, or the call's error.
  std::string who_am_i(const std::string& pattern = "",
                       grpc_compression_algorithm compression = GRPC_COMPRESS_NONE);
  // The same, but this client's gRPC answers by a callback.
  std::string who_am_i_by_callback();
  // A call that lasts until Handlers::release, or until it is cancelled.
  grpc::StatusCode wait() { return waited().error_code(); }
  grpc::Status waited();
  // One message there and one back, as bytes, to any method.
  std::string exchange(const std::string& method, const std::string& request);

  grpc::StatusCode last_code() const { return last_code_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Control::Stub> stub_;
  grpc::StatusCode last_code_ = grpc::StatusCode::OK;
};

class GrpcServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;

  // Calls that hang are not cut for that.
  static constexpr std::chrono::milliseconds kEver = std::chrono::hours(1);
  void start(const server::GrpcLimits& limits = {.linger = std::chrono::milliseconds(0),
                                                 .untaken = kEver});
  void stop();

  // Runs it on the loop's thread.
  template <typename Function>
  auto on_loop(Function function) {
    std::packaged_task<decltype(function())()> task(std::move(function));
    auto result = task.get_future();
    loop_->post([&task] { task(); });
    return result.get();
  }
  bool eventually_connected(std::size_t count);

  // An ordinary client, as grpcurl would connect.
  GrpcClient client() const;
  GrpcClient client_of(uid_t uid) const { return GrpcClient(connect_as(uid, path_)); }

  Handlers handlers_;
  // Their limits are set before start().
  server::Payers payers_;
  server::Quota quota_{{}, "quota_", "host", [this](uid_t uid) { return payers_.of(uid); }};
  server::ConnectionCharges charges_{quota_};
  server::UidLogLimiters log_lines_{5, std::chrono::seconds(10)};
  // Of servers that start() starts from now on.
  server::ConnectionBook book_{
      .account = [this](uid_t uid) -> server::Account& { return quota_.account(uid); },
      .log_lines = [this](uid_t uid) { return log_lines_.of(uid); },
      .connected = [this](uid_t uid) { return charges_.connected(uid); },
      .disconnected = [this](uid_t uid) { charges_.disconnected(uid); }};
  server::Log log_{server::LogLevel::kError, server::LogFormat::kText};
  const TemporaryFolder folder_;
  std::string path_;
  inline static std::set<std::string> files_before_grpc;
  std::unique_ptr<server::EventLoop> loop_;
  std::unique_ptr<server::Directory> directory_;
  std::unique_ptr<server::GrpcServer> server_;
  std::thread thread_;
};

}  // namespace memlease::testing
