#include "server/config/config_option.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <numeric>

#include "fmt/format.h"
#include "server/config/metrics_address.h"
#include "server/config/to_number.h"
#include "wire/error.h"
#include "wire/memory_ceiling.h"
#include "wire/place.h"

namespace memlease::server {
namespace {

using wire::ErrorCode;
using wire::make_error;

constexpr std::uint64_t kAnyBytes = std::uint64_t{1} << 62;
constexpr std::uint64_t kAnyCount = 1'000'000'000;
constexpr std::uint64_t kDaySeconds = 86'400;

template <auto kMember>
void store(Config& config, const OptionValue& value) {
  using Member = std::remove_reference_t<decltype(config.*kMember)>;
  if constexpr (std::is_same_v<Member, std::string>) {
    config.*kMember = std::get<std::string>(value);
  } else {
    config.*kMember = static_cast<Member>(std::get<std::uint64_t>(value));
  }
}

template <auto kMember>
OptionValue load(const Config& config) {
  using Member = std::remove_cvref_t<decltype(config.*kMember)>;
  if constexpr (std::is_same_v<Member, std::string>) {
    return config.*kMember;
  } else {
    return static_cast<std::uint64_t>(config.*kMember);
  }
}

template <auto kMember>
constexpr Option::Member kMemberOf{store<kMember>, load<kMember>};

// THE table. A word's place in its list is the value of its enumerator. The default of `directory`
// depends on the user and is given by config.cc.
// clang-format off: two lines a row, and its help.
constexpr bool kReloaded = true;  // by SIGHUP
constexpr bool kAtStart = false;
constexpr Option kOptions[] = {
    {"directory", "MEMLEASE_DIR", OptionKind::kPath,
     "", 0, 0, {}, kMemberOf<&Config::directory>, kAtStart,
     "Directory of the sockets, made with mode 0700 if missing. Default: "
     "$XDG_RUNTIME_DIR/memlease, else /tmp/memlease-<uid>."},
    {"socket_mode", "MEMLEASE_SOCKET_MODE", OptionKind::kMode,
     "0600", 0600, 0666, {}, kMemberOf<&Config::socket_mode>, kAtStart,
     "Who may connect: 0600 the daemon's user, 0660 also the group, 0666 everybody."},
    {"memory_limit_bytes", "MEMLEASE_MEMORY_LIMIT_BYTES", OptionKind::kBytes,
     "50%", 0, kAnyBytes, {}, kMemberOf<&Config::memory_limit_bytes>, kReloaded,
     "Most memory taken from the system, all users together. 0 = no limit."},
    {"warm_bytes", "MEMLEASE_WARM_BYTES", OptionKind::kBytes,
     "256MiB", 0, kAnyBytes, {}, kMemberOf<&Config::warm_bytes>, kReloaded,
     "Most freed memory kept for the next array instead of going back to the system; on each GPU, "
     "too."},
    {"quota_bytes", "MEMLEASE_QUOTA_BYTES", OptionKind::kBytes,
     "0", 0, kAnyBytes, {}, kMemberOf<&Config::quota_bytes>, kReloaded,
     "Most bytes of arrays in host memory per user. 0 = no limit."},
    {"quota_arrays", "MEMLEASE_QUOTA_ARRAYS", OptionKind::kCount,
     "65536", 0, kAnyCount, {}, kMemberOf<&Config::quota_arrays>, kReloaded,
     "Most arrays per user. 0 = no limit."},
    {"quota_open_arrays", "MEMLEASE_QUOTA_OPEN_ARRAYS", OptionKind::kCount,
     "262144", 0, kAnyCount, {}, kMemberOf<&Config::quota_open_arrays>, kReloaded,
     "Most arrays that a user's processes have open, each counted in each process. 0 = no limit."},
    {"quota_sessions", "MEMLEASE_QUOTA_SESSIONS", OptionKind::kCount,
     "512", 0, kAnyCount, {}, kMemberOf<&Config::quota_sessions>, kReloaded,
     "Most connected processes per user. 0 = no limit."},
    {"quota_descriptors", "MEMLEASE_QUOTA_DESCRIPTORS", OptionKind::kCount,
     "16384", 0, kAnyCount, {}, kMemberOf<&Config::quota_descriptors>, kReloaded,
     "Most of the daemon's file descriptors per user: 7 for each connected process, 2 for each file "
     "of arrays and rows, 1 for a board. 0 = no limit."},
    {"quota_page_bytes", "MEMLEASE_QUOTA_PAGE_BYTES", OptionKind::kSize,
     "2GiB", 0, kAnyBytes, {}, kMemberOf<&Config::quota_page_bytes>, kReloaded,
     "Most bytes of boards and rows per user, what the daemon keeps beside arrays. 0 = no limit."},
    {"quota_file_numbers", "MEMLEASE_QUOTA_FILE_NUMBERS", OptionKind::kCount,
     "16777216", 0, kAnyCount, {}, kMemberOf<&Config::quota_file_numbers>, kReloaded,
     "Most numbers of shared files that a user's connected processes know, each from when it first "
     "uses the file until it ends. 0 = no limit."},
    {"quota_waiting_calls", "MEMLEASE_QUOTA_WAITING_CALLS", OptionKind::kCount,
     "256", 0, kAnyCount, {}, kMemberOf<&Config::quota_waiting_calls>, kReloaded,
     "Most calls per user that wait for events. 0 = no limit."},
    {"quota_requests", "MEMLEASE_QUOTA_REQUESTS", OptionKind::kCount,
     "2048", 0, kAnyCount, {}, kMemberOf<&Config::quota_requests>, kReloaded,
     "Most calls at once per user, of other users than the daemon's own. 0 = no limit."},
    {"quota_request_bytes", "MEMLEASE_QUOTA_REQUEST_BYTES", OptionKind::kSize,
     "16MiB", 0, kAnyBytes, {}, kMemberOf<&Config::quota_request_bytes>, kReloaded,
     "Most bytes of these calls' requests. 0 = no limit."},
    {"quota_log_lines", "MEMLEASE_QUOTA_LOG_LINES", OptionKind::kCount,
     "60", 0, kAnyCount, {}, kMemberOf<&Config::quota_log_lines>, kAtStart,
     "Most lines of the log per user in 10 seconds; how many were held back is said. 0 = no limit."},
    {"gpu_memory_limit_bytes", "MEMLEASE_GPU_MEMORY_LIMIT_BYTES", OptionKind::kSize,
     "0", 0, kAnyBytes, {}, kMemberOf<&Config::gpu_memory_limit_bytes>, kReloaded,
     "Most memory taken of each GPU, all users together. 0 = as much as there is."},
    {"gpu_quota_bytes", "MEMLEASE_GPU_QUOTA_BYTES", OptionKind::kSize,
     "0", 0, kAnyBytes, {}, kMemberOf<&Config::gpu_quota_bytes>, kReloaded,
     "Most bytes of arrays per user on each GPU. 0 = no limit."},
    {"event_waits", "MEMLEASE_EVENT_WAITS", OptionKind::kWord,
     "stream", 0, 0, {"stream", "host"}, kMemberOf<&Config::event_waits>, kReloaded,
     "What waits for earlier GPU work on a slot, other processes' above all: the stream, or the "
     "host before it gives the stream work. A stream may wait for ever for a process that was killed, the host never."},
    {"event_wait_timeout_s", "MEMLEASE_EVENT_WAIT_TIMEOUT_S", OptionKind::kSeconds,
     "60", 1, kDaySeconds, {}, kMemberOf<&Config::event_wait_timeout_s>, kReloaded,
     "How long the host waits so, with event_waits = host."},
    {"drain_timeout_s", "MEMLEASE_DRAIN_TIMEOUT_S", OptionKind::kSeconds,
     "25", 0, kDaySeconds, {}, kMemberOf<&Config::drain_timeout_s>, kReloaded,
     "How long SIGTERM waits for leases to be given back."},
    {"idle_exit_s", "MEMLEASE_IDLE_EXIT_S", OptionKind::kSeconds,
     "0", 0, kDaySeconds, {}, kMemberOf<&Config::idle_exit_s>, kReloaded,
     "End after so long without a connected process and a persistent array. 0 = never."},
    {"huge_pages", "MEMLEASE_HUGE_PAGES", OptionKind::kWord,
     "auto", 0, 0, {"auto", "never"}, kMemberOf<&Config::huge_pages>, kAtStart,
     "Use huge pages for large arrays where the system has them."},
    {"metrics", "MEMLEASE_METRICS", OptionKind::kMetrics,
     "off", 0, 0, {}, kMemberOf<&Config::metrics>, kAtStart,
     "Serve metrics to Prometheus: unix, by metrics.sock in the directory; or 127.0.0.1:PORT or "
     "[::1]:PORT, to all users of this machine."},
    {"log_level", "MEMLEASE_LOG_LEVEL", OptionKind::kWord,
     "info", 0, 0, {"debug", "info", "warning", "error"}, kMemberOf<&Config::log_level>, kReloaded,
     "Least severe event logged."},
    {"log_format", "MEMLEASE_LOG_FORMAT", OptionKind::kWord,
     "text", 0, 0, {"text", "json", "journal"}, kMemberOf<&Config::log_format>, kAtStart,
     "Form of the log's lines."},
};
// clang-format on

struct Unit {
  std::string_view suffix;
  unsigned shift;
};

constexpr Unit kUnits[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"T", 40},
                           {"G", 30},   {"M", 20},   {"K", 10},   {"B", 0},    {"", 0}};

std::optional<std::uint64_t> to_size(std::string_view text) {
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.suffix)) continue;
    const auto number = to_number<std::uint64_t>(text.substr(0, text.size() - unit.suffix.size()));
    if (!number || *number > std::numeric_limits<std::uint64_t>::max() >> unit.shift) break;
    return *number << unit.shift;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> to_bytes(std::string_view text) {
  if (!text.ends_with('%')) return to_size(text);
  const auto percent = to_number<std::uint64_t>(text.substr(0, text.size() - 1));
  if (!percent || *percent > 100) return std::nullopt;
  return wire::memory_ceiling(::getpid()).bytes / 100 * *percent;
}

std::string print_bytes(std::uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    const std::uint64_t size = std::uint64_t{1} << unit.shift;
    if (bytes >= size && bytes % size == 0 && unit.suffix.size() == 3) {
      return fmt::format("{}{}", bytes / size, unit.suffix);
    }
  }
  return fmt::format("{}", bytes);
}

std::string print_number(OptionKind kind, std::uint64_t number) {
  if (kind == OptionKind::kMode) return fmt::format("0o{:o}", number);
  if (kind == OptionKind::kBytes || kind == OptionKind::kSize) {
    const std::string text = print_bytes(number);
    return text.ends_with('B') ? fmt::format("\"{}\"", text) : text;
  }
  return fmt::format("{}", number);
}

std::vector<std::string> words_of(const Option& option) {
  std::vector<std::string> words;
  for (const std::string_view word : option.words) {
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

absl::Status refusal(const std::string& what) {
  return make_error(ErrorCode::kInvalidArgument, what);
}

absl::StatusOr<OptionValue> parse_word(const Option& option, std::string_view text) {
  const std::vector<std::string> words = words_of(option);
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) {
    return OptionValue(static_cast<std::uint64_t>(found - words.begin()));
  }
  return refusal(fmt::format("'{}' is not one of {}.{}", text, fmt::join(words, ", "),
                             suggestion_for(text, words)));
}

absl::StatusOr<OptionValue> parse_path(std::string_view text) {
  if (!text.starts_with('/')) {
    return refusal(fmt::format("'{}' is not an absolute path.", text));
  }
  while (text.size() > 1 && text.ends_with('/')) text.remove_suffix(1);
  std::string path(text);
  if (auto longest = wire::socket_path(path, wire::kControlSocket); !longest.ok()) {
    return longest.status();
  }
  return OptionValue(std::move(path));
}

absl::StatusOr<OptionValue> parse_metrics(std::string_view text) {
  if (parse_metrics_address(text)) return OptionValue(std::string(text));
  return refusal(fmt::format("'{}' is not off, unix, 127.0.0.1:PORT or [::1]:PORT.", text));
}

std::string_view form_of(OptionKind kind) {
  switch (kind) {
    case OptionKind::kMode:
      return "an octal mode such as 0660";
    case OptionKind::kBytes:
      return "a size such as 65536, 256MiB, 2GiB or 50%";
    case OptionKind::kSize:
      return "a size such as 65536, 256MiB or 2GiB";
    default:
      return "a whole number";
  }
}

std::optional<std::uint64_t> number_of(OptionKind kind, std::string_view text) {
  if (kind == OptionKind::kBytes) return to_bytes(text);
  if (kind == OptionKind::kSize) return to_size(text);
  if (kind != OptionKind::kMode) return to_number<std::uint64_t>(text);
  if (text.starts_with("0o")) text.remove_prefix(2);
  return to_number<std::uint64_t>(text, 8);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, change}));
    }
  }
  return row.back();
}

}  // namespace

std::span<const Option> options() { return kOptions; }

const Option* find_option(std::string_view name) {
  for (const Option& option : kOptions) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string flag_of(const Option& option) {
  std::string flag = "--" + std::string(option.name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string placeholder_of(const Option& option) {
  switch (option.kind) {
    case OptionKind::kPath:
      return "PATH";
    case OptionKind::kMode:
      return "MODE";
    case OptionKind::kBytes:
    case OptionKind::kSize:
      return "BYTES";
    case OptionKind::kCount:
      return "COUNT";
    case OptionKind::kSeconds:
      return "SECONDS";
    case OptionKind::kMetrics:
      return "off|unix|ADDRESS:PORT";
    case OptionKind::kWord:
      break;
  }
  return fmt::format("{}", fmt::join(words_of(option), "|"));
}

namespace {

// The error says what is wrong with the text, not where it stands.
absl::StatusOr<OptionValue> parse_value(const Option& option, std::string_view text) {
  if (option.kind == OptionKind::kWord) return parse_word(option, text);
  if (option.kind == OptionKind::kPath) return parse_path(text);
  if (option.kind == OptionKind::kMetrics) return parse_metrics(text);
  const auto number = number_of(option.kind, text);
  if (!number) return refusal(fmt::format("'{}' is not {}.", text, form_of(option.kind)));
  if (option.kind == OptionKind::kMode) {
    if ((*number & option.least) != option.least || (*number & ~option.most) != 0) {
      return refusal(
          fmt::format("{:04o} is not a mode for sockets: it must have {:04o} and may have "
                      "{:04o}, without execute and special bits.",
                      *number, option.least, option.most));
    }
  } else if (*number < option.least || *number > option.most) {
    return refusal(fmt::format("{} is out of range: {} to {}.", text, option.least, option.most));
  }
  return OptionValue(*number);
}

}  // namespace

absl::Status add_setting(Settings& settings, const Option& option, std::string_view text,
                         const std::string& origin) {
  auto value = parse_value(option, text);
  if (!value.ok()) {
    return refusal(fmt::format("{}: {}", origin, wire::message_of(value.status())));
  }
  settings[&option] = {*std::move(value), origin};
  return absl::OkStatus();
}

std::string path_in(const std::string& folder, const std::string& path) {
  if (folder.empty() || path.empty() || path.front() == '/') return path;
  return folder + "/" + path;
}

std::string text_in(const std::string& folder, const Option& option, const std::string& text) {
  return option.kind == OptionKind::kPath ? path_in(folder, text) : text;
}

std::string print_value(const Option& option, const OptionValue& value) {
  if (const auto* path = std::get_if<std::string>(&value)) {
    std::string quoted = "\"";
    for (const char c : *path) {
      if (c == '"' || c == '\\') quoted += '\\';
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
      } else {
        quoted += c;
      }
    }
    return quoted + '"';
  }
  const std::uint64_t number = std::get<std::uint64_t>(value);
  if (option.kind == OptionKind::kWord) return fmt::format("\"{}\"", option.words.at(number));
  return print_number(option.kind, number);
}

std::string suggestion_for(std::string_view wrong, std::span<const std::string> candidates) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, wrong.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wrong, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? std::string() : fmt::format(" Did you mean '{}'?", best);
}

}  // namespace memlease::server
