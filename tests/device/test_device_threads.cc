// The threads of one process, with GPU arrays of the real daemon: ThreadSanitizer sees all that
// they share, and the stand-in's checker the work that they order. A second process makes the first
// one open its events.
#include <cuda_runtime_api.h>
#include <memlease/memlease.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/device/fixture.h"
#include "tests/support/fakecuda/test_kernels.h"

namespace memlease::testing {
namespace {

constexpr std::size_t kElements = 500;
constexpr int kRounds = 60;

// A thread's stream, and what its kernels found wrong.
class Worker {
 public:
  Worker() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&mismatches_), sizeof *mismatches_), cudaSuccess);
    EXPECT_EQ(cudaMemset(mismatches_, 0, sizeof *mismatches_), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  ~Worker() {
    std::uint64_t wrong = 1;
    EXPECT_EQ(cudaMemcpyAsync(&wrong, mismatches_, sizeof wrong, cudaMemcpyDefault, stream_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(cudaFree(mismatches_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Stream stream() const { return stream_; }
  // Each version consists of its number.
  void fill(const WriteLease& lease) const {
    EXPECT_EQ(
        tk_fill(static_cast<std::uint64_t*>(lease.data()), kElements, lease.version(), stream_), 0);
  }
  void look(const ReadLease& lease, cudaStream_t on) const {
    EXPECT_EQ(tk_check(static_cast<const std::uint64_t*>(lease.data()), kElements, lease.version(),
                       mismatches_, on),
              0);
  }
  void look(const ReadLease& lease) const { look(lease, stream_); }

 private:
  cudaStream_t stream_ = nullptr;
  std::uint64_t* mismatches_ = nullptr;
};

class DeviceThreads : public DeviceTest {
 protected:
  static void write_once(const Array& array, const Worker& worker, std::uint64_t choice) {
    WriteOptions options;
    options.stream = worker.stream();
    WriteLease lease = choice == 0 ? array.update(options) : array.write(options);
    worker.fill(lease);
    if (choice == 1) {
      lease.drop();
    } else {
      lease.publish();
    }
  }
  static void read_once(const Array& array, const Worker& worker, std::uint64_t choice) {
    ReadOptions options;
    options.stream = worker.stream();
    if (choice == 0) {
      std::vector<std::uint64_t> values(kElements);
      const std::uint64_t version = array.get(values.data(), kElements * sizeof(std::uint64_t));
      EXPECT_EQ(values.back(), version);
      return;
    }
    ReadLease lease = array.read(options);
    if (choice == 1) {
      // cudaStream_t is what the array protocols pass as a number.
      auto* const exported = reinterpret_cast<cudaStream_t>(lease.export_stream().handle());
      EXPECT_THAT(cudaStreamQuery(exported), ::testing::AnyOf(cudaSuccess, cudaErrorNotReady));
    }
    worker.look(lease);
    Pin pin = choice == 2 ? lease.pin() : Pin();
    lease.release();  // a pin that goes later is settled by the next lease
  }
  // By the host: all elements of a version are alike.
  static void put_and_get(const Array& array, std::uint64_t value) {
    std::vector<std::uint64_t> values(kElements, value);
    array.put(values.data(), kElements * sizeof(std::uint64_t));
    array.get(values.data(), kElements * sizeof(std::uint64_t));
    EXPECT_EQ(values.front(), values.back());
  }
  static void open_and_close(const memlease::Client& client, const Worker& worker) {
    const Array array = client.open("b");
    ReadOptions options;
    options.stream = worker.stream();
    try {
      array.read(options).release();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Closed) << error.what();  // by the other thread
    }
    array.close();
    client.exists("b");
  }
  static memlease::Client connect(const std::string& directory) {
    ConnectOptions options;
    options.directory = directory;
    options.start = false;
    return memlease::Client::connect(options);
  }
  static Array create(const memlease::Client& client, const std::string& name) {
    CreateOptions options;
    options.name = name;
    options.shape = {kElements};
    options.dtype = dtype_of<std::uint64_t>();
    options.device = "cuda:0";
    options.slots = 6;
    options.lifetime = memlease::Lifetime::Persistent;  // a session array would keep the session
    return client.create(options);
  }
};

TEST_F(DeviceThreads, DoAllThatThereIsAtOnce) {
  const memlease::Client client = connect(daemon.directory());
  {
    Client other(daemon);  // whose events this process opens
    const Array array = create(client, "a");
    const Array by_host = create(client, "h");
    {
      const Worker first;
      write_once(array, first, 3);
      // Another process's: this one opens it, and leaves it, over and over.
      other.is_ok("create b 3 " + std::to_string(kElements) + " cuda:0");
      other.is_ok("put b 1");
    }
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    const auto run = [&](unsigned seed, auto&& once) {
      threads.emplace_back([seed, once] {
        const Worker worker;
        std::mt19937 random(seed);
        for (int round = 0; round < kRounds; ++round) once(worker, random() % 5);
      });
    };
    run(1, [&](const Worker& worker, std::uint64_t choice) { write_once(array, worker, choice); });
    run(2, [&](const Worker& worker, std::uint64_t choice) { read_once(array, worker, choice); });
    run(3, [&](const Worker& worker, std::uint64_t choice) { read_once(array, worker, choice); });
    run(4, [&](const Worker&, std::uint64_t choice) { put_and_get(by_host, choice); });
    run(5, [&](const Worker&, std::uint64_t choice) { put_and_get(by_host, choice); });
    run(6, [&](const Worker& worker, std::uint64_t) { open_and_close(client, worker); });
    run(7, [&](const Worker& worker, std::uint64_t) { open_and_close(client, worker); });
    std::thread reader([&] {
      while (!done.load()) other.is_ok("get a");
    });
    for (auto& thread : threads) thread.join();
    done.store(true);
    reader.join();
  }
  client.withdraw("a");
  client.withdraw("h");
  client.close();
  if (fakecuda::is_loaded()) {  // else it serves other tests, and is looked at after each
    EXPECT_EQ(daemon.unsettled(), "");
  }
}

}  // namespace
}  // namespace memlease::testing
