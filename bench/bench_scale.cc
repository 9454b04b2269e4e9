// What many arrays and many sessions cost: the daemon's memory for each, the creator's for an
// array, and whether creating and opening one takes longer among many. The numbers grow, so these
// blocks are not interleaved over them.

#include <memlease/memlease.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <list>
#include <optional>

#include "bench/daemon_process.h"
#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "fmt/format.h"
#include "wire/futex.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

// The daemon takes 640 connections of one user. So root plays many users, as others cannot.
constexpr int kSessionsOfUser = 50;
constexpr uid_t kFirstUser = 60'000;

struct Steps {
  std::vector<int> arrays;
  std::vector<int> sessions;
};

Steps steps_of(const Options& options) {
  Steps steps = options.pick<Steps>({{1'000, 10'000, 100'000}, {1, 10, 100, 1'000}},
                                    {{1'000, 10'000}, {1, 10, 100}}, {{10, 100}, {1, 4}});
  if (geteuid() != 0) std::erase_if(steps.sessions, [](int n) { return n > kSessionsOfUser; });
  return steps;
}

std::string name_of(int number) { return fmt::format("bench/scale/{}", number); }

void meet_often(SharedPage& page, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) page.meet();
}

// Of a process's memory, from the first step to the last.
class Growth {
 public:
  explicit Growth(pid_t process) : process_(process) {}
  // Begins with what is there now.
  Growth(pid_t process, int count) : process_(process) { step(count); }
  void step(int count) {
    const double bytes = resident_bytes(process_);
    if (first_count_ == 0) {
      first_count_ = count;
      first_bytes_ = bytes;
    }
    each_ = count == first_count_ ? 0 : (bytes - first_bytes_) / (count - first_count_);
  }
  double each_bytes() const { return each_; }

 private:
  pid_t process_;
  int first_count_ = 0;
  double first_bytes_ = 0;
  double each_ = 0;
};

// Creates them, and keeps them: some before the sessions come, the rest while they are there.
void own(const Options& options, const Steps& steps, SharedPage& page) {
  const Client client = connect(options);
  std::vector<Array> arrays;
  Growth growth(getpid());
  for (const int count : steps.arrays) {
    while (static_cast<int>(arrays.size()) < count) {
      CreateOptions what = bytes_array(name_of(static_cast<int>(arrays.size())), 64);
      what.slots = 1;
      arrays.push_back(client.create(what));
    }
    growth.step(count);
    page.values[0] = growth.each_bytes();
    page.meet();
    page.meet();
    if (count == steps.arrays.front()) meet_often(page, 2 * steps.sessions.size());
  }
  page.meet();
}

// Arrays of others are opened for the first time in this session.
class Probe {
 public:
  Probe(const Options& options, Report& report)
      : options_(options), report_(report), client_(connect(options)) {}

  void measure(const std::string& where, int live) {
    const int rounds = options_.pick(500, 100, 2);
    for (int block = 0; block < options_.blocks; ++block) {
      std::vector<double> create, open;
      for (int i = 0; i < rounds; ++i) {
        std::optional<Array> array;
        create.push_back(
            once_ns([&] { array = client_.create(bytes_array("bench/scale/probe", 64)); }));
        array->withdraw();
        const std::string name = name_of(static_cast<int>(++opened_ * 7919 % live));
        open.push_back(once_ns([&] { array = client_.open(name); }));
        array->close();
      }
      report_.add_distribution("create." + where, create);
      report_.add_distribution("open." + where, open);
    }
  }

 private:
  const Options& options_;
  Report& report_;
  const Client client_;
  std::int64_t opened_ = 0;
};

// "few" and "many": the first step and the last.
std::string place(std::size_t step, std::size_t steps) {
  return step == 0 ? "few" : step + 1 == steps ? "many" : fmt::format("step{}", step);
}

void probe(const Options& options, const Steps& steps, SharedPage& page) {
  Report report("bench_scale");
  Probe probe(options, report);
  const pid_t daemon = daemon_pid(options.directory);
  const auto step = [&](const std::vector<int>& counts, std::size_t i, const char* what,
                        Growth& growth, int live) {
    page.meet();
    growth.step(counts[i]);
    probe.measure(fmt::format("{}_{}", place(i, counts.size()), what), live);
    page.meet();
  };
  Growth arrays(daemon);
  Growth sessions(daemon);
  for (std::size_t a = 0; a < steps.arrays.size(); ++a) {
    step(steps.arrays, a, "arrays", arrays, steps.arrays[a]);
    for (std::size_t s = 0; a == 0 && s < steps.sessions.size(); ++s) {
      step(steps.sessions, s, "sessions", sessions, steps.arrays[a]);
    }
    if (a == 0) arrays = Growth(daemon, steps.arrays[a]);  // without the sessions
  }
  report.add("bytes.array", arrays.each_bytes());
  report.add("bytes.array.both", arrays.each_bytes() + page.values[0]);
  report.add("bytes.session", sessions.each_bytes());
  report.note("arrays", fmt::format("{} to {}", steps.arrays.front(), steps.arrays.back()));
  report.note("sessions", fmt::format("{} to {}", steps.sessions.front(), steps.sessions.back()));
  report.print();
  page.meet();
}

// A session with an array of its own, that sleeps until it is told to end.
void be_idle(const Options& options, int index, SharedPage& end) {
  const uid_t user = kFirstUser + static_cast<uid_t>(index / kSessionsOfUser);
  if (geteuid() == 0) {
    require(seteuid(user) == 0, "bench: becoming another user");
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // gone with the former user
  }
  const Client client = connect(options);
  const Array array = client.create(bytes_array(fmt::format("bench/session/{}", index), 64));
  array.write().publish();
  array.read().release();
  end.ping.fetch_add(1);
  while (end.futex_ping.load() == 0) {
    const wire::FutexWait wait{&end.futex_ping, 0};
    wire::futex_wait({&wait, 1}, std::chrono::hours(1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const Steps steps = steps_of(options);
  ns_per_tick();
  // Owner, probe, and this process, which forks the sessions and has no client itself.
  SharedPage& page = new_shared_page(3);
  SharedPage& end = new_shared_page(1);
  const Processes workers(
      2, [&](int index) { index == 0 ? own(options, steps, page) : probe(options, steps, page); });
  meet_often(page, 2);
  std::list<Processes> sessions;
  for (const int count : steps.sessions) {
    while (static_cast<int>(sessions.size()) < count) {
      const auto index = static_cast<int>(sessions.size());
      sessions.emplace_back(1, [&](int) { be_idle(options, index, end); });
      // A few at a time.
      while (end.ping.load() + 4 < sessions.size()) usleep(200);
    }
    while (end.ping.load() < sessions.size()) usleep(200);
    meet_often(page, 2);
  }
  meet_often(page, 2 * (steps.arrays.size() - 1) + 1);
  end.futex_ping.store(1);
  wire::futex_wake_all(end.futex_ping);
  return 0;
}
