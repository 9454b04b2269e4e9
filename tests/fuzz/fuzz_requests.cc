// Requests of each call but History, which waits, with any bytes that protobuf takes for one, by
// sessions of two users: the daemon's answers are of the documented kinds, nobody touches what only
// its owner may, and nothing stays of who has gone.
#include <grpcpp/test/server_context_test_spouse.h>

#include <array>
#include <string>

#include "server/core/audit.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/control_service.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/fake_service_host.h"

namespace memlease::testing {
namespace {

using server::AdminService;
using server::ControlService;

constexpr uid_t kOwner = 1001;
constexpr uid_t kGuest = 1002;

server::Broker::Limits small() {
  server::Broker::Limits limits;
  limits.memory.memory_bytes = std::uint64_t{16} << 20;
  limits.per_uid.arrays = 20;
  limits.per_uid.bytes = std::uint64_t{8} << 20;
  return limits;
}

// A process of a user's, with a session.
class Caller {
 public:
  Caller(FakeServiceHost& host, uid_t uid)
      : host_(host), session_(host.world.connect(uid).id), control_(host, uid), admin_(host, uid) {
    const auto bytes = credential_of(*host.world.broker.sessions().find(session_));
    credential_.assign(bytes.begin(), bytes.end());
  }

  server::Session& session() { return *host_.world.broker.sessions().find(session_); }
  void exit() {
    host_.world.broker.hang_up(session_, server::Farewell::kNone);
    host_.world.broker.exited(session_);
    while (host_.world.broker.work_off_ends()) {
    }
  }

  void call(Input& input) {
    const auto which = input.take<std::uint8_t>();
    const auto bytes = input.take_bytes(input.take<std::uint8_t>());
    (this->*kCalls.at(which % kCalls.size()))(bytes);
  }

 private:
  using Bytes = std::span<const std::uint8_t>;

  // The service's method, with a request of these bytes.
  template <auto kMethod, typename Service, typename Request, typename Reply>
  void ask(Service& service, Bytes bytes,
           grpc::Status (Service::*)(grpc::ServerContext*, const Request*, Reply*)) {
    Request request;
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    grpc::ServerContext context;
    grpc::testing::ServerContextTestSpouse client(&context);
    client.AddClientMetadata("memlease-token-bin", credential_);
    Reply reply;
    const grpc::Status status = (service.*kMethod)(&context, &request, &reply);
    require(status.error_code() != grpc::StatusCode::UNKNOWN &&
                status.error_code() != grpc::StatusCode::INTERNAL,
            "an error of a documented kind");
  }
  template <auto kMethod>
  void control(Bytes bytes) {
    ask<kMethod>(control_, bytes, kMethod);
  }
  template <auto kMethod>
  void admin(Bytes bytes) {
    ask<kMethod>(admin_, bytes, kMethod);
  }

  using Call = void (Caller::*)(Bytes);
  static constexpr std::array<Call, 25> kCalls{
      &Caller::control<&ControlService::Create>,
      &Caller::control<&ControlService::Open>,
      &Caller::control<&ControlService::OpenReplica>,
      &Caller::control<&ControlService::WriteElsewhere>,
      &Caller::control<&ControlService::Subscribe>,
      &Caller::control<&ControlService::AcquireWriter>,
      &Caller::control<&ControlService::ConfirmWriter>,
      &Caller::control<&ControlService::AddSlot>,
      &Caller::control<&ControlService::CancelWriter>,
      &Caller::control<&ControlService::Leave>,
      &Caller::control<&ControlService::Withdraw>,
      &Caller::control<&ControlService::List>,
      &Caller::control<&ControlService::LookUp>,
      &Caller::control<&ControlService::ImportMemory>,
      &Caller::control<&ControlService::CloseImports>,
      &Caller::control<&ControlService::Holders>,
      &Caller::admin<&AdminService::Status>,
      &Caller::admin<&AdminService::ListArrays>,
      &Caller::admin<&AdminService::ListHolders>,
      &Caller::admin<&AdminService::ListSessions>,
      &Caller::admin<&AdminService::WithdrawArray>,
      &Caller::admin<&AdminService::Evict>,
      &Caller::admin<&AdminService::Metrics>,
      &Caller::admin<&AdminService::Sample>,
      &Caller::admin<&AdminService::Verify>,
  };

  FakeServiceHost& host_;
  const wire::SessionId session_;
  std::string credential_;
  ControlService control_;
  AdminService admin_;
};

void play(Input& input) {
  FakeServiceHost host;
  server::Broker& broker = host.world.broker;
  broker.set_limits(small(), {});
  host.world.memory.be_sparse();
  Caller owner(host, kOwner);
  Caller guest(host, kGuest);
  const wire::ArrayId mine = host.world.create(owner.session(), spec_of("private", 0600));
  host.world.create(owner.session(), spec_of("shared", 0666));
  while (!input.empty()) guest.call(input);
  require(broker.exists(peer_of(kOwner), "private"), "nobody withdraws what is not his");
  require(!broker.exists(peer_of(kGuest), "private"), "nobody sees what he may not read");
  require(broker.acquire_writer(owner.session(), mine).ok(), "the owner writes");
  require(server::audit(broker).wrong == 0, "the books are right");
  guest.exit();
  owner.exit();
  for (const std::string& name : host.world.names(peer_of(0), true)) {
    require(broker.withdraw(peer_of(0), name).ok() || !broker.exists(peer_of(0), name),
            "root withdraws what is left");
  }
  require(broker.sessions().size() == 0 && broker.catalog().size() == 0,
          "nobody and nothing is left");
  require(server::audit(broker).wrong == 0, "the books are right in the end");
  for (const auto& [uid, account] : broker.quota().accounts()) {
    require(account.usage() == server::Usage{}, "every account is at zero");
  }
}

}  // namespace
}  // namespace memlease::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  memlease::testing::Input input(data, size);
  memlease::testing::play(input);
  return 0;
}
