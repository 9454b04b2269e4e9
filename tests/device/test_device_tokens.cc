// A call without a session's token does not make the daemon load CUDA.
#include "client/channel/attach_client.h"
#include "tests/device/fixture.h"
#include "tests/integration/raw_control.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

class DeviceTokens : public DeviceTest {
 protected:
  static v1::CreateRequest creation(const std::string& device) {
    wire::ArraySpec spec;
    spec.name = "a";
    spec.dtype = {wire::DTypeCode::kFloat, 64, 1};
    spec.shape = {8};
    spec.device = device;
    v1::CreateRequest request;
    *request.mutable_spec() = wire::to_proto(spec);
    return request;
  }

  bool daemon_has_loaded_cuda() {
    const auto& processes = world->layout().processes;
    return daemon.log().find("GPU found") != std::string::npos ||
           std::any_of(processes.begin(), processes.end(), [&](const auto& process) {
             return process.state != fakecuda::Process::kFree &&
                    static_cast<pid_t>(process.pid) == daemon.pid();
           });
  }
};

TEST_F(DeviceTokens, AreLookedAtBeforeGpusAre) {
  FAKECUDA_STAND_IN_ONLY();
  constexpr auto kCreate = &v1::Control::Stub::Create;
  auto session = internal::AttachClient::connect(daemon.directory());
  ASSERT_TRUE(session.ok()) << session.status();
  RawControl caller(daemon.directory());
  // The daemon knows no GPU by this name, and would have to look.
  const v1::CreateRequest request = creation("GPU-00000000-0000-0000-0000-000000000000");
  for (const std::string& credential : {std::string(), std::string("x"), std::string(36, '\0')}) {
    EXPECT_EQ(wire::code_of(caller.call(kCreate, credential, request)), wire::ErrorCode::kDenied);
  }
  EXPECT_FALSE(daemon_has_loaded_cuda());
  // A control: whoever may ask is the reason to look.
  EXPECT_EQ(wire::code_of(caller.call(kCreate, credential_of(**session), request)),
            wire::ErrorCode::kUnsupported);
  EXPECT_TRUE(daemon_has_loaded_cuda());
}

}  // namespace
}  // namespace memlease::testing
