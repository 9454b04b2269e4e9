// A client process that does what its standard input says: one command a line, one answer a line,
// "ok RESULT" or "error CODE MESSAGE". Ends with its input, leases and all.
#include <grp.h>
#include <memlease/for_bindings.h>
#include <memlease/memlease.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tests/support/assault.h"
#include "tests/support/call_timer.h"
#include "tests/support/crash_point.h"
#include "tests/support/forked.h"
#include "tests/support/pattern.h"
#include "tests/support/readable.h"
#include "tests/support/steady.h"
#include "tests/support/storm.h"
#include "tests/support/watcher.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::testing {
namespace {

using std::chrono::milliseconds;

class PeerProgram {
 public:
  explicit PeerProgram(std::string directory) : directory_(std::move(directory)) {}

  // Throws Error.
  std::string run(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    const auto known = kCommands.find(command);
    if (known == kCommands.end()) throw Internal("there is no command " + command, "");
    return (this->*known->second)(words);
  }

 private:
  using Words = std::istringstream;

  template <typename T>
  static T next(Words& words) {
    T value{};
    words >> value;
    return value;
  }
  static std::string name_in(Words& words) { return next<std::string>(words); }
  static milliseconds ms_in(Words& words) { return milliseconds(next<std::int64_t>(words)); }

  Array& array(const std::string& name) {
    const auto known = arrays_.find(name);
    if (known != arrays_.end()) return known->second;
    return arrays_.emplace(name, client_->open(name)).first->second;
  }
  static Pattern pattern_of(const Array& array, const void* data) {
    return {static_cast<std::uint64_t*>(const_cast<void*>(data)), array.size_bytes() / 8};
  }
  static std::string place(const auto& lease) {
    return fmt::format("{} {}", lease.version(), lease.slot());
  }

  Client connected() const {
    ConnectOptions options;
    options.directory = directory_;
    options.start = false;
    return Client::connect(options);
  }
  std::string connect(Words&) {
    client_.emplace(connected());
    return std::to_string(client_->session_id());
  }
  // NAME SLOTS MODE WORDS LIFETIME ["exclusive"]: "session" or "persistent". SLOTS "3" are 3 and no
  // more, "3:12" may become 12.
  std::string create(Words& words) {
    CreateOptions options;
    options.name = name_in(words);
    const std::string slots = name_in(words);
    const std::size_t colon = slots.find(':');
    options.slots = static_cast<std::uint32_t>(std::stoul(slots.substr(0, colon)));
    options.max_slots = colon == std::string::npos
                            ? options.slots
                            : static_cast<std::uint32_t>(std::stoul(slots.substr(colon + 1)));
    options.mode = static_cast<std::uint32_t>(std::strtoul(name_in(words).c_str(), nullptr, 8));
    options.shape = {next<std::int64_t>(words)};
    options.dtype = dtype_of<std::uint64_t>();
    if (name_in(words) == "persistent") options.lifetime = Lifetime::Persistent;
    if (name_in(words) == "exclusive") options.writer = Writer::Exclusive;
    arrays_.insert_or_assign(options.name, client_->create(options));
    return "";
  }
  // NAME [UID]: whose it must be.
  std::string open(Words& words) {
    const std::string name = name_in(words);
    std::uint32_t owner = 0;
    if (words >> owner) arrays_.insert_or_assign(name, client_->open(name, owner));
    return array(name).may_write() ? "may write" : "may read";
  }
  // NAME WAIT_MS -> VERSION SLOT
  std::string write(Words& words) { return begin(words, &Array::write); }
  std::string update(Words& words) { return begin(words, &Array::update); }
  std::string begin(Words& words, WriteLease (Array::*take)(const WriteOptions&) const) {
    const std::string name = name_in(words);
    WriteLease lease = (array(name).*take)({ms_in(words)});
    const std::string result = place(lease);
    writes_.insert_or_assign(name, std::move(lease));
    return result;
  }
  std::string fill(Words& words) {
    const std::string name = name_in(words);
    const WriteLease& lease = writes_.at(name);
    Pattern pattern = pattern_of(array(name), lease.data());
    pattern.fill_first_half(lease.version(), static_cast<std::uint64_t>(getpid()));
    internal::crash_point("bytes.half");
    pattern.fill_second_half();
    return "";
  }
  std::string publish(Words& words) {
    const std::string name = name_in(words);
    const std::uint64_t version = writes_.at(name).publish();
    writes_.erase(name);
    return std::to_string(version);
  }
  std::string drop(Words& words) {
    writes_.erase(name_in(words));
    return "";
  }
  // NAME WAIT_MS -> VERSION SLOT; all of a write.
  std::string put(Words& words) {
    const std::string line = words.str().substr(static_cast<std::size_t>(words.tellg()));
    Words for_write(line);
    const std::string result = write(for_write);
    Words for_fill(line);
    fill(for_fill);
    Words for_publish(line);
    publish(for_publish);
    return result;
  }
  // NAME NEWER_THAN TIMEOUT_MS -> VERSION SLOT; checks the bytes, keeps the lease.
  std::string read(Words& words) {
    const std::string name = name_in(words);
    ReadOptions options;
    options.newer_than = next<std::uint64_t>(words);
    options.timeout = ms_in(words);
    reads_[name].push_back(array(name).read(options));
    verify_lease(name, reads_[name].back());
    return place(reads_[name].back());
  }
  // A read as an event loop has it: of what its descriptor tells of, which then tells of more.
  std::string poll_read(Words& words) {
    const std::string name = name_in(words);
    readable(array(name).event_fd(), static_cast<int>(ms_in(words).count()));
    const ReadLease lease = array(name).read();
    verify_lease(name, lease);
    return place(lease);
  }
  void verify_lease(const std::string& name, const ReadLease& lease) {
    const std::string wrong = pattern_of(array(name), lease.data()).wrong(lease.version());
    if (!wrong.empty()) throw Internal(wrong, "");
  }
  // The leases that read() keeps have the bytes that they should have, still.
  std::string verify(Words& words) {
    const std::string name = name_in(words);
    for (const ReadLease& lease : reads_[name]) verify_lease(name, lease);
    return std::to_string(reads_[name].size());
  }
  std::string release(Words& words) {
    reads_[name_in(words)].clear();
    return "";
  }
  // Reads all the time until "unwatch" -> READS LAST_VERSION DIED, or an error: the first wrong.
  std::string watch(Words& words) {
    const std::string name = name_in(words);
    watchers_.try_emplace(name, array(name));
    return "";
  }
  std::string unwatch(Words& words) {
    const std::string name = name_in(words);
    const Watched watched = watchers_.at(name).stop();
    watchers_.erase(name);
    if (!watched.wrong.empty()) throw Internal(watched.wrong, "");
    return fmt::format("{} {} {}", watched.reads, watched.last_version, watched.died);
  }
  // NAME: makes calls all the time until "calls_timed" -> CALLS P50_US P99_US (of one), or an
  // error: the first call that failed.
  std::string time_calls(Words& words) {
    call_timers_.push_back(std::make_unique<CallTimer>(*client_, name_in(words)));
    return "";
  }
  // N NAME: the same of so many clients, each in a thread of its own, and with an array of its own.
  std::string time_calls_of(Words& words) {
    const auto clients = next<std::size_t>(words);
    const std::string name = name_in(words);
    while (crowd_.size() < clients) crowd_.push_back(connected());
    for (const Client& client : crowd_) {
      call_timers_.push_back(
          std::make_unique<CallTimer>(client, fmt::format("{}/{}", name, call_timers_.size())));
    }
    return "";
  }
  std::string calls_timed(Words&) {
    const std::vector<std::unique_ptr<CallTimer>> timers = std::move(call_timers_);
    for (const auto& timer : timers) timer->end();
    CallTimes times;
    for (const auto& timer : timers) {
      const std::uint64_t others = times.calls;
      times = timer->stop();
      times.calls += others;
    }
    for (const auto& timer : timers) {
      if (!timer->wrong().empty()) throw Internal(timer->wrong(), "");
    }
    return fmt::format("{} {} {}", times.calls, times.p50_us, times.p99_us);
  }
  std::string version(Words& words) { return std::to_string(array(name_in(words)).version()); }
  std::string wait_for(Words& words) {
    const std::string name = name_in(words);
    arrays_.insert_or_assign(name, client_->wait_for(name, ms_in(words)));
    return "";
  }
  std::string exists(Words& words) { return client_->exists(name_in(words)) ? "1" : "0"; }
  std::string list(Words&) { return fmt::format("{}", fmt::join(client_->list(), " ")); }
  // Gives the handle up; the next command on the name opens it again.
  std::string close(Words& words) {
    const std::string name = name_in(words);
    array(name).close();
    arrays_.erase(name);
    return "";
  }
  // Gives it up, and keeps the closed handle.
  std::string close_kept(Words& words) {
    array(name_in(words)).close();
    return "";
  }
  std::string withdraw(Words& words) {
    client_->withdraw(name_in(words));
    return "";
  }
  std::string disconnect(Words&) {
    client_->close();
    return "";
  }
  // In a forked child: uses the parent's client and array, then its leases, and ends these; reads a
  // version -> what came of it: four codes of errors, or "none", and the version.
  std::string fork(Words& words) {
    const std::string name = name_in(words);
    return in_forked_child([&] { return use_in_child(name); });
  }
  std::string use_in_child(const std::string& name) {
    std::string result = code_of([&] { static_cast<void>(client_->open(name)); });
    result += " " + code_of([&] { static_cast<void>(array(name).read()); });
    result += " " + code_of([&] {
                for (const ReadLease& lease : reads_[name]) static_cast<void>(lease.data());
                if (const auto write = writes_.find(name); write != writes_.end())
                  write->second.data();
              });
    result += " " + code_of([&] {
                reads_.clear();
                writes_.clear();
              });
    const ReadLease lease = array(name).read();
    verify_lease(name, lease);
    return fmt::format("{} {}", result, lease.version());
  }
  // Asks for every shared file up to a number, and tries to change those that are for reading ->
  // FILES WRITABLE_FILES WAYS_THAT_WORKED...
  std::string assault(Words&) {
    const Assault result = assault_files(directory_);
    return fmt::format("{} {} {}", result.files, result.writable,
                       fmt::join(result.ways_that_worked, " "));
  }
  // NAME CYCLES: with no way to the kernel; see steady.h. Then ends.
  std::string steady_read(Words& words) {
    const Array& target = array(name_in(words));
    std::uint64_t last = 0;
    run_without_kernel(next<std::uint64_t>(words), [&] {
      const std::uint64_t version = target.read().version();
      if (version < last) std::abort();
      last = version;
    });
  }
  std::string steady_write(Words& words) {
    const Array& target = array(name_in(words));
    run_without_kernel(next<std::uint64_t>(words), [&] {
      WriteLease lease = target.write();
      *static_cast<std::uint64_t*>(lease.data()) = lease.version();
      lease.publish();
    });
  }
  // As a loop of Python that binds a name to each lease's array.
  std::string steady_keep(Words& words) {
    const Array& target = array(name_in(words));
    Pin kept = target.write().pin();  // the first one calls the daemon
    run_without_kernel(next<std::uint64_t>(words), [&] {
      WriteLease lease = target.write();
      *static_cast<std::uint64_t*>(lease.data()) = lease.version();
      kept = lease.pin();
      internal::ForBindings::publish(lease, Stream(), false);
    });
  }
  // CYCLES of one system call each: what run_without_kernel() must find.
  std::string steady_call(Words& words) {
    run_without_kernel(next<std::uint64_t>(words), [] { getppid(); });
  }
  std::string calls(Words&) { return std::to_string(client_->calls()); }
  // STEP NTH SIGNAL
  std::string arm(Words& words) {
    const std::string step = name_in(words);
    const int nth = next<int>(words);
    arm_crash(step, nth, next<int>(words));
    return "";
  }
  std::string sleep_soundly(Words&) {
    never_look_again();
    return "";
  }
  // SEED NAME...: random calls on these arrays, without end; answers at once.
  std::string storm(Words& words) {
    const auto seed = next<std::uint64_t>(words);
    std::vector<std::string> names;
    for (std::string name; words >> name;) names.push_back(name);
    std::puts("ok");
    std::fflush(stdout);
    rage(*client_, seed, names);
  }

  // NAME NUMBER: counts up in it, without end; answers at once.
  std::string queue(Words& words) {
    const auto name = next<std::string>(words);
    const auto number = next<std::size_t>(words);
    std::puts("ok");
    std::fflush(stdout);
    count_up(*client_, name, number);
  }

  static std::string code_of(const std::function<void()>& fn) {
    try {
      fn();
    } catch (const Error& error) {
      return name_of(error.code());
    }
    return "none";
  }

  static const std::map<std::string, std::string (PeerProgram::*)(Words&)> kCommands;

  const std::string directory_;
  std::optional<Client> client_;
  std::map<std::string, Array> arrays_;
  std::map<std::string, WriteLease> writes_;
  std::map<std::string, std::vector<ReadLease>> reads_;
  std::map<std::string, Watcher> watchers_;
  std::vector<Client> crowd_;
  std::vector<std::unique_ptr<CallTimer>> call_timers_;
};

const std::map<std::string, std::string (PeerProgram::*)(PeerProgram::Words&)>
    PeerProgram::kCommands = {
        {"connect", &PeerProgram::connect},
        {"create", &PeerProgram::create},
        {"open", &PeerProgram::open},
        {"write", &PeerProgram::write},
        {"update", &PeerProgram::update},
        {"fill", &PeerProgram::fill},
        {"publish", &PeerProgram::publish},
        {"drop", &PeerProgram::drop},
        {"put", &PeerProgram::put},
        {"read", &PeerProgram::read},
        {"poll_read", &PeerProgram::poll_read},
        {"verify", &PeerProgram::verify},
        {"release", &PeerProgram::release},
        {"watch", &PeerProgram::watch},
        {"unwatch", &PeerProgram::unwatch},
        {"time_calls", &PeerProgram::time_calls},
        {"time_calls_of", &PeerProgram::time_calls_of},
        {"calls_timed", &PeerProgram::calls_timed},
        {"version", &PeerProgram::version},
        {"wait_for", &PeerProgram::wait_for},
        {"exists", &PeerProgram::exists},
        {"list", &PeerProgram::list},
        {"close", &PeerProgram::close},
        {"close_kept", &PeerProgram::close_kept},
        {"withdraw", &PeerProgram::withdraw},
        {"disconnect", &PeerProgram::disconnect},
        {"arm", &PeerProgram::arm},
        {"sleep_soundly", &PeerProgram::sleep_soundly},
        {"storm", &PeerProgram::storm},
        {"queue", &PeerProgram::queue},
        {"fork", &PeerProgram::fork},
        {"assault", &PeerProgram::assault},
        {"calls", &PeerProgram::calls},
        {"steady_read", &PeerProgram::steady_read},
        {"steady_write", &PeerProgram::steady_write},
        {"steady_keep", &PeerProgram::steady_keep},
        {"steady_call", &PeerProgram::steady_call},
};

void become(uid_t uid, gid_t gid, const std::string& groups) {
  if (uid == 0 && gid == 0) return;
  std::vector<gid_t> list;
  std::istringstream numbers(groups);
  for (std::string number; std::getline(numbers, number, ',');) {
    list.push_back(static_cast<gid_t>(std::stoul(number)));
  }
  if (setgroups(list.size(), list.data()) != 0 || setgid(gid) != 0 || setuid(uid) != 0) {
    std::perror("cannot become the other user");
    std::abort();
  }
  prctl(PR_SET_DUMPABLE, 1);  // a leak checker must be able to look in
}

int obey(PeerProgram& program) {
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    try {
      answer = "ok " + program.run(line);
    } catch (const Error& error) {
      answer = fmt::format("error {} {}", name_of(error.code()), error.message());
    }
    std::puts(answer.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace memlease::testing

// At its exit LeakSanitizer stops all threads with ptrace(2), and that hangs now and then in a
// process that others watch, stop and kill. The tests' own processes are checked for leaks.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
const char* __asan_default_options() { return "detect_leaks=0"; }

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  memlease::testing::become(static_cast<uid_t>(std::stoul(argv[2])),
                            static_cast<gid_t>(std::stoul(argv[3])), argv[4]);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves nobody behind
  memlease::testing::PeerProgram program(argv[1]);
  return memlease::testing::obey(program);
}
