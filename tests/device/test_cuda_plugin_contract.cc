// The plug-in's table keeps what it promises the threads that call it, entry by entry.
#include <array>
#include <cstdint>
#include <ostream>
#include <string>

#include "cuda/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/driver_calls.h"
#include "tests/device/plugin_contract.h"
#include "tests/support/fakecuda/fakecuda.h"

namespace memlease::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const memlease_cuda_table& plugin() {
  static const memlease_cuda_table& table = **cuda::load_plugin();
  return table;
}

// The process whose memory is opened tells no host what it did.
void expect_nothing_else_found(fakecuda::PrivateWorld& world) {
  for (const auto& finding : world.findings()) {
    EXPECT_EQ(finding.what, fakecuda::Finding::What::kOrphanWait) << describe(finding);
  }
}

TEST(PluginContract, EveryEntryKeepsIt) {
  FAKECUDA_STAND_IN_ONLY();
  fakecuda::PrivateWorld world;
  EXPECT_THAT(violations_of(plugin(), world), IsEmpty());
  expect_nothing_else_found(world);
}

// Without the exchange of modes, captures are lost.
TEST(PluginContract, WithTheThreadsModeAsItIsCapturesAreLost) {
  FAKECUDA_STAND_IN_ONLY();
  fakecuda::PrivateWorld world;
  world->set(fakecuda::Knob::kExchangeIgnored, 1);
  const auto found = violations_of(plugin(), world);
  for (const char* entry :
       {"allocate", "open_memory", "close_memory", "create_stream", "query", "copy"}) {
    EXPECT_THAT(found, Contains(::testing::AllOf(::testing::StartsWith(std::string(entry) + " "),
                                                 HasSubstr("the capture is lost"))));
  }
  (void)world.findings();  // what was refused was not given back
}

// A query that is right but for one thing.
struct Flaw {
  std::string name;
  std::int32_t (*query)(std::int32_t ordinal, void* event);
  std::string found;
};
void PrintTo(const Flaw& flaw, std::ostream* out) { *out << flaw.name; }

CUcontext current() {
  CUcontext context = nullptr;
  (void)MEMLEASE_DRIVER(cuCtxGetCurrent)(&context);
  return context;
}

std::int32_t by_set_device(std::int32_t ordinal, void* event) {
  int before = 0;
  (void)cudaGetDevice(&before);
  const std::int32_t error = plugin().query(ordinal, event);
  if (before != ordinal) (void)cudaSetDevice(before);
  return error;
}

std::int32_t leaves_its_context(std::int32_t ordinal, void* event) {
  (void)cudaSetDevice(ordinal);
  return plugin().query(ordinal, event);
}

std::int32_t leaves_its_mode(std::int32_t ordinal, void* event) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  (void)MEMLEASE_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
  return plugin().query(ordinal, event);
}

std::int32_t in_the_threads_mode(std::int32_t ordinal, void* event) {
  const CUcontext before = current();
  (void)cudaSetDevice(ordinal);
  const std::int32_t error = cudaEventQuery(static_cast<cudaEvent_t>(event));
  (void)MEMLEASE_DRIVER(cuCtxSetCurrent)(before);
  return error;
}

const Flaw kFlaws[] = {
    {"SetsTheDeviceBack", by_set_device, "a context on another GPU"},
    {"LeavesItsContext", leaves_its_context, "another context is current"},
    {"LeavesItsMode", leaves_its_mode, "the capture mode is another one"},
    {"InTheThreadsMode", in_the_threads_mode, "the capture is lost"},
};

class BrokenPlugin : public ::testing::TestWithParam<Flaw> {};
INSTANTIATE_TEST_SUITE_P(, BrokenPlugin, ::testing::ValuesIn(kFlaws),
                         [](const auto& test) { return test.param.name; });

TEST_P(BrokenPlugin, IsFoundOut) {
  FAKECUDA_STAND_IN_ONLY();
  fakecuda::PrivateWorld world;
  memlease_cuda_table table = plugin();
  table.query = GetParam().query;
  EXPECT_THAT(violations_of(table, world), Contains(::testing::AllOf(::testing::StartsWith("query"),
                                                                     HasSubstr(GetParam().found))));
  expect_nothing_else_found(world);
}

// What a stream of another context is given can be waited for, and it writes words and waits.
TEST(PluginContract, StreamsOfAnotherContextAreOrdered) {
  FAKECUDA_STAND_IN_ONLY();
  const fakecuda::PrivateWorld world;
  std::int32_t count = 0;
  ASSERT_EQ(plugin().device_count(&count), 0);
  CUcontext own = nullptr;
  ASSERT_EQ(MEMLEASE_DRIVER(cuCtxCreate)(&own, nullptr, 0, 1), CUDA_SUCCESS);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  (void)MEMLEASE_DRIVER(cuCtxSetCurrent)(nullptr);
  alignas(4096) static std::array<std::uint64_t, 512> words{};
  void* mark = nullptr;
  void* after = nullptr;
  ASSERT_EQ(plugin().register_pages(1, words.data(), sizeof words, 0), 0);
  ASSERT_EQ(plugin().create_stream(1, &after), 0);
  std::int32_t number = -1;
  EXPECT_EQ(plugin().is_capturing(1, stream, &number), 0);
  EXPECT_EQ(number, 0);
  EXPECT_EQ(plugin().stream_device(stream, &number), 0);
  EXPECT_EQ(number, 1);

  EXPECT_EQ(plugin().wait_for_word(1, &words[1], 1, stream), 0);
  EXPECT_EQ(plugin().write_word(1, words.data(), 1, stream), 0);
  EXPECT_EQ(plugin().mark(1, stream, &mark), 0);
  EXPECT_EQ(plugin().order(1, stream, after), 0);
  EXPECT_EQ(plugin().query(1, mark), MEMLEASE_CUDA_NOT_READY);
  EXPECT_EQ(cudaStreamQuery(static_cast<cudaStream_t>(after)), cudaErrorNotReady);
  void* first = nullptr;
  ASSERT_EQ(plugin().create_stream(1, &first), 0);
  EXPECT_EQ(plugin().write_word(1, &words[1], 1, first), 0);
  EXPECT_EQ(cudaStreamSynchronize(static_cast<cudaStream_t>(after)), cudaSuccess);
  EXPECT_EQ(words[0], 1U);

  EXPECT_EQ(plugin().close_mark(1, mark), 0);
  EXPECT_EQ(plugin().unregister_pages(1, words.data()), 0);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(MEMLEASE_DRIVER(cuCtxDestroy)(own), CUDA_SUCCESS);
}

// Nobody is called that is not there.
TEST(PluginContract, AnOldDriverIsAnError) {
  FAKECUDA_STAND_IN_ONLY();
  const fakecuda::PrivateWorld world;
  world->set(fakecuda::Knob::kDriverVersion, 12000);
  std::int32_t number = 0;
  void* thing = nullptr;
  memlease_cuda_handle handle{};
  EXPECT_NE(plugin().allocate(0, 1, &thing, &handle), 0);
  EXPECT_NE(plugin().create_stream(0, &thing), 0);
  EXPECT_EQ(plugin().device_count(&number), cudaErrorInsufficientDriver);
  EXPECT_EQ(world->contexts(getpid(), 0), 0U);
}

TEST(PluginContract, WithoutADriverEveryCallIsAnError) {
  FAKECUDA_STAND_IN_ONLY();
  fakecuda_detach();
  std::int32_t number = 0;
  void* thing = nullptr;
  EXPECT_NE(plugin().create_stream(0, &thing), 0);
  EXPECT_NE(plugin().query(0, nullptr), 0);
  EXPECT_NE(plugin().pointer_device(&number, &number), 0);
  EXPECT_NE(plugin().synchronize_device(0), 0);
}

}  // namespace
}  // namespace memlease::testing
