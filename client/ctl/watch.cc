#include "client/ctl/watch.h"

#include <memlease/memlease.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "client/ctl/signals.h"
#include "fmt/format.h"
#include "memlease/v1/admin.pb.h"
#include "wire/array_spec.h"
#include "wire/error.h"

namespace memlease::ctl {
namespace {

using Clock = std::chrono::steady_clock;

struct EndedByUser {};

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Versions a second, over the last few seconds.
class RecentRate {
 public:
  void add(Clock::time_point at, std::uint64_t version) {
    constexpr double kWindow = 5;
    seen_.emplace_back(at, version);
    while (seen_.size() > 2 && seconds_between(seen_.front().first, at) > kWindow) {
      seen_.pop_front();
    }
  }
  std::optional<double> per_s() const {
    if (seen_.size() < 2) return std::nullopt;
    const double time = seconds_between(seen_.front().first, seen_.back().first);
    if (time <= 0) return std::nullopt;
    return static_cast<double>(seen_.back().second - seen_.front().second) / time;
  }

 private:
  std::deque<std::pair<Clock::time_point, std::uint64_t>> seen_;
};

// Who writes, as the daemon knows it. Asked once a second at most.
class WriterOf {
 public:
  WriterOf(const Connection& daemon, std::string name) : daemon_(daemon), name_(std::move(name)) {}

  const v1::Holder* get(Clock::time_point now) {
    if (asked_ && now - *asked_ < std::chrono::seconds(1)) return found();
    asked_ = now;
    writer_.reset();
    const auto reply = daemon_.admin->list_holders(name_);
    if (!reply.ok()) return nullptr;  // it has just gone, which the next look at the array tells
    for (const v1::Holder& holder : reply->holders()) {
      if (holder.writer()) writer_ = holder;
    }
    return found();
  }

 private:
  const v1::Holder* found() const { return writer_ ? &*writer_ : nullptr; }

  const Connection& daemon_;
  const std::string name_;
  std::optional<Clock::time_point> asked_;
  std::optional<v1::Holder> writer_;
};

class Watch {
 public:
  Watch(const Connection& daemon, const Options& options, const std::string& name)
      : options_(options),
        writer_(daemon, name),
        lines_(columns(), options.style, widths(options.style.human)) {}

  absl::Status write(std::uint64_t version) {
    const Clock::time_point now = Clock::now();
    const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
    options_.style.now_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(unix_time).count());
    // The first one stood there already: since when, nobody knows.
    const bool first = !last_seen_;
    if (!first) rate_.add(now, version);
    const auto rate = rate_.per_s();
    const v1::Holder* writer = writer_.get(now);
    Row row = {version,
               first ? Cell() : Cell(Moment{options_.style.now_ms}),
               first ? Cell() : Cell(Seconds{seconds_between(*last_seen_, now)}),
               first ? Cell() : Cell(version - last_ - 1),
               rate ? Cell(Rate{*rate}) : Cell(),
               writer == nullptr ? Cell() : Cell(Pid{writer->pid()}),
               writer == nullptr ? Cell() : Cell(Command{writer->command()})};
    last_seen_ = now;
    last_ = version;
    const std::string text = options_.json ? as_json_object({"", columns(), {std::move(row)}})
                                           : lines_.add({std::move(row)});
    if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return absl::OkStatus();
    return cannot_write();
  }
  std::uint64_t last() const { return last_; }

 private:
  // Of what comes later, so that lines stay below each other.
  static std::vector<std::size_t> widths(bool human) {
    constexpr std::string_view kTime = "12:00:00";
    constexpr std::string_view kLongTime = "2026-11-23T12:00:00Z";
    return {8, human ? kTime.size() : kLongTime.size(), 8, 7, 8, 7};
  }
  static std::vector<Column> columns() {
    constexpr bool kNumber = true;
    return {{"version", "VERSION", kNumber}, {"unix_ms", "TIME"},
            {"after_s", "AFTER", kNumber},   {"skipped", "SKIPPED", kNumber},
            {"rate_per_s", "RATE", kNumber}, {"writer_pid", "WRITER", kNumber},
            {"command", "COMMAND"}};
  }

  Options options_;
  WriterOf writer_;
  Lines lines_;
  RecentRate rate_;
  std::optional<Clock::time_point> last_seen_;
  std::uint64_t last_ = 0;
};

void say_withdrawn(const std::string& name, const Options& options) {
  if (options.json) {
    fmt::print("{{\"withdrawn\": {}}}\n", json_string(name));
  } else {
    fmt::print(stderr, "memleasectl: the array '{}' has been withdrawn\n", name);
  }
}

// slots=1: a write came to nothing, which stays so until the next one.
void await_next_write() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

// A read would not wait, but there is no version: throws why, if that is the end.
void look_why(const Array& array, std::uint64_t newer_than) {
  try {
    ReadOptions options;
    options.newer_than = newer_than;
    static_cast<void>(array.try_read(options));
  } catch (const ProducerDied&) {
    await_next_write();
  } catch (const WriteAborted&) {
    await_next_write();
  }
}

// Until the user ends it, or the array by an exception.
absl::Status watch(const Array& array, const Signals& signals, Watch& out) {
  while (!signals.ending()) {
    static_cast<void>(memlease::wait({{array, out.last()}}));
    const std::uint64_t version = array.version();
    if (version <= out.last()) {
      look_why(array, out.last());
    } else if (auto status = out.write(version); !status.ok()) {
      // What interrupted it is no failure.
      return signals.ending() ? absl::OkStatus() : status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status watch_array(const Connection& daemon, const Options& options,
                         const std::string& name) {
  if (auto status = wire::validate_opened_name(name); !status.ok()) return status;
  const Signals signals;
  ConnectOptions where;
  where.directory = daemon.directory;
  where.start = false;
  where.check_interrupt = [&signals] {
    if (signals.ending()) throw EndedByUser();
  };
  absl::Status status;
  try {
    const Client client = Client::connect(where);
    try {
      Watch out(daemon, options, name);
      status = watch(client.open(name), signals, out);
    } catch (const Withdrawn&) {
      say_withdrawn(name, options);
    } catch (const EndedByUser&) {  // NOLINT(bugprone-empty-catch): as the user wanted it
    }
    client.close();
  } catch (const EndedByUser&) {
    return absl::OkStatus();
  } catch (const Error& error) {
    return wire::make_error(static_cast<wire::ErrorCode>(error.code()), error.message(),
                            error.hint());
  }
  return status;
}

}  // namespace memlease::ctl
