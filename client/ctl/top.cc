#include "client/ctl/top.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/fit.h"
#include "client/ctl/screen.h"
#include "client/ctl/signals.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::ctl {
namespace {

using Clock = std::chrono::steady_clock;

// A daemon that does not answer must not keep the user from leaving.
constexpr std::chrono::milliseconds kLongestCall{2000};
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

// The daemon, asked again and again.
class Source {
 public:
  explicit Source(const Connection& daemon) : daemon_(daemon) {}

  absl::Status refresh() {
    do {
      const auto sample = daemon_.admin->sample(live_.known_through());
      if (!sample.ok()) return sample.status();
      live_.add(*sample, std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
    } while (live_.more_to_describe());
    auto sessions = daemon_.admin->list_sessions();
    if (!sessions.ok()) return sessions.status();
    sessions_ = *std::move(sessions);
    return absl::OkStatus();
  }
  const Live& live() const { return live_; }
  const v1::ListSessionsReply& sessions() const { return sessions_; }

 private:
  const Connection& daemon_;
  Live live_;
  v1::ListSessionsReply sessions_;
};

absl::Status show_once(Source& source, const Options& options, const TopOptions& wanted,
                       std::chrono::milliseconds interval) {
  Signals signals;
  if (auto status = source.refresh(); !status.ok()) return status;
  const auto end = Clock::now() + interval;
  while (!signals.ending() && Clock::now() < end) {
    signals.wait(std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()));
  }
  if (auto status = source.refresh(); !status.ok()) return status;
  const Live& live = source.live();
  print_record(top_sums(live, source.sessions()), options,
               {top_devices(live, wanted.sort, kAll).table,
                top_sessions(live, source.sessions(), wanted.sort, kAll).table,
                top_arrays(live, source.sessions(), wanted.sort, kAll).table});
  return absl::OkStatus();
}

enum class View { kArrays, kSessions, kDevices };

class Top {
 public:
  Top(Source& source, const Connection& daemon, const Options& options, const TopOptions& wanted,
      std::chrono::milliseconds interval)
      : source_(source),
        directory_(daemon.directory),
        style_(options.style),
        interval_(interval),
        sort_(wanted.sort) {}

  absl::Status run() {
    while (!over()) {
      const auto status = source_.refresh();
      if (!status.ok() && wire::code_of(status) != wire::ErrorCode::kTimeout) return status;
      trouble_ = status.ok() ? "" : "the daemon does not answer";
      const auto next = Clock::now() + interval_;
      do {
        draw();
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
        const bool key =
            signals_.wait(std::max(left, std::chrono::milliseconds(0)), screen_.keys());
        if (key) press();
        if (signals_.take(SIGTSTP)) stop();
      } while (!over() && Clock::now() < next);
    }
    return absl::OkStatus();
  }

 private:
  bool over() const { return quit_ || signals_.ending(); }

  void press() {
    std::string keys;
    if (!screen_.read_keys(keys)) quit_ = true;
    for (const char key : keys) {
      switch (key) {
        case 'q':
          quit_ = true;
          break;
        case 'a':
          view_ = View::kArrays;
          break;
        case 's':
          view_ = View::kSessions;
          break;
        case 'd':
          view_ = View::kDevices;
          break;
        default:
          for (const auto& [name, sort] : kSortKeys) {
            if (key == letter_of(sort)) sort_ = sort;
          }
      }
    }
  }

  static char letter_of(SortKey sort) {
    switch (sort) {
      case SortKey::kRate:
        return 'r';
      case SortKey::kBandwidth:
        return 'w';
      case SortKey::kBytes:
        return 'b';
      case SortKey::kVersion:
        return 'v';
      case SortKey::kOpen:
        return 'o';
      case SortKey::kName:
        break;
    }
    return 'n';
  }

  // Ctrl-Z: the shell has the terminal until it lets us go on.
  void stop() {
    screen_.leave();
    ::raise(SIGSTOP);
    screen_.enter();
  }

  Ranked table(std::size_t rows) const {
    switch (view_) {
      case View::kSessions:
        return top_sessions(source_.live(), source_.sessions(), sort_, rows);
      case View::kDevices:
        return top_devices(source_.live(), sort_, rows);
      case View::kArrays:
        break;
    }
    return top_arrays(source_.live(), source_.sessions(), sort_, rows);
  }

  std::string summary() const {
    const Row sums = top_sums(source_.live(), source_.sessions()).rows.front();
    return fmt::format("{} arrays, {}, {} sessions, {}, {}: {}", spell(sums[0], style_),
                       spell(sums[1], style_), spell(sums[2], style_), spell(sums[3], style_),
                       spell(sums[4], style_), directory_);
  }

  void draw() {
    constexpr std::size_t kAroundRows = 4;
    const Screen::Size size = Screen::size();
    const std::size_t rows = size.rows > kAroundRows ? size.rows - kAroundRows : 1;
    const Ranked shown = table(rows);
    std::vector<std::string> lines = {
        cropped(trouble_.empty() ? summary() : trouble_, size.columns), ""};
    for (std::string& line : fit(shown.table, shown.ranks, style_, size.columns)) {
      lines.push_back(std::move(line));
    }
    if (style_.color && lines.size() > 2) lines[2] = "\x1b[1m" + lines[2] + "\x1b[0m";
    while (lines.size() + 1 < size.rows) lines.emplace_back();
    lines.push_back(
        cropped("q quit  a arrays  s sessions  d devices  sort: r rate  w bandwidth  "
                "b bytes  v version  o open  n name",
                size.columns));
    if (!screen_.draw(lines)) quit_ = true;
  }

  Source& source_;
  const std::string directory_;
  const Style style_;
  const std::chrono::milliseconds interval_;
  SortKey sort_;
  View view_ = View::kArrays;
  bool quit_ = false;
  std::string trouble_;
  Signals signals_{SIGWINCH, SIGTSTP, SIGCONT};  // outlives the screen, so that its end is its end
  Screen screen_;
};

}  // namespace

int run_top(const Options& options, const TopOptions& wanted) {
  Options asking = options;
  asking.timeout = std::min(options.timeout, kLongestCall);
  const auto daemon = connect(asking);
  absl::Status status = daemon.status();
  if (daemon.ok()) {
    const std::chrono::milliseconds interval(static_cast<int>(wanted.interval_s * 1000));
    Source source(*daemon);
    const bool once = wanted.once || options.json || ::isatty(STDOUT_FILENO) != 1;
    if (once) {
      status = show_once(source, options, wanted, interval);
    } else {
      status = Top(source, *daemon, options, wanted, interval).run();
    }
  }
  if (!status.ok()) print_error(status, options);
  return exit_code_of(status);
}

}  // namespace memlease::ctl
