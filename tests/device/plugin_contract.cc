#include "tests/device/plugin_contract.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>
#include <tuple>
#include <type_traits>

#include "fmt/format.h"
#include "tests/contract/findings.h"
#include "tests/device/driver_calls.h"
#include "tests/fakecuda/hex.h"
#include "tests/support/fakecuda/fakecuda.h"
#include "tests/support/peer.h"

namespace memlease::testing {
namespace {

constexpr std::int32_t kDevice = 1;  // that the calls name
constexpr std::uint64_t kBytes = 2ULL << 20;

// What the entries are called with: memory of another process, opened by the table, and
// words, a mark and streams, on the device.
class Bench {
 public:
  explicit Bench(const memlease_cuda_table& table) : table_(table) {
    for (const std::string command : {"device 1", "malloc data 262144"}) {
      good_ &= peer_.ask(command).ok();
    }
    memory_ = handle_of(peer_.ask("export data"));
  }
  // On a thread that nobody looks at.
  void open() {
    std::int32_t count = 0;
    good_ &= table_.device_count(&count) == 0 && count == 2 &&
             table_.open_memory(kDevice, &memory_, &address) == 0 &&
             table_.create_stream(kDevice, &stream) == 0 &&
             table_.create_stream(kDevice, &other) == 0 &&
             table_.mark(kDevice, stream, &mark) == 0 &&
             table_.register_pages(kDevice, words.data(), sizeof words, 0) == 0;
  }
  void close() {
    (void)table_.synchronize_device(kDevice);
    (void)table_.unregister_pages(kDevice, words.data());
    (void)table_.close_mark(kDevice, mark);
    (void)table_.close_memory(kDevice, address, &memory_);
  }
  ~Bench() {
    // For the checker: the peer's host knows what this one does.
    fakecuda_release(1, 0);
    (void)peer_.ask("checker_acquire 1");
    (void)peer_.ask("free data");
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  bool good() const { return good_; }
  const memlease_cuda_handle& memory() const { return memory_; }

  void* address = nullptr;
  void* mark = nullptr;
  void* stream = nullptr;
  void* other = nullptr;
  alignas(4096) std::array<std::uint64_t, 512> words{};

 private:
  static memlease_cuda_handle handle_of(const Answer& answer) {
    memlease_cuda_handle handle{};
    if (!answer.ok()) return handle;
    const auto bytes = fakecuda::testing::from_hex<cudaIpcMemHandle_t>(answer.text);
    std::memcpy(handle.bytes, &bytes, sizeof handle.bytes);
    return handle;
  }

  const memlease_cuda_table& table_;
  Peer peer_{""};
  bool good_ = true;
  memlease_cuda_handle memory_{};
};

// What one entry needs before its call, and leaves.
struct Step {
  void* thing = nullptr;
  memlease_cuda_handle handle{};
};
using Table = const memlease_cuda_table&;
using Part = std::function<std::int32_t(Table, Bench&, Step&)>;

struct Entry {
  const char* name;
  std::size_t offset;
  Part call;
  Part before = nullptr;  // of these the caller's thread is not told
  Part after = nullptr;
  bool waits_for_device = false;
};

#define ENTRY(name) #name, offsetof(memlease_cuda_table, name)
#define PART(expression)                                          \
  []([[maybe_unused]] Table table, [[maybe_unused]] Bench& bench, \
     [[maybe_unused]] Step& step) -> std::int32_t { return expression; }

std::int32_t nothing() { return 0; }

const auto& entries() {
  static const Part allocate = PART(table.allocate(kDevice, kBytes, &step.thing, &step.handle));
  static const Part deallocate = PART(table.deallocate(kDevice, step.thing, &step.handle));
  static const Part open = PART(table.open_memory(kDevice, &bench.memory(), &step.thing));
  static const Part close = PART(table.close_memory(kDevice, step.thing, &bench.memory()));
  static const Part make_mark = PART(table.mark(kDevice, bench.stream, &step.thing));
  static const Part close_mark = PART(table.close_mark(kDevice, step.thing));
  // What another entry has enqueued may still go on.
  static const Part query = [](Table table, Bench& bench, Step&) -> std::int32_t {
    const std::int32_t answer = table.query(kDevice, bench.mark);
    return answer == MEMLEASE_CUDA_NOT_READY ? MEMLEASE_CUDA_OK : answer;
  };
  static const Part copy_rows = [](Table table, Bench& bench, Step&) -> std::int32_t {
    static const std::array<std::int32_t, 3> rows{};
    const memlease_cuda_rows given{bench.address, rows.data(), 8, 4, 4, rows.size()};
    return table.copy_rows(kDevice, &given, bench.stream);
  };
  alignas(4096) static std::array<std::byte, 8192> pages;
  static const Part lock = PART(table.register_pages(kDevice, pages.data(), pages.size(), 0));
  static const Part unlock = PART(table.unregister_pages(kDevice, pages.data()));
  static char text[256];
  static std::int32_t number;
  static memlease_cuda_device device;
  static const auto all = std::to_array<Entry>({
      {ENTRY(describe_error), PART((table.describe_error(1, text, sizeof text), nothing()))},
      {ENTRY(driver_version), PART(table.driver_version(&number))},
      {ENTRY(device_count), PART(table.device_count(&number))},
      {ENTRY(describe_device), PART(table.describe_device(kDevice, &device))},
      {ENTRY(allocate), allocate, nullptr, deallocate},
      {ENTRY(deallocate), deallocate, allocate},
      {ENTRY(open_memory), open, nullptr, close},
      {ENTRY(close_memory), close, open},
      {ENTRY(stream_device), PART(table.stream_device(bench.stream, &number))},
      {ENTRY(is_capturing), PART(table.is_capturing(kDevice, bench.stream, &number))},
      {ENTRY(create_stream), PART(table.create_stream(kDevice, &step.thing))},
      {ENTRY(synchronize_device), PART(table.synchronize_device(kDevice)), nullptr, nullptr, true},
      {ENTRY(orders_by_words), PART(table.orders_by_words(kDevice, &number))},
      {ENTRY(write_word), PART(table.write_word(kDevice, bench.words.data(), 1, bench.stream))},
      {ENTRY(wait_for_word),
       PART(table.wait_for_word(kDevice, bench.words.data(), 0, bench.stream))},
      {ENTRY(check_device), PART(table.check_device(kDevice, bench.other))},
      {ENTRY(mark), make_mark, nullptr, close_mark},
      {ENTRY(close_mark), close_mark, make_mark},
      {ENTRY(query), query},
      {ENTRY(order), PART(table.order(kDevice, bench.stream, bench.other))},
      {ENTRY(copy), PART(table.copy(kDevice, bench.address, &number, sizeof number, bench.stream))},
      {ENTRY(copy_rows), copy_rows},
      {ENTRY(register_pages), lock, nullptr, unlock},
      {ENTRY(unregister_pages), unlock, lock},
      {ENTRY(pointer_device), PART(table.pointer_device(bench.address, &number))},
      {ENTRY(release), PART((table.release(1, 1), nothing()))},
      {ENTRY(acquire), PART((table.acquire(1, 1), nothing()))},
      {ENTRY(exited), PART((table.exited(0), nothing()))},
      {ENTRY(saw), PART((table.saw(bench.words.data()), nothing()))},
  });
  constexpr std::size_t kEntries =
      (sizeof(memlease_cuda_table) - offsetof(memlease_cuda_table, describe_error)) /
      sizeof(&nothing);
  static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(all)>> == kEntries,
                "an entry of the table has no case here, or one that is gone has");
  return all;
}

// ---- The calling thread.

struct Surroundings {
  CUcontext context = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  fakecuda::u32 elsewhere = 0;  // contexts on the GPU that no call names

  bool operator==(const Surroundings&) const = default;
};

Surroundings look(const fakecuda::PrivateWorld& world) {
  Surroundings found;
  (void)MEMLEASE_DRIVER(cuCtxGetCurrent)(&found.context);
  // By two exchanges, as there is no question.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  (void)MEMLEASE_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
  found.mode = static_cast<cudaStreamCaptureMode>(mode);
  (void)MEMLEASE_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
  found.elsewhere = world->contexts(getpid(), 0);
  return found;
}

// A caller: what its thread has current before the call.
struct Caller {
  const char* name;
  std::function<CUcontext()> begin;  // a context to destroy, or null
};

CUcontext made_on(int device) {
  CUcontext context = nullptr;
  (void)MEMLEASE_DRIVER(cuCtxCreate)(&context, nullptr, 0, device);
  return context;
}

CUcontext primary_of(int device) {
  (void)cudaSetDevice(device);
  return nullptr;
}

// The last one makes a context on the other GPU, where any other would show.
const std::array<Caller, 5> kCallers = {{
    {"no context", [] { return CUcontext(nullptr); }},
    {"the device's primary context", [] { return primary_of(kDevice); }},
    {"another context of the device", [] { return made_on(kDevice); }},
    {"a context of another device", [] { return made_on(0); }},
    {"another device's primary context", [] { return primary_of(0); }},
}};

class Checks {
 public:
  Checks(Table table, const fakecuda::PrivateWorld& world, Bench& bench)
      : table_(table), world_(world), bench_(bench) {}

  void by(const Caller& caller, const Entry& entry) {
    Step step;
    prepare(entry.before, step);
    std::thread([&] {
      const CUcontext own = caller.begin();
      CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
      (void)MEMLEASE_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
      const Surroundings before = look(world_);
      const std::int32_t error = entry.call(table_, bench_, step);
      const Surroundings now = look(world_);
      const std::string who = fmt::format("{} by a caller with {}", entry.name, caller.name);
      findings.expect(error == 0, fmt::format("{}: fails with {}", who, error));
      findings.expect(now.context == before.context, who + ": another context is current");
      findings.expect(now.mode == before.mode, who + ": the capture mode is another one");
      findings.expect(now.elsewhere == before.elsewhere, who + ": a context on another GPU");
      (void)MEMLEASE_DRIVER(cuCtxSetCurrent)(before.context);
      if (own != nullptr) (void)MEMLEASE_DRIVER(cuCtxDestroy)(own);
    }).join();
    prepare(entry.after, step);
  }

  // While a stream captures, on the thread of the call or on another one.
  void during_capture(const Entry& entry, cudaStreamCaptureMode mode, unsigned flags, bool own) {
    // CUDA has no question whether there is one, and none but this waits for the device.
    if (entry.waits_for_device && flags == cudaStreamNonBlocking) return;
    Step step;
    prepare(entry.before, step);
    std::int32_t error = 0;
    cudaError_t end = cudaSuccess;
    std::thread([&] {
      cudaStream_t stream = nullptr;
      cudaGraph_t graph = nullptr;
      (void)cudaSetDevice(kDevice);
      (void)cudaStreamCreateWithFlags(&stream, flags);
      (void)cudaStreamBeginCapture(stream, mode);
      const auto call = [&] { error = entry.call(table_, bench_, step); };
      own ? call() : std::thread(call).join();
      end = cudaStreamEndCapture(stream, &graph);
      (void)cudaStreamDestroy(stream);
    }).join();
    const std::string when =
        fmt::format("{} while {} thread captures in mode {} on a {}blocking stream", entry.name,
                    own ? "its own" : "another", static_cast<int>(mode), flags != 0 ? "non-" : "");
    const std::int32_t right = entry.waits_for_device ? cudaErrorStreamCaptureImplicit : 0;
    findings.expect(error == right, fmt::format("{}: answers {}", when, error));
    findings.expect(end == cudaSuccess, when + ": the capture is lost");
    prepare(entry.after, step);
  }

  Findings findings;

 private:
  // On a thread that nobody looks at.
  void prepare(const Part& part, Step& step) {
    if (part == nullptr) return;
    std::thread([&] {
      findings.expect(part(table_, bench_, step) == 0, "what a call needs cannot be had");
    }).join();
  }

  Table table_;
  const fakecuda::PrivateWorld& world_;
  Bench& bench_;
};

}  // namespace

std::vector<std::string> violations_of(const memlease_cuda_table& table,
                                       const fakecuda::PrivateWorld& world) {
  Bench bench(table);
  std::thread([&] { bench.open(); }).join();
  Checks checks(table, world, bench);
  checks.findings.expect(bench.good(), "the bench cannot be set up");
  checks.findings.expect(world->contexts(getpid(), 0) == 0, "setting up: a context on another GPU");
  for (const Caller& caller : kCallers) {
    for (const Entry& entry : entries()) checks.by(caller, entry);
  }
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                          cudaStreamCaptureModeRelaxed}) {
    for (const unsigned flags : {unsigned{cudaStreamDefault}, unsigned{cudaStreamNonBlocking}}) {
      for (const bool own : {false, true}) {
        for (const Entry& entry : entries()) checks.during_capture(entry, mode, flags, own);
      }
    }
  }
  std::thread([&] { bench.close(); }).join();
  return checks.findings.take();
}

}  // namespace memlease::testing
