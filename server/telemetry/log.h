// The daemon's log: one event, one line, on standard error. An event is a constant text; what
// varies goes into fields, so that people can grep the text and programs can read the JSON.
// Never log a token, a handle or the number of a file descriptor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "wire/mutex.h"

namespace memlease::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

enum class LogFormat {
  kText,     // for people: time, level, event, fields
  kJson,     // one object a line
  kJournal,  // as kText, but with the journal's priority instead of time and level
};

struct LogField {
  using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string_view>;

  constexpr LogField(std::string_view name_in, std::string_view text)
      : name(name_in), value(text) {}
  constexpr LogField(std::string_view name_in, const char* text)
      : name(name_in), value(std::string_view(text)) {}
  template <typename T>
    requires std::is_arithmetic_v<T>
  constexpr LogField(std::string_view name_in, T number) : name(name_in), value(widen(number)) {}

  std::string_view name;
  Value value;

 private:
  template <typename T>
  static constexpr Value widen(T number) {
    if constexpr (std::is_same_v<T, bool>) return Value(std::in_place_type<bool>, number);
    if constexpr (std::is_floating_point_v<T>) return Value(static_cast<double>(number));
    if constexpr (std::is_signed_v<T>) return Value(static_cast<std::int64_t>(number));
    return Value(static_cast<std::uint64_t>(number));
  }
};

using LogFields = std::initializer_list<LogField>;

// Lets `burst` events through per period and counts the others: for events that a peer can cause at
// will. Thread-safe.
class LogLimiter {
 public:
  using Clock = std::chrono::steady_clock;
  LogLimiter(std::uint32_t burst, std::chrono::milliseconds period)
      : burst_(burst), period_(period) {}

  // Of what is usual only half as much is let through, so that there is room left for the rest.
  enum class Kind { kUsual, kNotable };

  // How many events were held back since the last one let through; nothing: hold this one back too.
  std::optional<std::uint64_t> admit(Clock::time_point now = Clock::now(),
                                     Kind kind = Kind::kNotable);
  // Let through in the period that `now` is in.
  std::uint32_t admitted(Clock::time_point now = Clock::now());

 private:
  const std::uint32_t burst_;
  const Clock::duration period_;
  wire::Mutex mutex_;
  Clock::time_point period_start_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t admitted_ ABSL_GUARDED_BY(mutex_) = 0;  // in this period
  std::uint64_t suppressed_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Thread-safe, and does not wait for whoever reads it: lines that nobody takes are dropped, and the
// next one that is taken says how many.
class Log {
 public:
  // The descriptor stays the caller's, and open as long as this lives.
  Log(LogLevel level, LogFormat format, int fd = 2);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Of lines from now on.
  void set_level(LogLevel level);
  // The descriptor is the file at `path` now: when that has grown to max_bytes it becomes `path`.1,
  // and a new one begins. Where that cannot be, it is emptied; and where that neither, it grows.
  void bound_file(const std::string& path, std::uint64_t max_bytes);
  // A new one begins, too, if somebody has moved that file away, as logrotate(8) does. Nothing
  // happens without bound_file(), or where none can be made: then lines go into the old one.
  void reopen_file();
  // Nothing below the level. What is too long for a line is cut, and ends with "...".
  void write(LogLevel level, std::string_view event, LogFields fields = {});
  // The line that ends a silence has a field `suppressed`.
  void write(LogLimiter& limiter, LogLevel level, std::string_view event, LogFields fields = {},
             LogLimiter::Kind kind = LogLimiter::Kind::kNotable);
  // The event is made only if it is let through.
  void write(LogLimiter& limiter, LogLevel level, const std::function<std::string()>& event,
             LogFields fields = {}, LogLimiter::Kind kind = LogLimiter::Kind::kNotable);

  void debug(std::string_view event, LogFields fields = {}) {
    write(LogLevel::kDebug, event, fields);
  }
  void info(std::string_view event, LogFields fields = {}) {
    write(LogLevel::kInfo, event, fields);
  }
  void warning(std::string_view event, LogFields fields = {}) {
    write(LogLevel::kWarning, event, fields);
  }
  void error(std::string_view event, LogFields fields = {}) {
    write(LogLevel::kError, event, fields);
  }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace memlease::server
