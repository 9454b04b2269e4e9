#include "tests/support/storm.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "fmt/format.h"
#include "tests/support/pattern.h"

namespace memlease::testing {
namespace {

using std::chrono::milliseconds;

// One process's random life with the arrays.
class Life {
 public:
  Life(const Client& client, std::uint64_t seed, const std::vector<std::string>& names)
      : client_(client), names_(names), random_(seed) {}

  void step() {
    const Array array = client_.open(names_[below(names_.size())]);
    switch (below(12)) {
      case 0:
        return below(4) == 0 ? have_child() : own_array();
      case 1:
      case 2:
      case 3:
        return write(array);
      case 4:  // a pin that outlives its lease
        pins_.push_back(array.read({0, 0, milliseconds(2)}).pin());
        if (pins_.size() > 2) pins_.clear();
        return;
      case 5:
      case 6:
      case 7:
        reads_.push_back(array.read({0, 0, milliseconds(2)}));
        if (reads_.size() > 2) reads_.clear();
        return;
      case 8:
      case 9:
        static_cast<void>(array.read({0, array.version(), milliseconds(2)}));
        return;
      default:
        reads_.clear();
        pins_.clear();
        return array.close();
    }
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void write(const Array& array) {
    WriteOptions options;
    options.wait = milliseconds(below(5));
    WriteLease lease = below(4) == 0 ? array.update(options) : array.write(options);
    Pattern pattern(static_cast<std::uint64_t*>(lease.data()), array.size_bytes() / 8);
    pattern.fill_first_half(lease.version(), static_cast<std::uint64_t>(getpid()));
    pattern.fill_second_half();
    if (below(5) != 0) lease.publish();
  }

  void own_array() {
    CreateOptions options;
    options.name = fmt::format("own/{}-{}", getpid(), below(3));
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {512};
    options.exist_ok = true;
    write(client_.create(options));
  }

  // It lives for a while with all that is mapped here, and may outlive this process.
  void have_child() {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const std::chrono::microseconds life(below(3000));
    if (fork() != 0) return;
    std::this_thread::sleep_for(life);
    _exit(0);
  }

  const Client& client_;
  const std::vector<std::string>& names_;
  std::mt19937_64 random_;
  std::vector<ReadLease> reads_;
  std::vector<Pin> pins_;
};

// A wait that was too short, somebody else's death: all in a storm's day.
bool expected(ErrorCode code) {
  switch (code) {
    case ErrorCode::Timeout:
    case ErrorCode::NoFreeSlot:
    case ErrorCode::ProducerDied:
    case ErrorCode::WriteAborted:
    case ErrorCode::Busy:
      return true;
    case ErrorCode::InvalidArgument:  // update() where there is no version yet
      return true;
    default:
      return false;
  }
}

void count_up_once(const Array& array, std::size_t number) {
  WriteLease lease = array.update();
  const View<std::uint64_t, 1> counts = lease.view<std::uint64_t, 1>();
  const std::uint64_t sum = std::accumulate(counts.begin() + 1, counts.end(), std::uint64_t{0});
  if (counts(0) != sum) {
    std::fprintf(stderr, "queue: %s\n", fmt::format("{} counted, {} told", sum, counts(0)).c_str());
    std::abort();
  }
  ++counts(0);
  ++counts(static_cast<std::int64_t>(number));
  lease.publish();
}

}  // namespace

void rage(const Client& client, std::uint64_t seed, const std::vector<std::string>& names) {
  Life life(client, seed, names);
  for (;;) {
    try {
      life.step();
    } catch (const Error& error) {
      if (expected(error.code())) continue;
      std::fprintf(stderr, "storm: %s\n", error.what());
      std::abort();
    }
  }
}

void count_up(const Client& client, const std::string& name, std::size_t number) {
  const Array array = client.open(name);
  for (;;) {
    try {
      count_up_once(array, number);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::WriteAborted) continue;
      std::fprintf(stderr, "queue: %s\n", error.what());
      std::abort();
    }
  }
}

}  // namespace memlease::testing
