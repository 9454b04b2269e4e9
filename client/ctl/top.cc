#include "client/ctl/top.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/ctl/fit.h"
#include "client/ctl/sampler.h"
#include "client/ctl/screen.h"
#include "client/ctl/signals.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::ctl {
namespace {

using Clock = std::chrono::steady_clock;

// Later than that the daemon is said not to answer.
constexpr std::chrono::milliseconds kLongestCall{2000};
// Between the first two looks, before which there are no rates.
constexpr std::chrono::milliseconds kFirstStep{250};
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

// What is known of the daemon.
class Picture {
 public:
  void add(Sample sample) {
    live_.add(sample.arrays,
              std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
    sessions_ = std::move(sample.sessions);
  }
  const Live& live() const { return live_; }
  const v1::ListSessionsReply& sessions() const { return sessions_; }

 private:
  Live live_;
  v1::ListSessionsReply sessions_;
};

absl::Status refresh(Picture& picture, const Connection& daemon) {
  auto sample = take_sample(*daemon.admin, picture.live().known_through());
  if (!sample.ok()) return sample.status();
  picture.add(*std::move(sample));
  return absl::OkStatus();
}

absl::Status show_once(const Connection& daemon, const Options& options, const TopOptions& wanted,
                       std::chrono::milliseconds interval) {
  Signals signals;
  Picture picture;
  if (auto status = refresh(picture, daemon); !status.ok()) return status;
  const auto end = Clock::now() + interval;
  while (!signals.ending() && Clock::now() < end) {
    signals.wait(std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()));
  }
  if (auto status = refresh(picture, daemon); !status.ok()) return status;
  const Live& live = picture.live();
  print_record(top_sums(live, picture.sessions()), options,
               {top_devices(live, wanted.sort, kAll).table,
                top_sessions(live, picture.sessions(), wanted.sort, kAll).table,
                top_arrays(live, picture.sessions(), wanted.sort, kAll).table});
  return absl::OkStatus();
}

std::string counted(const Cell& count, std::string_view what, const Style& style) {
  const auto* number = std::get_if<std::uint64_t>(&count);
  return fmt::format("{} {}{}", spell(count, style), what,
                     number != nullptr && *number == 1 ? "" : "s");
}

void append_wrapped(std::vector<std::string>& lines, std::span<const std::string_view> keys,
                    std::size_t columns) {
  constexpr std::string_view kBetween = "  ";
  lines.emplace_back();
  for (const std::string_view key : keys) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = cropped(key, columns);
    } else if (line.size() + kBetween.size() + key.size() <= columns) {
      line.append(kBetween).append(key);
    } else {
      lines.push_back(cropped(key, columns));
    }
  }
}

// In as many lines as that takes.
std::vector<std::string> help(std::size_t columns) {
  constexpr std::size_t kOfViews = 4;
  constexpr std::string_view kKeys[] = {"q quit",       "a arrays",    "s sessions", "d devices",
                                        "sort: r rate", "w bandwidth", "b bytes",    "v version",
                                        "o open",       "n name"};
  std::vector<std::string> lines;
  append_wrapped(lines, kKeys, columns);
  if (lines.size() == 1) return lines;
  lines.clear();
  append_wrapped(lines, std::span(kKeys).first<kOfViews>(), columns);
  append_wrapped(lines, std::span(kKeys).subspan<kOfViews>(), columns);
  return lines;
}

enum class View { kArrays, kSessions, kDevices };

class Top {
 public:
  Top(const Connection& daemon, const Options& options, const TopOptions& wanted,
      std::chrono::milliseconds interval)
      : directory_(daemon.directory),
        style_(options.style),
        interval_(interval),
        sort_(wanted.sort),
        sampler_(*daemon.admin, signals_) {}

  absl::Status run() {
    while (!over()) {
      if (auto status = look(); !status.ok()) return status;
      if (looks_ > 1 || !trouble_.empty()) draw();
      // An answer ends the wait, too.
      const auto left = sampler_.asking()
                            ? kLongestCall
                            : std::chrono::ceil<std::chrono::milliseconds>(next_ - Clock::now());
      if (signals_.wait(std::max(left, std::chrono::milliseconds(0)), screen_.keys())) press();
      if (signals_.take(SIGTSTP)) stop();
    }
    return absl::OkStatus();
  }

 private:
  bool over() const { return quit_ || signals_.ending(); }

  // Takes an answer that has come, and asks when it is time to. One that is late is said, and is no
  // error.
  absl::Status look() {
    if (auto sample = sampler_.take()) {
      const bool late = wire::code_of(sample->status()) == wire::ErrorCode::kTimeout;
      if (!sample->ok() && !late) return sample->status();
      trouble_ = late ? "the daemon does not answer" : "";
      if (sample->ok()) {
        picture_.add(**std::move(sample));
        ++looks_;
      }
      next_ = Clock::now() + (looks_ == 1 ? std::min(interval_, kFirstStep) : interval_);
    }
    if (!sampler_.asking() && Clock::now() >= next_) sampler_.ask(picture_.live().known_through());
    return absl::OkStatus();
  }

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
        return top_sessions(picture_.live(), picture_.sessions(), sort_, rows);
      case View::kDevices:
        return top_devices(picture_.live(), sort_, rows);
      case View::kArrays:
        break;
    }
    return top_arrays(picture_.live(), picture_.sessions(), sort_, rows);
  }

  std::string summary() const {
    const Row sums = top_sums(picture_.live(), picture_.sessions()).rows.front();
    return fmt::format("{}, {}, {}, {}, {}: {}", counted(sums[0], "array", style_),
                       spell(sums[1], style_), counted(sums[2], "session", style_),
                       spell(sums[3], style_), spell(sums[4], style_), directory_);
  }

  void draw() {
    constexpr std::size_t kAboveRows = 3;  // the summary, an empty line, the titles
    const Screen::Size size = Screen::size();
    std::vector<std::string> below = help(size.columns);
    below.resize(std::clamp<std::size_t>(size.rows / 3, 1, below.size()));
    const std::size_t around = kAboveRows + below.size();
    const std::size_t rows = size.rows > around ? size.rows - around : 1;
    const Ranked shown = table(rows);
    std::vector<std::string> lines = {
        cropped(trouble_.empty() ? summary() : trouble_, size.columns), ""};
    for (std::string& line : fit(shown.table, shown.ranks, style_, size.columns)) {
      lines.push_back(std::move(line));
    }
    if (style_.color && lines.size() > 2) lines[2] = "\x1b[1m" + lines[2] + "\x1b[0m";
    while (lines.size() + below.size() < size.rows) lines.emplace_back();
    lines.insert(lines.end(), below.begin(), below.end());
    if (!screen_.draw(lines)) quit_ = true;
  }

  const std::string directory_;
  const Style style_;
  const std::chrono::milliseconds interval_;
  SortKey sort_;
  View view_ = View::kArrays;
  bool quit_ = false;
  Picture picture_;
  std::uint64_t looks_ = 0;   // that showed all of it
  Clock::time_point next_{};  // when to ask again
  std::string trouble_;
  Signals signals_{SIGWINCH, SIGTSTP, SIGCONT};  // outlives the screen, so that its end is its end
  Screen screen_;
  Sampler sampler_;
};

}  // namespace

int run_top(const Options& options, const TopOptions& wanted) {
  Options asking = options;
  asking.timeout = std::min(options.timeout, kLongestCall);
  const auto daemon = connect(asking);
  absl::Status status = daemon.status();
  if (daemon.ok()) {
    const std::chrono::milliseconds interval(static_cast<int>(wanted.interval_s * 1000));
    const bool once = wanted.once || options.json || ::isatty(STDOUT_FILENO) != 1;
    if (once) {
      status = show_once(*daemon, options, wanted, interval);
    } else {
      status = Top(*daemon, options, wanted, interval).run();
    }
  }
  if (!status.ok()) print_error(status, options);
  return exit_code_of(status);
}

}  // namespace memlease::ctl
