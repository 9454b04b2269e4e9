// Opening, closing and calling may wait for the device or the daemon, for seconds: while one thread
// does, others go on. Each test stops a thread in one such step.
#include <ostream>

#include "tests/client/arrays/device_threads.h"

namespace memlease::testing {
namespace {

// A step at which a thread of this process stops, and what leads there.
struct LongStep {
  const char* gate;
  const char* name;
  void (*run)(Client& client);
  friend void PrintTo(const LongStep& step, std::ostream* out) { *out << step.name; }
};

void open_other(Client& client) { static_cast<void>(client.open("other")); }
void read_other(Client& client) { read(client.open("other")); }
void close_other(Client& client) {
  const Array other = client.open("other");
  read(other);
  other.close();
}
void close_and_flush(Client& client) {
  close_other(client);
  client.exists("other");
}
void drop_other(Client& client) {
  {
    const Array other = client.open("other");
  }
  client.exists("other");
}
void open_host(Client& client) { static_cast<void>(client.open("elsewhere")); }
void write_other(Client& client) { publish(client.open("other")); }

class DeviceLocks : public DeviceThreads, public ::testing::WithParamInterface<LongStep> {
 protected:
  DeviceLocks() {
    publish(gpu);
    host.put(kZeros, sizeof kZeros);
    daemon.create_elsewhere("other", kGpu, kOwnSegment);
    daemon.create_elsewhere("elsewhere", "host", kOwnSegment);
    daemon.create_elsewhere("third", kGpu, kOwnSegment);
    // So that there is a version to read.
    const Array other = client.open("other");
    publish(other);
    other.close();
    client.exists("other");
  }
  // What the process does all the time, on arrays that it has open and one that it opens.
  void everything() {
    read(gpu);
    publish(gpu);
    host.read().release();
    host.put(kZeros, sizeof kZeros);
    ReadLease lease = read_on(gpu, 17);
    lease.pin().reset();
    lease.release();
    static_cast<void>(client.open("gpu"));
    const Array third = client.open("third");
    publish(third);
    read(third);
    third.close();
    client.exists("third");
  }

  // Its slot is kept for the next lease, which waits for all streams.
  void drop_a_pin_after_its_lease() {
    ReadLease lease = read_on(gpu, 17);
    Pin pin = lease.pin();
    lease.release();
    pin.reset();
    read(gpu);
  }

  static constexpr std::uint64_t kZeros[8] = {};
  Array gpu = create("gpu", kGpu);
  Array host = create("host", "host");
};

TEST_P(DeviceLocks, AreNotHeldWhileAThread) {
  daemon.gates.shut(GetParam().gate);
  Running stopped([&] { GetParam().run(client); });
  ASSERT_TRUE(daemon.gates.reached(GetParam().gate));
  EXPECT_TRUE(gets_through([&] {
    everything();
    drop_a_pin_after_its_lease();
  }));
  EXPECT_TRUE(waits(stopped));
  daemon.gates.open_all();
  stopped.join();
  client.close();
}

INSTANTIATE_TEST_SUITE_P(
    Steps, DeviceLocks,
    ::testing::Values(LongStep{"open_memory", "OpensMemory", open_other},
                      LongStep{"call import_memory", "AsksForMemory", open_other},
                      LongStep{"call subscribe", "Subscribes", read_other},
                      LongStep{"call acquire_writer", "AsksForWriterOwnership", write_other},
                      LongStep{"close_memory", "ClosesMemory", close_other},
                      LongStep{"close_memory", "ClosesMemoryOfAnArrayThatItDropped", drop_other},
                      LongStep{"call leave", "Leaves", close_other},
                      LongStep{"call close_imports", "TellsWhatItHasClosed", close_and_flush},
                      LongStep{"fetch", "FetchesAFile", open_host}),
    [](const auto& step) { return std::string(step.param.name); });

// The array's last use ends, and its GPU is at work for as long as the test wants.
TEST_F(DeviceLocks, AreNotHeldWhileAThreadWaitsForTheGpuBeforeItLeaves) {
  const Array other = client.open("other");
  ReadLease lease = read_on(other, 30);
  daemon.importer.stall(stream(30));
  lease.release();
  Running stopped([&] { other.close(); });
  EXPECT_TRUE(waits(stopped));
  EXPECT_TRUE(gets_through([&] { everything(); }));
  EXPECT_TRUE(waits(stopped));
  daemon.importer.resume();
  stopped.join();
  client.close();
}

// Who opens an array whose GPU another thread waits for before it leaves waits, too, and makes
// nobody wait.
TEST_F(DeviceLocks, AreNotHeldByAThreadThatWaitsForOneThatLeaves) {
  const Array other = client.open("other");
  ReadLease lease = read_on(other, 30);
  daemon.importer.stall(stream(30));
  lease.release();
  Running leaving([&] { other.close(); });
  EXPECT_TRUE(waits(leaving));
  Running opening([&] { open_other(client); });
  EXPECT_TRUE(waits(opening));
  EXPECT_TRUE(gets_through([&] { everything(); }));
  EXPECT_TRUE(waits(opening));
  daemon.importer.resume();
  leaving.join();
  opening.join();
  client.close();
}

// The control: who does wait for that thread is found to.
TEST_F(DeviceLocks, DoMakeWhoWantsTheSameArrayWait) {
  daemon.gates.shut("open_memory");
  Running first([&] { open_other(client); });
  ASSERT_TRUE(daemon.gates.reached("open_memory"));
  Running second([&] { open_other(client); });
  EXPECT_TRUE(waits(second));
  daemon.gates.open_all();
  first.join();
  second.join();
  client.close();
}

}  // namespace
}  // namespace memlease::testing
