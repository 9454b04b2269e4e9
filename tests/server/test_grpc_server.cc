// The server with real sockets and real gRPC clients. The tests need root, to be other users: a
// child changes its uid, connects, and sends the connection back.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "memlease/v1/control.grpc.pb.h"
#include "server/directory.h"
#include "server/rpc/grpc_server.h"

namespace memlease::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr uid_t kOtherUid = 12345;
constexpr seconds kPatience{20};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// Polls, because gRPC ends things on threads of its own and tells nobody.
bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// What the handlers of all uids share.
struct Handlers {
  std::atomic<int> services{0};
  std::atomic<int> waiting{0};
  std::atomic<int> cancelled{0};
  std::atomic<bool> release{false};
};

// List answers the uid whose service this is; WaitFor waits until it is released or cancelled.
class TestService final : public v1::Control::Service {
 public:
  TestService(uid_t uid, Handlers& handlers) : uid_(uid), handlers_(handlers) {
    ++handlers_.services;
  }
  ~TestService() override { --handlers_.services; }

  grpc::Status List(grpc::ServerContext*, const v1::ListRequest*, v1::ListReply* reply) override {
    reply->add_names(std::to_string(uid_));
    return grpc::Status::OK;
  }
  grpc::Status WaitFor(grpc::ServerContext* context, const v1::WaitForRequest*,
                       v1::WaitForReply*) override {
    ++handlers_.waiting;
    while (!handlers_.release && !context->IsCancelled()) std::this_thread::yield();
    --handlers_.waiting;
    if (!context->IsCancelled()) return grpc::Status::OK;
    ++handlers_.cancelled;
    return grpc::Status::CANCELLED;
  }

 private:
  const uid_t uid_;
  Handlers& handlers_;
};

wire::UniqueFd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  wire::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(fd.get(), to, sizeof address) != 0) fd.reset();
  return fd;
}

msghdr one_descriptor(iovec& data, char* control) {
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  return message;
}

// A connection whose kernel-attested peer is `uid`.
wire::UniqueFd connect_as(uid_t uid, const std::string& path) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return {};
  wire::UniqueFd ours(pair[0]);
  wire::UniqueFd theirs(pair[1]);
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = one_descriptor(data, control);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(1);
    const wire::UniqueFd fd = connect_to(path);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = fd.get();
    std::memcpy(CMSG_DATA(header), &number, sizeof number);
    ::_exit(fd && ::sendmsg(theirs.get(), &message, 0) == 1 ? 0 : 1);
  }
  theirs.reset();
  int fd = -1;
  if (::recvmsg(ours.get(), &message, MSG_CMSG_CLOEXEC) == 1 &&
      CMSG_FIRSTHDR(&message) != nullptr) {
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  }
  ::waitpid(child, nullptr, 0);
  return wire::UniqueFd(fd);
}

// All that comes until the other side closes.
std::string read_to_end(int fd) {
  std::string all;
  char buffer[1024];
  for (ssize_t size = 1; size > 0;) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(milliseconds(kPatience).count())) != 1) return "timeout";
    size = ::read(fd, buffer, sizeof buffer);
    if (size > 0) all.append(buffer, static_cast<std::size_t>(size));
  }
  return all;
}

class Client {
 public:
  explicit Client(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)), stub_(v1::Control::NewStub(channel_)) {}
  explicit Client(wire::UniqueFd fd) : Client(from_fd(std::move(fd))) {}

  // The uid that the server takes the caller for, or the call's error.
  std::string who_am_i(const std::string& pattern = "") {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    v1::ListRequest request;
    request.set_pattern(pattern);
    v1::ListReply reply;
    const grpc::Status status = stub_->List(&context, request, &reply);
    last_code_ = status.error_code();
    return status.ok() ? reply.names(0) : status.error_message();
  }
  grpc::StatusCode wait() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    v1::WaitForReply reply;
    return stub_->WaitFor(&context, v1::WaitForRequest(), &reply).error_code();
  }
  // One message there and one back, as bytes, to any method.
  std::string exchange(const std::string& method, const std::string& request);

  grpc::StatusCode last_code() const { return last_code_; }

 private:
  static std::shared_ptr<grpc::Channel> from_fd(wire::UniqueFd fd) {
    ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
    return grpc::CreateInsecureChannelFromFd("memlease", fd.release());
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Control::Stub> stub_;
  grpc::StatusCode last_code_ = grpc::StatusCode::OK;
};

std::string Client::exchange(const std::string& method, const std::string& request) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  grpc::CompletionQueue queue;
  const auto wait_for_step = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  EXPECT_TRUE(wait_for_step());
  const grpc::Slice slice(request);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  EXPECT_TRUE(wait_for_step());
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  EXPECT_TRUE(wait_for_step()) << method;
  grpc::Status status;
  call->Finish(&status, nullptr);
  EXPECT_TRUE(wait_for_step());
  EXPECT_TRUE(status.ok()) << status.error_message();
  queue.Shutdown();
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(reply.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& part : slices)
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  return bytes;
}

class GrpcServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { descriptors_before_grpc_ = open_descriptors(); }
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "these tests become other users: run them as root";
    char pattern[] = "/tmp/memlease-grpc-XXXXXX";
    parent_ = ::mkdtemp(pattern);
    ASSERT_EQ(::chmod(parent_.c_str(), 0755), 0);
  }
  void TearDown() override {
    handlers_.release = true;
    stop();
    EXPECT_EQ(handlers_.services, 0);
    // gRPC keeps an epoll and an eventfd for the process's life.
    EXPECT_TRUE(eventually([] { return open_descriptors() == descriptors_before_grpc_ + 2; }))
        << open_descriptors() << " descriptors are open, and there were "
        << descriptors_before_grpc_;
    std::filesystem::remove_all(parent_);
  }

  void start(const GrpcLimits& limits = {.linger = milliseconds(0)}) {
    loop_ = *EventLoop::create();
    const std::string folder = parent_ + "/memlease";
    auto directory = Directory::lock(folder);
    ASSERT_TRUE(directory.ok()) << directory.status();
    directory_ = std::make_unique<Directory>(*std::move(directory));
    ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
    auto listener = directory_->listen(kControlSocket, SOCK_STREAM, 0666);
    ASSERT_TRUE(listener.ok()) << listener.status();
    path_ = folder + "/" + kControlSocket;
    server_ = std::make_unique<GrpcServer>(
        *loop_, log_,
        [this](uid_t uid) {
          GrpcServices services;
          services.push_back(std::make_unique<TestService>(uid, handlers_));
          return services;
        },
        limits);
    ASSERT_TRUE(server_->add_listener(*std::move(listener)).ok());
    thread_ = std::thread([this] { loop_->run(); });
  }

  void stop() {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
    server_.reset();
    directory_.reset();
    loop_.reset();
  }

  // Runs it on the loop's thread.
  template <typename Function>
  auto on_loop(Function function) {
    std::packaged_task<decltype(function())()> task(std::move(function));
    auto result = task.get_future();
    loop_->post([&task] { task(); });
    return result.get();
  }
  bool eventually_connected(std::size_t count) {
    return eventually([&] { return on_loop([&] { return server_->connections() == count; }); });
  }

  // An ordinary client, as grpcurl would connect.
  Client client() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return Client(
        grpc::CreateCustomChannel("unix:" + path_, grpc::InsecureChannelCredentials(), arguments));
  }
  Client client_of(uid_t uid) const { return Client(connect_as(uid, path_)); }

  Handlers handlers_;
  Log log_{LogLevel::kError, LogFormat::kText};
  std::string parent_;
  std::string path_;
  inline static std::size_t descriptors_before_grpc_ = 0;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Directory> directory_;
  std::unique_ptr<GrpcServer> server_;
  std::thread thread_;
};

TEST_F(GrpcServerTest, ACallReachesTheServicesOfItsCallersUid) {
  start();
  EXPECT_EQ(client().who_am_i(), "0");
  EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
  EXPECT_EQ(client().who_am_i(), "0");
}

TEST_F(GrpcServerTest, AUidsServerEndsWithItsLastConnection) {
  start();
  auto first = std::make_unique<Client>(client_of(kOtherUid));
  auto second = std::make_unique<Client>(client_of(kOtherUid));
  EXPECT_EQ(first->who_am_i(), "12345");
  EXPECT_EQ(second->who_am_i(), "12345");
  EXPECT_EQ(handlers_.services, 1);
  first.reset();
  EXPECT_TRUE(eventually_connected(1));
  EXPECT_EQ(second->who_am_i(), "12345");
  second.reset();
  EXPECT_TRUE(eventually([this] { return handlers_.services == 0; }));
  EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
}

TEST_F(GrpcServerTest, ALingeringServerIsUsedAgain) {
  start({.linger = seconds(3600)});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client().who_am_i(), "0");
    EXPECT_TRUE(eventually_connected(0));
    EXPECT_EQ(handlers_.services, 1);
  }
}

TEST_F(GrpcServerTest, AClientThatGoesCancelsItsCall) {
  start();
  wire::UniqueFd fd = connect_as(kOtherUid, path_);
  const wire::UniqueFd same(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  Client client(std::move(fd));
  auto call = std::async(std::launch::async, [&client] { return client.wait(); });
  EXPECT_TRUE(eventually([this] { return handlers_.waiting == 1; }));
  ::shutdown(same.get(), SHUT_RDWR);
  EXPECT_EQ(call.get(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(eventually([this] { return handlers_.cancelled == 1; }));
  EXPECT_TRUE(eventually([this] { return handlers_.services == 0; }));
}

TEST_F(GrpcServerTest, ASilentConnectionIsClosed) {
  start({.first_byte = milliseconds(100)});
  const auto begin = std::chrono::steady_clock::now();
  const wire::UniqueFd silent = connect_to(path_);
  EXPECT_EQ(read_to_end(silent.get()), "");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, milliseconds(100));
  EXPECT_LT(took, seconds(5));
  EXPECT_TRUE(eventually_connected(0));
  EXPECT_EQ(handlers_.services, 0);
}

TEST_F(GrpcServerTest, AConnectionThatSpokeOutlivesTheTimer) {
  start({.first_byte = milliseconds(100)});
  Client speaks = client();
  EXPECT_EQ(speaks.who_am_i(), "0");
  const wire::UniqueFd silent = connect_to(path_);
  EXPECT_EQ(read_to_end(silent.get()), "");  // the later timer has fired, so has the earlier one
  EXPECT_TRUE(eventually_connected(1));
  EXPECT_EQ(speaks.who_am_i(), "0");
}

TEST_F(GrpcServerTest, GarbageIsCutOffAndUncharged) {
  start();
  const wire::UniqueFd fd = connect_to(path_);
  const std::string garbage(4096, 'x');
  ASSERT_EQ(::send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 4096);
  EXPECT_NE(read_to_end(fd.get()), "timeout");
  EXPECT_TRUE(eventually_connected(0));
  EXPECT_EQ(client().who_am_i(), "0");
}

TEST_F(GrpcServerTest, AUidsFloodStopsOnlyThatUid) {
  start({.connections_per_uid = 4, .first_byte = seconds(3600), .linger = milliseconds(0)});
  std::vector<wire::UniqueFd> flood;
  for (int i = 0; i < 4; ++i) flood.push_back(connect_as(kOtherUid, path_));
  for (int i = 0; i < 50; ++i) {
    const wire::UniqueFd one_too_many = connect_as(kOtherUid, path_);
    EXPECT_EQ(read_to_end(one_too_many.get()), "");
  }
  EXPECT_EQ(client().who_am_i(), "0");

  flood.clear();
  EXPECT_TRUE(eventually_connected(0));
  EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
}

TEST_F(GrpcServerTest, ARefusedClientLearnsAtOnce) {
  start({.connections_per_uid = 1, .linger = milliseconds(0)});
  Client first = client();
  EXPECT_EQ(first.who_am_i(), "0");
  Client second = client();
  second.who_am_i();
  EXPECT_EQ(second.last_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServerTest, ThereIsALimitForAllUids) {
  start({.connections = 3, .linger = milliseconds(0)});
  std::vector<wire::UniqueFd> connections;
  for (uid_t uid = 1001; uid <= 1003; ++uid) connections.push_back(connect_as(uid, path_));
  EXPECT_TRUE(eventually_connected(3));
  const wire::UniqueFd one_too_many = connect_to(path_);
  EXPECT_EQ(read_to_end(one_too_many.get()), "");
  connections.pop_back();
  EXPECT_TRUE(eventually_connected(2));
  EXPECT_EQ(client().who_am_i(), "0");
}

// While a flood holds every descriptor, connections are closed; when it ends, service is back
// without anybody's help. gRPC's own listener fails this.
TEST_F(GrpcServerTest, ServiceReturnsAfterTheLastDescriptorIsGone) {
  start({.connections_per_uid = 1000, .first_byte = seconds(3600), .linger = milliseconds(0)});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  int done[2];
  ASSERT_EQ(::pipe2(done, O_CLOEXEC), 0);
  constexpr int kTooMany = 60;
  const rlimit scarce{open_descriptors() + 20, before.rlim_max};
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if this test crashes
    std::vector<wire::UniqueFd> flood;
    for (int i = 0; i < 100; ++i) flood.push_back(connect_to(path_));
    std::vector<pollfd> states;
    for (const wire::UniqueFd& fd : flood) states.push_back({fd.get(), POLLIN, 0});
    while (::poll(states.data(), states.size(), -1) < kTooMany) std::this_thread::yield();
    if (::write(done[1], "x", 1) != 1) ::_exit(1);
    ::pause();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &scarce), 0);
  char byte = 0;
  ASSERT_EQ(::read(done[0], &byte, 1), 1);  // so many have been closed, and the others are served
  EXPECT_GT(on_loop([this] { return server_->connections(); }), 0U);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(done[0]);
  ::close(done[1]);
  EXPECT_TRUE(eventually_connected(0));
  EXPECT_EQ(client().who_am_i(), "0");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(GrpcServerTest, ATooLargeMessageCostsOnlyItsCall) {
  start();
  Client one = client();
  one.who_am_i(std::string(100'000, 'x'));
  EXPECT_EQ(one.last_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(one.who_am_i(std::string(60'000, 'x')), "0");
  EXPECT_TRUE(eventually_connected(1));
}

TEST_F(GrpcServerTest, AsManyCallsOfOneUidAsAConnectionHasStreamsRunAtOnce) {
  start();
  Client one = client();
  std::vector<std::future<grpc::StatusCode>> calls;
  for (int i = 0; i < 64; ++i) {
    calls.push_back(std::async(std::launch::async, [&one] { return one.wait(); }));
  }
  EXPECT_TRUE(eventually([this] { return handlers_.waiting == 64; }));
  handlers_.release = true;
  for (auto& call : calls) EXPECT_EQ(call.get(), grpc::StatusCode::OK);
}

TEST_F(GrpcServerTest, HealthFollowsServing) {
  const std::string check = "/grpc.health.v1.Health/Check";
  const std::string serving("\x08\x01", 2);
  const std::string not_serving("\x08\x02", 2);
  start();
  Client one = client();
  EXPECT_EQ(one.exchange(check, ""), serving);
  on_loop([this] { server_->set_serving(false); });
  EXPECT_EQ(one.exchange(check, ""), not_serving);
  EXPECT_EQ(client_of(kOtherUid).exchange(check, ""), not_serving) << "a server made later";
  EXPECT_EQ(one.who_am_i(), "0") << "calls are still answered";
  on_loop([this] { server_->set_serving(true); });
  EXPECT_EQ(one.exchange(check, ""), serving);
}

TEST_F(GrpcServerTest, ReflectionListsTheServices) {
  start();
  const std::string list_services("\x3a\x00", 2);
  EXPECT_THAT(client().exchange("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                list_services),
              testing::AllOf(HasSubstr("memlease.v1.Control"), HasSubstr("grpc.health.v1.Health")));
}

TEST_F(GrpcServerTest, ShutdownLetsACallEnd) {
  start();
  Client one = client();
  auto call = std::async(std::launch::async, [&one] { return one.wait(); });
  EXPECT_TRUE(eventually([this] { return handlers_.waiting == 1; }));
  std::thread shutting_down([this] {
    on_loop([this] { server_->shutdown(std::chrono::system_clock::now() + kPatience); });
  });
  handlers_.release = true;
  EXPECT_EQ(call.get(), grpc::StatusCode::OK);
  shutting_down.join();
  EXPECT_EQ(handlers_.cancelled, 0);
  EXPECT_FALSE(connect_to(path_)) << "still listening";
}

TEST_F(GrpcServerTest, ShutdownCancelsACallAtTheDeadline) {
  start();
  Client one = client();
  auto call = std::async(std::launch::async, [&one] { return one.wait(); });
  EXPECT_TRUE(eventually([this] { return handlers_.waiting == 1; }));
  on_loop([this] { server_->shutdown(std::chrono::system_clock::now() + milliseconds(50)); });
  EXPECT_NE(call.get(), grpc::StatusCode::OK);
  EXPECT_EQ(handlers_.cancelled, 1);
  EXPECT_EQ(handlers_.services, 0);
}

TEST_F(GrpcServerTest, UidsComeAndGoWithoutALeak) {
  start();
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
    EXPECT_TRUE(eventually([this] { return handlers_.services == 0; }));
  }
}

}  // namespace
}  // namespace memlease::server
