#include "client/ctl/trace.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

#include "client/ctl/events.h"
#include "client/ctl/signals.h"
#include "client/ctl/trace_events.h"
#include "fmt/format.h"
#include "memlease/v1/admin.pb.h"
#include "wire/error.h"

namespace memlease::ctl {
namespace {

using Clock = std::chrono::steady_clock;
using Length = std::chrono::duration<double>;  // in seconds

// What the daemon may be kept busy for: whoever creates an array meanwhile waits for the answer.
constexpr double kMostBusy = 0.1;

std::uint64_t unix_ms_now() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

// {"traceEvents": [...], ...}; an event a line.
class TraceFile {
 public:
  static absl::StatusOr<TraceFile> create(const std::string& path) {
    std::FILE* const file = std::fopen(path.c_str(), "we");
    if (file == nullptr) {
      return wire::errno_error(wire::ErrorCode::kInvalidArgument,
                               fmt::format("cannot write the file '{}'", path), errno,
                               "Name another one with --output.");
    }
    std::fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", file);
    return TraceFile(path, file);
  }

  void write(const std::string& event) {
    if (!std::exchange(first_, false)) std::fputs(",\n", file_.get());
    std::fputs(event.c_str(), file_.get());
  }
  // Whoever looks, or kills this, finds what there is.
  void flush() { std::fflush(file_.get()); }
  absl::Status end(const std::string& other_data) {
    fmt::print(file_.get(), "\n], \"otherData\": {}}}\n", other_data);
    const bool failed = std::ferror(file_.get()) != 0;
    if (std::fclose(file_.release()) == 0 && !failed) return absl::OkStatus();
    return wire::errno_error(wire::ErrorCode::kInternal,
                             fmt::format("cannot write all of the file '{}'", path_), errno,
                             "Make room, or name another one with --output.");
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  TraceFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool first_ = true;
};

class Trace {
 public:
  Trace(const Connection& daemon, TraceFile& file)
      : daemon_(daemon),
        file_(file),
        begin_(Clock::now()),
        begin_unix_ms_(unix_ms_now()),
        events_([&file](const std::string& event) { file.write(event); },
                daemon.admin->daemon_pid()) {}

  // Why it ended before its time.
  absl::Status run(const TraceOptions& wanted) {
    Signals signals;
    const auto history = daemon_.admin->history(std::numeric_limits<std::uint64_t>::max(), false);
    if (!history.ok()) return history.status();
    const std::uint64_t newest = history->newest();
    const Clock::time_point end =
        begin_ + std::chrono::duration_cast<Clock::duration>(Length(wanted.duration_s));
    absl::Status status;
    while (status.ok() && !signals.ending() && Clock::now() < end) {
      const Clock::time_point begin = Clock::now();
      status = sample();
      const Length took = Clock::now() - begin;
      const Length period(std::max(1 / wanted.rate_hz, took.count() / kMostBusy));
      const auto next = std::min(end, begin + std::chrono::duration_cast<Clock::duration>(period));
      while (!signals.ending() && Clock::now() < next) {
        signals.wait(std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()));
      }
    }
    if (status.ok()) status = add_history(newest);
    events_.end(now_us());
    return status;
  }

  Table summary(const std::string& file) const {
    const Length length = Clock::now() - begin_;
    return {"",
            {{"file", "File"},
             {"duration_s", "Time"},
             {"samples", "Samples"},
             {"leases", "Leases"},
             {"versions", "Versions"},
             {"begin_unix_ms", ""}},
            {{file, Seconds{length.count()}, samples_, events_.leases(), events_.versions(),
              Time{begin_unix_ms_}}}};
  }

 private:
  std::uint64_t now_us() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin_).count());
  }

  absl::Status sample() {
    const auto sample = daemon_.admin->sample(live_.known_through());
    if (!sample.ok()) return sample.status();
    live_.add(*sample, Length(Clock::now() - begin_).count());
    const auto holders = daemon_.admin->list_holders("");
    if (!holders.ok()) return holders.status();
    events_.sample(now_us(), live_, *holders);
    file_.flush();
    ++samples_;
    return absl::OkStatus();
  }

  absl::Status add_history(std::uint64_t after) {
    for (;;) {
      const auto reply = daemon_.admin->history(after, false);
      if (!reply.ok()) return reply.status();
      for (const v1::HistoryEvent& event : reply->events()) {
        const std::uint64_t ms = std::max(event.unix_ms(), begin_unix_ms_) - begin_unix_ms_;
        events_.happened(ms * 1000, name_of(event.kind()), event);
      }
      after = reply->through();
      if (after >= reply->newest()) return absl::OkStatus();
    }
  }

  const Connection& daemon_;
  TraceFile& file_;
  const Clock::time_point begin_;
  const std::uint64_t begin_unix_ms_;
  TraceEvents events_;
  Live live_;
  std::uint64_t samples_ = 0;
};

}  // namespace

absl::Status write_trace(const Connection& daemon, const Options& options,
                         const TraceOptions& wanted) {
  auto file = TraceFile::create(wanted.file);
  if (!file.ok()) return file.status();
  Trace trace(daemon, *file);
  absl::Status status = trace.run(wanted);
  const Table summary = trace.summary(wanted.file);
  std::string facts = as_json_object(summary);
  facts.pop_back();  // the newline
  absl::Status written = file->end(facts);
  if (!status.ok()) return status;
  if (written.ok()) print_record(summary, options);
  return written;
}

}  // namespace memlease::ctl
