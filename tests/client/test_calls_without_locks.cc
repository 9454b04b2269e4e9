// In builds with a sanitizer: where a client calls the daemon, maps or unmaps a file, opens, closes
// or waits for something on a GPU, or runs code of the user's, it may hold no mutex. What waits
// otherwise is in tests/wire/test_held_mutexes.cc.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "client/channel/attach_client.h"
#include "client/cuda/cuda_importer.h"
#include "client/rpc/control_channel.h"
#include "client/rpc/control_stub.h"
#include "client/session/interrupt.h"
#include "client/session/mapping_cache.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/mutex.h"

namespace memlease::internal {
namespace {

void under_a_mutex(const std::function<void()>& call) {
  wire::Mutex mutex;
  const wire::MutexLock lock(mutex);
  call();
}

TEST(CallsWithoutLocksDeathTest, ACallToTheDaemonIsMadeWithoutALock) {
  const testing::TemporaryFolder directory;
  testing::bind_unix(directory.path() + "/control.sock", SOCK_STREAM);  // and nobody listens
  auto socket = ControlSocket::find(directory.path());
  ASSERT_TRUE(socket.ok()) << socket.status();
  ControlStub control(*std::move(socket), "credential");
  EXPECT_FALSE(control.list("*", kNoInterrupts).ok());
  EXPECT_DEATH(under_a_mutex([&] { control.list("*", kNoInterrupts).IgnoreError(); }),
               "a call to the daemon under a mutex");
}

TEST(CallsWithoutLocksDeathTest, ASessionBeginsWithoutALock) {
  const testing::TemporaryFolder empty;
  EXPECT_FALSE(AttachClient::connect(empty.path()).ok());
  EXPECT_DEATH(under_a_mutex([&] { AttachClient::connect(empty.path()).IgnoreError(); }),
               "the beginning of a session under a mutex");
}

TEST(CallsWithoutLocksDeathTest, TheUsersCheckRunsWithoutALock) {
  EXPECT_TRUE(call_check([] {}).ok());
  EXPECT_DEATH(under_a_mutex([] { call_check([] {}).IgnoreError(); }),
               "a check for interrupts of the user's under a mutex");
}

TEST(CallsWithoutLocksDeathTest, UserCodeInsideACallRunsWithoutALock) {
  EXPECT_DEATH(under_a_mutex([] { run_user_code([] { return absl::OkStatus(); }).IgnoreError(); }),
               "code of the user's in the middle of a call under a mutex");
}

constexpr std::uint64_t kBytes = 4096;

// In the process that is to die: what another one has mapped or opened is not a forked child's.
std::shared_ptr<Mapping> map_file(wire::FileKind kind) {
  wire::UniqueFd file(memfd_create("memlease-test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(file.get(), kBytes), 0);
  auto mapped =
      Mapping::map({std::move(file), kind, kBytes, true}, std::make_shared<PeerWindows>());
  EXPECT_TRUE(mapped.ok()) << mapped.status();
  return *std::move(mapped);
}

TEST(CallsWithoutLocksDeathTest, AFileIsMappedWithoutALock) {
  EXPECT_DEATH(under_a_mutex([] { map_file(wire::FileKind::kBoard); }),
               "the mapping of a file under a mutex");
}

TEST(CallsWithoutLocksDeathTest, AFileIsUnmappedWithoutALock) {
  EXPECT_DEATH(
      {
        auto mapped = map_file(wire::FileKind::kBoard);
        under_a_mutex([&] { mapped.reset(); });
      },
      "the unmapping of a file under a mutex");
}

TEST(CallsWithoutLocksDeathTest, ASegmentIsUnmappedWithoutALock) {
  EXPECT_DEATH(
      {
        auto mapped = map_file(wire::FileKind::kSegment);
        under_a_mutex([&] { mapped.reset(); });
      },
      "the unmapping of a segment under a mutex");
}

// A GPU that does what it is asked for, which is nothing.
class GpuWithoutLocksDeathTest : public ::testing::Test {
 protected:
  static memlease_cuda_table table() {
    memlease_cuda_table does{};
    does.open_memory = [](auto...) { return MEMLEASE_CUDA_OK; };
    does.close_memory = [](auto...) { return MEMLEASE_CUDA_OK; };
    does.synchronize_device = [](auto...) { return MEMLEASE_CUDA_OK; };
    does.register_pages = [](auto...) { return MEMLEASE_CUDA_OK; };
    does.unregister_pages = [](auto...) { return MEMLEASE_CUDA_OK; };
    return does;
  }
  auto open() { return gpu_.open_memory({}, kBytes); }
  auto register_pages() { return gpu_.register_pages(page_.data(), page_.size(), true); }

  const memlease_cuda_table table_ = table();
  CudaImporter gpu_{table_, {}};
  std::array<std::byte, kBytes> page_{};
};

TEST_F(GpuWithoutLocksDeathTest, ItsMemoryIsOpenedWithoutALock) {
  EXPECT_TRUE(open().ok());
  EXPECT_DEATH(under_a_mutex([&] { open().IgnoreError(); }),
               "the opening of a GPU's memory under a mutex");
}

TEST_F(GpuWithoutLocksDeathTest, ItsMemoryIsClosedWithoutALock) {
  EXPECT_DEATH(
      {
        auto memory = open();
        under_a_mutex([&] { memory->reset(); });
      },
      "the closing of a GPU's memory under a mutex");
}

TEST_F(GpuWithoutLocksDeathTest, ItIsWaitedForWithoutALock) {
  EXPECT_TRUE(gpu_.synchronize().ok());
  EXPECT_DEATH(under_a_mutex([&] { gpu_.synchronize().IgnoreError(); }),
               "a wait for a GPU under a mutex");
}

TEST_F(GpuWithoutLocksDeathTest, PagesAreRegisteredForItWithoutALock) {
  EXPECT_TRUE(register_pages().ok());
  EXPECT_DEATH(under_a_mutex([&] { register_pages().IgnoreError(); }),
               "the registration of pages under a mutex");
}

TEST_F(GpuWithoutLocksDeathTest, ARegistrationEndsWithoutALock) {
  EXPECT_DEATH(
      {
        auto registered = register_pages();
        under_a_mutex([&] { registered->reset(); });
      },
      "the end of a registration of pages under a mutex");
}

}  // namespace
}  // namespace memlease::internal
