#include "server/telemetry/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <deque>
#include <iterator>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "server/telemetry/log_sink.h"

namespace memlease::server {
namespace {

using Buffer = fmt::memory_buffer;

// LogSink as spdlog wants it.
class SpdlogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit SpdlogSink(int fd) : sink_(fd) {}

  void bound(const std::string& path, std::uint64_t max_bytes) {
    const std::lock_guard lock(mutex_);
    sink_.bound(path, max_bytes);
  }
  void reopen() {
    const std::lock_guard lock(mutex_);
    sink_.reopen();
  }
  // Lines lost, once there is room to say so.
  LogSink::Dropped take_dropped() {
    const std::lock_guard lock(mutex_);
    return sink_.has_room() ? sink_.take_dropped() : LogSink::Dropped{};
  }
  void told_of(const LogSink::Dropped& dropped) {
    const std::lock_guard lock(mutex_);
    sink_.told_of(dropped);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    sink_.write(std::string(line.data(), line.size()));
  }
  void flush_() override {}

  LogSink sink_;
};

// What stands around the fields: time, level, braces.
constexpr std::size_t kFrameBytes = 96;
constexpr std::size_t kMostBytes = LogSink::kMostBytes - kFrameBytes;
constexpr std::size_t kShortest = 16;

// All of it, or its beginning and "...", in whole characters of UTF-8.
std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

// The text may come from a peer (a process's name, an array's name): whatever could end the line,
// drive a terminal or break the JSON is escaped.
void append_escaped(Buffer& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out.push_back(c);
    }
  }
}

struct ShortFields {
  std::deque<std::string> texts;  // what the fields refer to
  std::vector<LogField> fields;
};

ShortFields with_short_texts(std::span<const LogField> fields, std::size_t most) {
  ShortFields shorter;
  for (const LogField& field : fields) {
    shorter.fields.push_back(field);
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      shorter.fields.back().value =
          std::string_view(shorter.texts.emplace_back(shortened(*text, most)));
    }
  }
  return shorter;
}

void append_quoted(Buffer& out, std::string_view text) {
  out.push_back('"');
  append_escaped(out, text);
  out.push_back('"');
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\\' || c == '=' || c == '\x7f') {
      return true;
    }
  }
  return false;
}

void append_value(Buffer& out, const LogField::Value& value, bool always_quote) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    if (always_quote || needs_quotes(*text)) {
      append_quoted(out, *text);
    } else {
      out.append(*text);
    }
    return;
  }
  std::visit([&out](const auto& v) { fmt::format_to(std::back_inserter(out), "{}", v); }, value);
}

void append_text(Buffer& out, std::string_view event, std::span<const LogField> fields) {
  append_escaped(out, event);
  for (const LogField& field : fields) {
    fmt::format_to(std::back_inserter(out), " {}=", field.name);
    append_value(out, field.value, false);
  }
}

void append_json(Buffer& out, std::string_view event, std::span<const LogField> fields) {
  out.append(std::string_view(R"("event":)"));
  append_quoted(out, event);
  for (const LogField& field : fields) {
    out.push_back(',');
    append_quoted(out, field.name);
    out.push_back(':');
    append_value(out, field.value, true);
  }
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

// sd-daemon(3): the journal takes the priority from the start of the line.
int journal_priority(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return 7;
    case LogLevel::kInfo:
      return 6;
    case LogLevel::kWarning:
      return 4;
    case LogLevel::kError:
      break;
  }
  return 3;
}

const char* pattern_of(LogFormat format) {
  switch (format) {
    case LogFormat::kText:
      return "%Y-%m-%dT%H:%M:%S.%eZ %-7l %v";
    case LogFormat::kJson:
      return R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";
    case LogFormat::kJournal:
      break;
  }
  return "%v";
}

}  // namespace

std::optional<std::uint64_t> LogLimiter::admit(Clock::time_point now, Kind kind) {
  const wire::MutexLock lock(mutex_);
  if (now - period_start_ >= period_) {
    period_start_ = now;
    admitted_ = 0;
  }
  if (admitted_ >= (kind == Kind::kUsual ? burst_ - burst_ / 2 : burst_)) {
    ++suppressed_;
    return std::nullopt;
  }
  ++admitted_;
  return std::exchange(suppressed_, 0);
}

std::uint32_t LogLimiter::admitted(Clock::time_point now) {
  const wire::MutexLock lock(mutex_);
  return now - period_start_ >= period_ ? 0 : admitted_;
}

class Log::Impl {
 public:
  Impl(LogLevel level, LogFormat format, int fd)
      : format_(format), sink_(std::make_shared<SpdlogSink>(fd)), logger_("memleased", sink_) {
    logger_.set_pattern(pattern_of(format), spdlog::pattern_time_type::utc);
    set_level(level);
  }

  void set_level(LogLevel level) { logger_.set_level(to_spdlog(level)); }
  bool wants(LogLevel level) const { return logger_.should_log(to_spdlog(level)); }

  void bound(const std::string& path, std::uint64_t max_bytes) { sink_->bound(path, max_bytes); }
  void reopen() { sink_->reopen(); }

  void write(LogLevel level, std::string_view event, std::span<const LogField> fields) {
    if (const auto dropped = sink_->take_dropped(); dropped.lines > 0) {
      tell_of(dropped, level);
      sink_->told_of(dropped);
    }
    put(level, event, fields);
  }

 private:
  // A warning; where those are left out, of the level of the line that comes next.
  void tell_of(const LogSink::Dropped& dropped, LogLevel level) {
    const std::string reason =
        dropped.reason == 0 ? "nobody took them" : std::generic_category().message(dropped.reason);
    const LogField count{"count", dropped.lines};
    put(wants(LogLevel::kWarning) ? LogLevel::kWarning : level,
        "lines of this log were dropped: " + reason, {&count, 1});
  }

  // A line too long for the sink has its longest texts shortened, so that JSON stays JSON.
  void put(LogLevel level, std::string_view event, std::span<const LogField> fields) {
    Buffer line = format(level, event, fields);
    for (std::size_t most = kMostBytes; line.size() > kMostBytes && most > kShortest; most /= 2) {
      line = format(level, shortened(event, most), with_short_texts(fields, most).fields);
    }
    logger_.log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
  }

  Buffer format(LogLevel level, std::string_view event, std::span<const LogField> fields) const {
    Buffer line;
    if (format_ == LogFormat::kJson) {
      append_json(line, event, fields);
    } else {
      if (format_ == LogFormat::kJournal) {
        fmt::format_to(std::back_inserter(line), "<{}>", journal_priority(level));
      }
      append_text(line, event, fields);
    }
    return line;
  }

  const LogFormat format_;
  const std::shared_ptr<SpdlogSink> sink_;
  spdlog::logger logger_;
};

Log::Log(LogLevel level, LogFormat format, int fd)
    : impl_(std::make_unique<Impl>(level, format, fd)) {}

Log::~Log() = default;

void Log::bound_file(const std::string& path, std::uint64_t max_bytes) {
  impl_->bound(path, max_bytes);
}

void Log::reopen_file() { impl_->reopen(); }

void Log::set_level(LogLevel level) { impl_->set_level(level); }

void Log::write(LogLevel level, std::string_view event, LogFields fields) {
  if (impl_->wants(level)) impl_->write(level, event, fields);
}

void Log::write(LogLimiter& limiter, LogLevel level, std::string_view event, LogFields fields,
                LogLimiter::Kind kind) {
  write(limiter, level, [event] { return std::string(event); }, fields, kind);
}

void Log::write(LogLimiter& limiter, LogLevel level, const std::function<std::string()>& event,
                LogFields fields, LogLimiter::Kind kind) {
  if (!impl_->wants(level)) return;
  const auto suppressed = limiter.admit(LogLimiter::Clock::now(), kind);
  if (!suppressed) return;
  std::vector<LogField> all(fields);
  if (*suppressed > 0) all.emplace_back("suppressed", *suppressed);
  impl_->write(level, event(), all);
}

}  // namespace memlease::server
