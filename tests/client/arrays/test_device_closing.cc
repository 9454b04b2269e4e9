// One thread closes the last array of a segment, or leaves one, while others open, read and
// release: what is handed out is open, what is closed is closed once, and the daemon's books agree.
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/arrays/device_threads.h"

namespace memlease::testing {
namespace {

class DeviceClosing : public DeviceThreads {
 protected:
  DeviceClosing() {
    daemon.create_elsewhere("one", kGpu);
    daemon.create_elsewhere("two", kGpu);
    publish_all();
  }
  // Both stand in one segment.
  void publish_all() {
    for (const char* name : {"one", "two"}) {
      const Array array = client.open(name);
      publish(array);
      array.close();
    }
    client.exists("one");
    ASSERT_EQ(daemon.imported_memory(), 0U);
  }
  // Reads by the host, which would fault in memory that has been closed.
  static std::uint64_t look(const Array& array) {
    const ReadLease lease = array.read();
    return *static_cast<const volatile std::uint64_t*>(lease.data());
  }
  // Opens the other array of the segment while the first is closed, then lets the closing go on.
  void open_while(const std::string& step, const std::function<void()>& close) {
    daemon.gates.shut(step);
    Running closing(close);
    ASSERT_TRUE(daemon.gates.reached(step));
    Running opening([&] {
      const Array two = client.open("two");
      look(two);
      opened_.set_value();
      looked_at_.get_future().wait();
      look(two);
      two.close();
    });
    std::future<void> opened = opened_.get_future();
    waits_ = opened.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout;
    daemon.gates.open_all();
    closing.join();
    opened.wait();
    client.exists("two");  // the daemon is told of what has been closed, if anything has
    open_here_ = daemon.importer.open_memory_count();
    open_by_the_books_ = daemon.imported_memory();
    looked_at_.set_value();
    opening.join();
    client.exists("two");
  }

  bool waits_ = false;
  int open_here_ = 0;
  std::size_t open_by_the_books_ = 0;

 private:
  std::promise<void> opened_;
  std::promise<void> looked_at_;
};

TEST_F(DeviceClosing, OfASegmentComesBeforeItsNextOpening) {
  const Array one = client.open("one");
  look(one);
  open_while("close_memory", [&] { one.close(); });
  EXPECT_TRUE(waits_);
  EXPECT_EQ(open_here_, 1);
  EXPECT_EQ(open_by_the_books_, 1U);
  EXPECT_EQ(daemon.importer.open_memory_count(), 0);
  EXPECT_EQ(daemon.imported_memory(), 0U);
  client.close();
}

TEST_F(DeviceClosing, IsToldToTheDaemonBeforeTheNextOpening) {
  const Array one = client.open("one");
  look(one);
  one.close();
  open_while("call close_imports", [&] { client.exists("one"); });
  EXPECT_TRUE(waits_);
  EXPECT_EQ(open_here_, 1);
  EXPECT_EQ(open_by_the_books_, 1U);
  EXPECT_EQ(daemon.imported_memory(), 0U);
  client.close();
}

// The control: the daemon takes for closed what this process has open, and would free it.
TEST_F(DeviceClosing, WithoutItsOrderTheBooksAreWrong) {
  leave_out("wait for who closes");
  const Array one = client.open("one");
  look(one);
  one.close();
  open_while("call close_imports", [&] { client.exists("one"); });
  EXPECT_FALSE(waits_);
  EXPECT_EQ(open_here_, 1);
  EXPECT_EQ(open_by_the_books_, 0U);
  client.close();
}

TEST_F(DeviceClosing, AnOpeningThatFailsLeavesNothing) {
  daemon.importer.refuse_next_open();
  EXPECT_THROW(static_cast<void>(client.open("one")), Error);
  client.exists("one");
  EXPECT_EQ(daemon.imported_memory(), 0U);
  look(client.open("one"));
  client.close();
}

// Its slot is kept until the device has been waited for, which the next call to the daemon does.
TEST_F(DeviceClosing, AnArrayWhosePinDiedAfterItsLeaseIsLeft) {
  Array one = client.open("one");
  ReadLease lease = read_on(one, 17);
  Pin pin = lease.pin();
  lease.release();
  pin.reset();
  one.close();
  client.exists("one");
  EXPECT_EQ(daemon.importer.open_memory_count(), 0);
  client.close();
}

TEST_F(DeviceClosing, AnArrayWhosePinDiedAfterAllHandlesIsLeft) {
  Pin pin;
  {
    ReadLease lease = read_on(client.open("one"), 17);
    pin = lease.pin();
    lease.release();
  }
  client.exists("one");
  EXPECT_EQ(daemon.importer.open_memory_count(), 1);
  pin.reset();
  client.exists("one");
  client.exists("one");  // it departs by the first, and is told of by the next
  EXPECT_EQ(daemon.importer.open_memory_count(), 0);
  client.close();
}

TEST_F(DeviceClosing, ASessionEndsThoughAPinDiedAfterItsLease) {
  ReadLease lease = read_on(client.open("one"), 17);
  Pin pin = lease.pin();
  lease.release();
  pin.reset();
  client.close();
  EXPECT_EQ(daemon.importer.open_memory_count(), 0);
}

// A lease ends in one thread while another closes the array: whoever comes last leaves it.
TEST_F(DeviceClosing, DuringAReleaseLeavesItToTheRelease) {
  const Array one = client.open("one");
  ReadLease lease = read_on(one, 17);
  std::promise<void> counted;
  std::promise<void> closed;
  arm_step("device.read_counted", 1, [&] {
    counted.set_value();
    closed.get_future().wait();
  });
  Running releasing([&] { lease.release(); });
  counted.get_future().wait();
  EXPECT_TRUE(gets_through([&] { one.close(); }));
  EXPECT_EQ(daemon.importer.open_memory_count(), 1) << "the lease has it still";
  closed.set_value();
  releasing.join();
  static_cast<void>(client.list());  // any call
  EXPECT_EQ(daemon.importer.open_memory_count(), 0);
  client.close();
}

// Its close() leaves it to the write, whose thread stands in a call; the write finds it closed.
TEST_F(DeviceClosing, DuringAWriteThatFailsLeavesItToTheWrite) {
  const Array one = client.open("one");
  daemon.gates.shut("call acquire_writer");
  Running writing([&] { EXPECT_THROW(publish(one), Error); });
  ASSERT_TRUE(daemon.gates.reached("call acquire_writer"));
  EXPECT_TRUE(gets_through([&] { one.close(); }));
  daemon.gates.open_all();
  writing.join();
  EXPECT_EQ(daemon.importer.open_memory_count(), 0);
  client.close();
}

// The last handle ends in one thread, and another one has given up the last hold but has yet to
// look whether anything follows from that.
TEST_F(DeviceClosing, WaitsForAThreadThatHasGivenUpTheLastHold) {
  std::optional<Array> one = client.open("one");
  ReadLease lease = read_on(*one, 17);
  std::promise<void> given_up;
  std::promise<void> go_on;
  arm_step("release.given_up", 1, [&] {
    given_up.set_value();
    go_on.get_future().wait();
  });
  Running releasing([&] { lease.release(); });
  given_up.get_future().wait();
  Running dropping([&] { one.reset(); });
  EXPECT_TRUE(waits(dropping));
  go_on.set_value();
  releasing.join();
  dropping.join();
  client.exists("one");
  EXPECT_EQ(daemon.importer.open_memory_count(), 0);
  client.close();
}

TEST_F(DeviceClosing, CanBeInterruptedWhileItWaitsForTheGpu) {
  struct Interrupted {};
  ConnectOptions options;
  options.check_interrupt = [] { throw Interrupted{}; };
  const Client hurried = Client::connect(options);
  const Array one = hurried.open("one");
  ReadLease lease = read_on(one, 30);
  daemon.importer.stall(stream(30));
  lease.release();
  EXPECT_THROW(one.close(), Interrupted);
  EXPECT_TRUE(one.closed());
  EXPECT_EQ(daemon.imported_memory(), 1U) << "the GPU is still at work there";
  daemon.importer.resume();
  client.exists("one");
  EXPECT_EQ(daemon.imported_memory(), 0U);
  hurried.close();
  client.close();
}

// A thread that opens an array again which another one leaves gets a new membership, and does not
// wait: the daemon counts both.
TEST_F(DeviceClosing, OpensAgainWhatAnotherThreadLeaves) {
  const Array one = client.open("one");
  look(one);
  daemon.gates.shut("call leave");
  Running closing([&] { one.close(); });
  ASSERT_TRUE(daemon.gates.reached("call leave"));
  const Array again = client.open("one");
  look(again);
  EXPECT_THROW(static_cast<void>(one.read()), Error);
  daemon.gates.open_all();
  closing.join();
  look(again);
  EXPECT_THROW(static_cast<void>(one.read()), Error);
  client.close();
}

// All of it at once, for ThreadSanitizer and for the counts at the end.
TEST_F(DeviceClosing, MeetsOpeningReadingAndWritingInAllThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([this, number] {
      for (int round = 0; round < kRounds; ++round) {
        const Array array = client.open((number + round) % 2 == 0 ? "one" : "two");
        try {
          const std::uintptr_t on = 16 + static_cast<std::uintptr_t>(number);
          switch ((number + round) % 5) {
            case 0:
              publish(array, on);
              break;
            case 1:
              look(array);
              break;
            case 2: {
              ReadLease lease = read_on(array, on);
              const Pin pin = lease.pin();
              lease.release();
              break;
            }
            case 3: {
              const std::vector<std::uint64_t> values(8, static_cast<std::uint64_t>(round));
              array.put(values.data(), values.size() * sizeof(std::uint64_t));
              break;
            }
            default:
              array.close();
          }
        } catch (const Error& error) {
          // Another thread has closed it.
          EXPECT_EQ(error.code(), ErrorCode::Closed) << error.what();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  client.open("one").close();
  client.open("two").close();
  client.exists("one");
  EXPECT_EQ(daemon.importer.open_memory_count(), 0);
  EXPECT_EQ(daemon.imported_memory(), 0U);
  client.close();
}

}  // namespace
}  // namespace memlease::testing
