// One publication to N processes that sleep: what it costs the publisher to wake them all, and when
// the last one has it. Against one FUTEX_WAKE for everybody, and against an eventfd for each. And
// what each process costs that has the array, and waits for nothing.

#include <memlease/memlease.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/channel.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

constexpr int kMost = 48;
static_assert(SharedPage::kValues >= kMost);

struct Fan {
  std::string kind;
  int readers;
  std::unique_ptr<Channel> channel;
};

std::vector<Fan> make_fans() {
  std::vector<Fan> fans;
  for (const int n : {1, 2, 4, 8, 16, kMost}) {
    fans.push_back({"futex", n, futex_channel()});
    fans.push_back({"eventfd", n, eventfd_channel(n)});
    fans.push_back({"memlease", n, array_channel(fmt::format("bench/fan/{}", n))});
  }
  return fans;
}

constexpr int kSubscribed[] = {1, 8, kMost};
std::string subscribed_name(int readers) { return fmt::format("bench/fan/subscribed/{}", readers); }

std::vector<Array> subscribe(const Client& client, int reader) {
  std::vector<Array> arrays;
  for (const int n : kSubscribed) {
    if (reader >= n) continue;
    arrays.push_back(client.wait_for(subscribed_name(n)));
    arrays.back().read().release();
  }
  return arrays;
}

std::vector<Array> create_subscribed(const Client& client) {
  std::vector<Array> arrays;
  for (const int n : kSubscribed) {
    arrays.push_back(client.create(bytes_array(subscribed_name(n), 64)));
    arrays.back().write().publish();
  }
  return arrays;
}

void measure_subscribed(const std::vector<Array>& arrays, int rounds, Report& report) {
  std::vector<double> took;
  for (const Array& array : arrays) {
    took.push_back(ns_per_round(rounds, [&](int) { array.write().publish(); }));
  }
  const auto further = [&](std::size_t more) {
    return (took[more] - took[0]) / (kSubscribed[more] - kSubscribed[0]);
  };
  report.add("subscribed.1", took[0]);
  report.add("each_of_8", further(1));
  report.add("each_of_48", further(2));
}

// Every reader takes part in the fans that are wide enough, in the publisher's order.
void read_all(const Options& options, int reader, int rounds, std::vector<Fan>& fans,
              SharedPage& page) {
  for (Fan& fan : fans) {
    if (reader < fan.readers) fan.channel->begin(options, reader);
  }
  const Client client = connect(options);
  const std::vector<Array> subscribed = subscribe(client, reader);
  page.meet();
  for (int block = 0; block < options.blocks; ++block) {
    for (Fan& fan : fans) {
      if (reader >= fan.readers) continue;
      for (int i = 0; i < rounds; ++i) {
        const std::uint64_t sent = fan.channel->receive();
        page.values[reader] = ns_between(sent, ticks());
        page.pong.fetch_add(1);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int rounds = options.pick(60, 20, 2);
  ns_per_tick();
  SharedPage& page = new_shared_page(kMost + 1);
  std::vector<Fan> fans = make_fans();
  // Readers and publisher alike are children, so that this process has no client.
  const Processes all(kMost + 1, [&](int index) {
    if (index < kMost) return read_all(options, index, rounds, fans, page);
    for (Fan& fan : fans) fan.channel->begin(options, Channel::kSender);
    const Client client = connect(options);
    const std::vector<Array> subscribed = create_subscribed(client);
    page.meet();
    Report report("bench_fanout");
    for (int block = 0; block < options.blocks; ++block) {
      for (Fan& fan : fans) {
        std::vector<double> publisher, last;
        for (int i = 0; i < rounds; ++i) {
          // Long enough for all of them to end their spinning and to sleep.
          usleep(static_cast<useconds_t>(1000 + 150 * fan.readers));
          page.pong.store(0);
          publisher.push_back(once_ns([&] { fan.channel->send(); }));
          while (page.pong.load() < static_cast<std::uint64_t>(fan.readers)) usleep(50);
          last.push_back(*std::max_element(page.values, page.values + fan.readers));
        }
        const std::string name = fmt::format("{}.{}", fan.kind, fan.readers);
        report.add_distribution(name + ".publisher", publisher);
        report.add_distribution(name + ".last_reader", last);
      }
      measure_subscribed(subscribed, options.pick(100'000, 20'000, 100), report);
    }
    report.print();
  });
  return 0;
}
