#include "tests/server/rpc/grpc_fixture.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "tests/support/open_files.h"
#include "tests/support/readable.h"
#include "tests/support/unix_socket.h"
#include "wire/place.h"

namespace memlease::testing {
namespace {

// List answers the uid whose service this is; LookUp waits until it is released or cancelled.
class TestService final : public v1::Control::Service {
 public:
  TestService(uid_t uid, Handlers& handlers) : uid_(uid), handlers_(handlers) {
    ++handlers_.services;
  }
  ~TestService() override { --handlers_.services; }

  grpc::Status List(grpc::ServerContext*, const v1::ListRequest* request,
                    v1::ListReply* reply) override {
    reply->add_names(request->pattern() == kLargeReply ? std::string(1 << 20, 'x')
                                                       : std::to_string(uid_));
    return grpc::Status::OK;
  }
  grpc::Status LookUp(grpc::ServerContext* context, const v1::LookUpRequest*,
                      v1::LookUpReply*) override {
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

msghdr one_descriptor(iovec& data, char* control) {
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  return message;
}

std::shared_ptr<grpc::Channel> channel_from(wire::UniqueFd fd) {
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return grpc::CreateInsecureChannelFromFd("memlease", fd.release());
}

}  // namespace

wire::UniqueFd connect_as(uid_t uid, const std::string& path) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return {};
  const wire::UniqueFd ours(pair[0]);
  wire::UniqueFd theirs(pair[1]);
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = one_descriptor(data, control);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(1);
    const wire::UniqueFd fd = connect_unix(path, SOCK_STREAM);
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

std::string read_to_end(int fd) {
  std::string all;
  char buffer[1024];
  for (ssize_t size = 1; size > 0;) {
    if (!readable(fd, static_cast<int>(std::chrono::milliseconds(kTestTimeout).count())))
      return "timeout";
    size = ::read(fd, buffer, sizeof buffer);
    if (size > 0) all.append(buffer, static_cast<std::size_t>(size));
  }
  return all;
}

GrpcClient::GrpcClient(std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)), stub_(v1::Control::NewStub(channel_)) {}

GrpcClient::GrpcClient(wire::UniqueFd fd) : GrpcClient(channel_from(std::move(fd))) {}

std::string GrpcClient::who_am_i(const std::string& pattern,
                                 grpc_compression_algorithm compression) {
  grpc::ClientContext context;
  context.set_compression_algorithm(compression);
  context.set_deadline(std::chrono::system_clock::now() + kTestTimeout);
  v1::ListRequest request;
  request.set_pattern(pattern);
  v1::ListReply reply;
  const grpc::Status status = stub_->List(&context, request, &reply);
  last_code_ = status.error_code();
  return status.ok() ? reply.names(0) : status.error_message();
}

std::string GrpcClient::who_am_i_by_callback() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestTimeout);
  const v1::ListRequest request;
  v1::ListReply reply;
  std::promise<grpc::Status> done;
  stub_->async()->List(&context, &request, &reply,
                       [&done](grpc::Status status) { done.set_value(std::move(status)); });
  const grpc::Status status = done.get_future().get();
  return status.ok() ? reply.names(0) : status.error_message();
}

grpc::Status GrpcClient::waited() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestTimeout);
  v1::LookUpReply reply;
  return stub_->LookUp(&context, v1::LookUpRequest(), &reply);
}

std::string GrpcClient::exchange(const std::string& method, const std::string& request) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTestTimeout);
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

void GrpcServerTest::SetUpTestSuite() { files_before_grpc = open_files(); }

void GrpcServerTest::SetUp() {
  ASSERT_EQ(::geteuid(), 0U) << "these tests become other users: run them as root";
}

void GrpcServerTest::TearDown() {
  handlers_.release = true;
  stop();
  EXPECT_EQ(handlers_.services, 0);
  // gRPC keeps an epoll and an eventfd for the process's life.
  EXPECT_TRUE(eventually([] { return open_files().size() == files_before_grpc.size() + 2; }))
      << open_files().size() << " descriptors are open, and there were "
      << files_before_grpc.size();
}

void GrpcServerTest::start(const server::GrpcLimits& limits) {
  loop_ = *server::EventLoop::create();
  const std::string folder = folder_.path() + "/memlease";
  auto directory = server::Directory::lock(folder);
  ASSERT_TRUE(directory.ok()) << directory.status();
  directory_ = std::make_unique<server::Directory>(*std::move(directory));
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  auto listener = directory_->listen(wire::kControlSocket, SOCK_STREAM, 0666);
  ASSERT_TRUE(listener.ok()) << listener.status();
  path_ = folder + "/" + wire::kControlSocket;
  auto server = server::GrpcServer::start(
      *loop_, log_,
      [this](uid_t uid) {
        server::GrpcServices services;
        services.all.push_back(std::make_unique<TestService>(uid, handlers_));
        return services;
      },
      limits, book_);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  ASSERT_TRUE(server_->add_listener(*std::move(listener)).ok());
  thread_ = std::thread([this] { loop_->run(); });
}

void GrpcServerTest::stop() {
  if (!thread_.joinable()) return;
  loop_->stop();
  thread_.join();
  server_.reset();
  directory_.reset();
  loop_.reset();
}

bool GrpcServerTest::eventually_connected(std::size_t count) {
  return eventually([&] { return on_loop([&] { return server_->connections() == count; }); });
}

GrpcClient GrpcServerTest::client() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return GrpcClient(
      grpc::CreateCustomChannel("unix:" + path_, grpc::InsecureChannelCredentials(), arguments));
}

}  // namespace memlease::testing
