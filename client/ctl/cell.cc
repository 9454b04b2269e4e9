#include "client/ctl/cell.h"

#include <pwd.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>

#include "fmt/chrono.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/utf8.h"

namespace memlease::ctl {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

// A look into the system's lists of users, which may be files or far away.
std::string look_up_user(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return std::to_string(uid);
}

const std::string& user_name(uid_t uid) {
  thread_local std::map<uid_t, std::string> known;
  const auto [it, is_new] = known.try_emplace(uid);
  if (is_new) it->second = look_up_user(uid);
  return it->second;
}

std::string utc(std::uint64_t unix_ms) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(static_cast<std::time_t>(unix_ms / 1000)));
}

// With the date, where that is another day than today.
std::string local_time(std::uint64_t unix_ms, std::uint64_t now_ms) {
  const auto at = static_cast<std::time_t>(unix_ms / 1000);
  const auto now = static_cast<std::time_t>(now_ms / 1000);
  std::tm then{};
  std::tm today{};
  if (::localtime_r(&at, &then) == nullptr || ::localtime_r(&now, &today) == nullptr) {
    return utc(unix_ms);
  }
  if (then.tm_yday == today.tm_yday && then.tm_year == today.tm_year) {
    return fmt::format("{:%H:%M:%S}", then);
  }
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", then);
}

// Three digits, and thousands as k, M, G.
std::string human_rate(double per_s) {
  constexpr std::array<std::string_view, 4> kUnits = {"", "k", "M", "G"};
  std::size_t unit = 0;
  while (per_s >= 999.5 && unit + 1 < kUnits.size()) {
    per_s /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f}{}/s", per_s, per_s == 0 || per_s >= 99.95 ? 0 : 1, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.1 ? 1 : 0);
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  return human_duration(static_cast<std::uint64_t>(seconds * 1000));
}

// A GPU's UUID has 36 characters, of which eight tell one of a machine's GPUs from another.
std::string short_device(std::string_view name) {
  constexpr std::size_t kKept = std::string_view("GPU-6a9f01c2").size();
  if (!name.starts_with("GPU-") || name.size() <= kKept) return std::string(name);
  return std::string(name.substr(0, kKept)) + "...";
}

// "/usr/bin/python3 reader.py ...": the program's folder says least of all.
std::string short_command(std::string_view line) {
  constexpr std::size_t kMost = 60;
  constexpr std::string_view kEnd = "...";
  const std::string_view program = line.substr(0, line.find(' '));
  if (const std::size_t folder = program.rfind('/'); folder != program.npos) {
    line.remove_prefix(folder + 1);
  }
  if (line.size() <= kMost) return std::string(line);
  return std::string(line.substr(0, kMost - kEnd.size())).append(kEnd);
}

std::string text_or_dash(const std::string& text) {
  return text.empty() ? "-" : wire::printable(text);
}

template <typename Number>
std::string join(const std::vector<Number>& numbers) {
  return numbers.empty() ? "-" : fmt::format("{}", fmt::join(numbers, ","));
}

// As JSON has them: what is infinite or not a number is null, and whole numbers stay floating.
std::string json_real(double real) {
  if (!std::isfinite(real)) return "null";
  std::string text = fmt::format("{}", real);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

struct JsonOfAttribute {
  std::string operator()(const std::string& text) const { return json_string(text); }
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(std::int64_t integer) const { return std::to_string(integer); }
  std::string operator()(double real) const { return json_real(real); }
  template <typename Element>
  std::string operator()(const std::vector<Element>& list) const {
    std::vector<std::string> elements;
    for (const Element& element : list) elements.push_back((*this)(element));
    return fmt::format("[{}]", fmt::join(elements, ", "));
  }
};

std::string json_object(const wire::Attributes& attributes) {
  std::vector<std::string> members;
  for (const auto& [name, value] : attributes) {
    members.push_back(json_string(name) + ": " + std::visit(JsonOfAttribute(), value));
  }
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits = {"B",   "KiB", "MiB", "GiB",
                                                      "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 9.95 ? 1 : 0, kUnits[unit]);
}

std::string human_duration(std::uint64_t ms) {
  constexpr std::uint64_t kMinute = 60;
  constexpr std::uint64_t kHour = 60 * kMinute;
  constexpr std::uint64_t kDay = 24 * kHour;
  const std::uint64_t seconds = ms / 1000;
  if (seconds < 100) return fmt::format("{} s", seconds);
  if (seconds < 100 * kMinute) return fmt::format("{} min", seconds / kMinute);
  if (seconds < 3 * kDay) return fmt::format("{} h", seconds / kHour);
  return fmt::format("{} d", seconds / kDay);
}

std::string json_string(std::string_view text) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, plain)) return std::string("\"").append(text).append("\"");
  const std::string in = wire::to_utf8(text);
  std::string out = "\"";
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] == '"' || in[i] == '\\') {
      out += '\\';
      out += in[i];
    } else if (const auto control = wire::control_at(in, i); control.bytes != 0) {
      out += fmt::format("\\u{:04x}", control.number);
      i += control.bytes - 1;
    } else {
      out += in[i];
    }
  }
  return out + '"';
}

std::string to_plain(const Cell& cell) {
  return std::visit(
      Overloaded{
          [](std::monostate) -> std::string { return "-"; },
          [](bool value) -> std::string { return value ? "yes" : "no"; },
          [](std::int64_t value) { return std::to_string(value); },
          [](std::uint64_t value) { return std::to_string(value); },
          [](const std::string& text) { return text_or_dash(text); },
          [](Bytes bytes) { return std::to_string(bytes.count); },
          [](Limit limit) { return limit.bytes == 0 ? "none" : std::to_string(limit.bytes); },
          [](Time time) { return time.unix_ms == 0 ? "-" : utc(time.unix_ms); },
          [](Duration duration) { return fmt::format("{}s", duration.ms / 1000); },
          [](Moment moment) { return moment.unix_ms == 0 ? "-" : utc(moment.unix_ms); },
          [](Seconds seconds) { return fmt::format("{:.6f}", seconds.count); },
          [](Rate rate) { return fmt::format("{:.3f}", rate.per_s); },
          [](BytesRate rate) { return fmt::format("{:.0f}", rate.per_s); },
          [](const Device& device) { return wire::printable(device.name); },
          [](const Command& command) { return text_or_dash(command.line); },
          [](Pid pid) { return pid.number == 0 ? "?" : std::to_string(pid.number); },
          [](Uid uid) -> std::string { return user_name(uid.value); },
          [](Mode mode) { return fmt::format("{:04o}", mode.bits); },
          [](const std::vector<std::int64_t>& numbers) { return join(numbers); },
          [](const std::vector<std::uint64_t>& numbers) { return join(numbers); },
          [](const wire::Attributes& attributes) {
            return attributes.empty() ? "-" : json_object(attributes);
          },
      },
      cell);
}

std::string to_human(const Cell& cell, std::uint64_t now_ms) {
  if (const auto* bytes = std::get_if<Bytes>(&cell)) return human_bytes(bytes->count);
  if (const auto* limit = std::get_if<Limit>(&cell); limit != nullptr && limit->bytes != 0) {
    return human_bytes(limit->bytes);
  }
  if (const auto* time = std::get_if<Time>(&cell); time != nullptr && time->unix_ms != 0) {
    return human_duration(now_ms > time->unix_ms ? now_ms - time->unix_ms : 0) + " ago";
  }
  if (const auto* device = std::get_if<Device>(&cell))
    return wire::printable(short_device(device->name));
  if (const auto* command = std::get_if<Command>(&cell)) {
    return text_or_dash(short_command(command->line));
  }
  if (const auto* duration = std::get_if<Duration>(&cell)) return human_duration(duration->ms);
  if (const auto* moment = std::get_if<Moment>(&cell); moment != nullptr && moment->unix_ms != 0) {
    return local_time(moment->unix_ms, now_ms);
  }
  if (const auto* seconds = std::get_if<Seconds>(&cell)) return human_seconds(seconds->count);
  if (const auto* rate = std::get_if<Rate>(&cell)) return human_rate(rate->per_s);
  if (const auto* rate = std::get_if<BytesRate>(&cell)) {
    return human_bytes(static_cast<std::uint64_t>(rate->per_s)) + "/s";
  }
  return to_plain(cell);
}

std::string to_json(const Cell& cell) {
  return std::visit(
      Overloaded{
          [](std::monostate) -> std::string { return "null"; },
          [](bool value) -> std::string { return value ? "true" : "false"; },
          [](std::int64_t value) { return std::to_string(value); },
          [](std::uint64_t value) { return std::to_string(value); },
          [](const std::string& text) { return json_string(text); },
          [](Bytes bytes) { return std::to_string(bytes.count); },
          [](Limit limit) { return limit.bytes == 0 ? "null" : std::to_string(limit.bytes); },
          [](Time time) { return time.unix_ms == 0 ? "null" : std::to_string(time.unix_ms); },
          [](Duration duration) { return std::to_string(duration.ms); },
          [](Moment moment) {
            return moment.unix_ms == 0 ? "null" : std::to_string(moment.unix_ms);
          },
          [](Seconds seconds) { return fmt::format("{:.6f}", seconds.count); },
          [](Rate rate) { return fmt::format("{:.3f}", rate.per_s); },
          [](BytesRate rate) { return fmt::format("{:.0f}", rate.per_s); },
          [](const Device& device) { return json_string(device.name); },
          [](const Command& command) { return json_string(command.line); },
          [](Pid pid) { return pid.number == 0 ? "null" : std::to_string(pid.number); },
          [](Uid uid) { return std::to_string(uid.value); },
          [](Mode mode) { return fmt::format("\"{:04o}\"", mode.bits); },
          [](const std::vector<std::int64_t>& numbers) {
            return fmt::format("[{}]", fmt::join(numbers, ","));
          },
          [](const std::vector<std::uint64_t>& numbers) {
            return fmt::format("[{}]", fmt::join(numbers, ","));
          },
          [](const wire::Attributes& attributes) { return json_object(attributes); },
      },
      cell);
}

}  // namespace memlease::ctl
