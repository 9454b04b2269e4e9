// Calls on the control socket without the client library, which would refuse to make some of them.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "client/channel/attach_client.h"
#include "client/socket/connect_socket.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel_posix.h"
#include "gtest/gtest.h"
#include "memlease/v1/control.grpc.pb.h"
#include "wire/grpc/convert.h"

namespace memlease::testing {

// What authenticates a session's calls.
inline std::string credential_of(const internal::AttachClient& session) {
  const std::uint32_t id = wire::to_int(session.session_id());
  std::string credential(sizeof id, '\0');
  std::memcpy(credential.data(), &id, sizeof id);
  credential.append(reinterpret_cast<const char*>(session.token().data()), session.token().size());
  return credential;
}

// One connection to the control socket, as some user, without any session behind it.
class RawControl {
 public:
  explicit RawControl(const std::string& directory, uid_t uid = 0) {
    EXPECT_EQ(seteuid(uid), 0);
    auto socket = internal::connect_socket(directory, "control.sock", SOCK_STREAM);
    EXPECT_EQ(seteuid(0), 0);
    if (!socket.ok()) std::abort();
    stub_ =
        v1::Control::NewStub(grpc::CreateInsecureChannelFromFd("memleased", socket->fd.release()));
  }

  template <typename Request, typename Reply>
  absl::Status call(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Reply*),
                    const std::string& credential, const Request& request = {}) {
    Reply reply;
    return call(method, credential, request, reply);
  }
  template <typename Request, typename Reply>
  absl::Status call(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Reply*),
                    const std::string& credential, const Request& request, Reply& reply) {
    grpc::ClientContext context;
    if (!credential.empty()) context.AddMetadata("memlease-token-bin", credential);
    return wire::from_grpc((stub_.get()->*method)(&context, request, &reply));
  }
  absl::Status list(const std::string& credential) {
    return call(&v1::Control::Stub::List, credential);
  }

 private:
  std::unique_ptr<v1::Control::Stub> stub_;
};

}  // namespace memlease::testing
