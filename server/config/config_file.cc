// Reads the TOML file. The only unit that includes toml++.
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "fmt/format.h"
#include "server/config/config_option.h"
#include "server/config/name_reservation.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

absl::Status error_at(const std::string& origin, std::string_view what) {
  return wire::make_error(wire::ErrorCode::kInvalidArgument, fmt::format("{}: {}", origin, what));
}

std::string origin_of(const std::string& path, const toml::source_region& source) {
  return fmt::format("{}:{}", path, source.begin.line);
}

absl::Status unknown_key(const std::string& origin, std::string_view key) {
  std::vector<std::string> known;
  for (const Option& option : options()) known.emplace_back(option.name);
  return error_at(origin, fmt::format("unknown key '{}'.{}", key, suggestion_for(key, known)));
}

// What the file may say for an option of this kind.
std::string_view type_of(OptionKind kind) {
  switch (kind) {
    case OptionKind::kMode:
      return "an octal integer such as 0o660, or a string";
    case OptionKind::kBytes:
    case OptionKind::kSize:
      return "an integer, or a string such as \"2GiB\"";
    case OptionKind::kCount:
    case OptionKind::kSeconds:
      return "an integer";
    case OptionKind::kPath:
    case OptionKind::kMetrics:
    case OptionKind::kWord:
      break;
  }
  return "a string";
}

absl::Status wrong_type(const std::string& origin, const Option& option, std::string_view is) {
  return error_at(origin,
                  fmt::format("{} must be {}, not {}.", option.name, type_of(option.kind), is));
}

std::string_view name_of(toml::node_type type) {
  switch (type) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a decimal integer";
    case toml::node_type::floating_point:
      return "a fraction";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

// The value's text as a flag would have it, if its type suits the option.
std::optional<std::string> text_of(const Option& option, const toml::node& node) {
  const OptionKind kind = option.kind;
  if (const auto* text = node.as_string()) {
    if (kind == OptionKind::kCount || kind == OptionKind::kSeconds) return std::nullopt;
    return text->get();
  }
  const auto* integer = node.as_integer();
  if (integer == nullptr || kind == OptionKind::kPath || kind == OptionKind::kMetrics ||
      kind == OptionKind::kWord) {
    return std::nullopt;
  }
  if (kind != OptionKind::kMode) return fmt::format("{}", integer->get());
  // Whoever writes 660 means 0o660: only the literal's form tells.
  if ((integer->flags() & toml::value_flags::format_as_octal) == toml::value_flags::none) {
    return std::nullopt;
  }
  return fmt::format("{:o}", integer->get());
}

// Of a table that check_reservation() has seen.
absl::Status read_reservation(Source& source, const std::string& path, std::string_view pattern,
                              const toml::node& node) {
  const std::string origin = origin_of(path, node.source());
  const toml::table& holders = *node.as_table();
  const toml::node* const group = holders.get("group");
  const toml::node& holder = group != nullptr ? *group : *holders.get("owner");
  const auto* const name = holder.as_string();
  auto rule =
      reserve_names(pattern, group != nullptr,
                    name != nullptr ? name->get() : fmt::format("{}", holder.as_integer()->get()));
  if (!rule.ok()) return error_at(origin, wire::message_of(rule.status()));
  source.names.push_back({*std::move(rule), origin});
  return absl::OkStatus();
}

absl::Status read_key(Settings& settings, const std::string& path, std::string_view key,
                      const toml::node& node) {
  const std::string origin = origin_of(path, node.source());
  const Option* const option = find_option(key);
  if (option == nullptr) return unknown_key(origin, key);
  const auto text = text_of(*option, node);
  if (text) return add_setting(settings, *option, *text, origin);
  return wrong_type(origin, *option, name_of(node.type()));
}

// In neither a string, with which the value then begins, nor a comment.
bool has_bare_non_ascii(std::string_view value) {
  std::size_t at = 0;
  if (const char quote = value.empty() ? '\0' : value.front(); quote == '"' || quote == '\'') {
    for (at = 1; at < value.size() && value[at] != quote; ++at) {
      if (value[at] == '\\' && quote == '"') ++at;
    }
  }
  const std::string_view rest = value.substr(std::min(at, value.size()));
  const std::string_view bare = rest.substr(0, rest.find('#'));
  return std::any_of(bare.begin(), bare.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

constexpr std::string_view kKeyCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

// These take what they return, or say to be there, from the line's begin, and the blanks after it.
std::string_view take(std::string_view& line, std::string_view characters) {
  const std::string_view taken =
      line.substr(0, std::min(line.find_first_not_of(characters), line.size()));
  line.remove_prefix(taken.size());
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return taken;
}

bool take_text(std::string_view& line, std::string_view text) {
  if (!line.starts_with(text)) return false;
  line.remove_prefix(text.size());
  take(line, "");
  return true;
}

// Of printable ASCII, without escapes.
bool take_string(std::string_view& line) {
  const std::size_t end = line.starts_with('"') ? line.find('"', 1) : line.npos;
  if (end == line.npos) return false;
  const auto is_plain = [](char c) { return c >= 0x20 && c <= 0x7e && c != '\\'; };
  if (!std::ranges::all_of(line.substr(1, end - 1), is_plain)) return false;
  line.remove_prefix(end + 1);
  take(line, "");
  return true;
}

bool is_end(std::string_view line) { return line.empty() || line.front() == '#'; }

// A line of the table [names].
absl::Status check_reservation(const std::string& origin, std::string_view line) {
  bool right = take_string(line) && take_text(line, "=") && take_text(line, "{") &&
               (take_text(line, "owner") || take_text(line, "group")) && take_text(line, "=");
  right = right && (take_string(line) || !take(line, "0123456789").empty());
  if (right && take_text(line, "}") && is_end(line)) return absl::OkStatus();
  return error_at(origin,
                  "the line is not \"PATTERN\" = {owner = \"USER\"} or {group = \"GROUP\"}, as "
                  "all lines after [names] are.");
}

// Of TOML, a file of settings is lines of KEY = VALUE, and after these the table [names]. toml++
// gets nothing else: it ends the process at what can begin no key, "[," for one, and does anything
// at a bare character beyond ASCII.
absl::Status check_line(const std::string& origin, std::string_view line, bool& in_names) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  take(line, "");
  if (is_end(line)) return absl::OkStatus();
  if (in_names) return check_reservation(origin, line);
  if (std::string_view rest = line; take_text(rest, "[names]") && is_end(rest)) {
    in_names = true;
    return absl::OkStatus();
  }
  const std::string_view key = take(line, kKeyCharacters);
  if (key.empty() || !take_text(line, "=")) {
    return error_at(origin, "the line is not KEY = VALUE, such as idle_exit_s = 10.");
  }
  if (line.starts_with("\"\"\"") || line.starts_with("'''")) {
    return error_at(origin, "the string begins with three quotes; one line has room for it.");
  }
  if (has_bare_non_ascii(line)) {
    return error_at(origin, "a character beyond ASCII is outside quotes and comments.");
  }
  const bool is_array = line.starts_with('[');
  if (!is_array && !line.starts_with('{')) return absl::OkStatus();
  const Option* const option = find_option(key);
  if (option == nullptr) return unknown_key(origin, key);
  return wrong_type(origin, *option, is_array ? "an array" : "a table");
}

// Of a pipe or a device the end would not come.
absl::StatusOr<std::string> read_text(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return error_at(path, "this is not a regular file.");
  }
  std::ostringstream text;
  errno = 0;
  std::ifstream file(path);
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file && errno != 0) {
    return error_at(path, fmt::format("the file cannot be read: {}.", std::strerror(errno)));
  }
  return text.str();
}

absl::Status check_lines(const std::string& path, const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  bool in_names = false;
  for (int number = 1; std::getline(lines, line); ++number) {
    const absl::Status status = check_line(fmt::format("{}:{}", path, number), line, in_names);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Source> read_file(const std::string& path) {
  const auto text = read_text(path);
  if (!text.ok()) return text.status();
  return read_settings(*text, path);
}

absl::StatusOr<Source> read_settings(const std::string& text, const std::string& path) {
  if (absl::Status status = check_lines(path, text); !status.ok()) return status;
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const toml::source_region& source = error.source();
    const std::string where = source.begin.line > 0 ? origin_of(path, source) : path;
    return error_at(where, error.description());
  }
  Source source;
  absl::Status error;  // the first one of the file; a table is in the order of its keys
  toml::source_index error_line = 0;
  const auto note = [&](const absl::Status& status, const toml::node& node) {
    if (status.ok() || (!error.ok() && error_line < node.source().begin.line)) return;
    error = status;
    error_line = node.source().begin.line;
  };
  std::map<toml::source_index, std::pair<std::string_view, const toml::node*>> names;
  for (const auto& [key, node] : table) {
    if (const auto* const reserved = key == "names" ? node.as_table() : nullptr) {
      for (const auto& [pattern, rule] : *reserved) {
        names[rule.source().begin.line] = {pattern.str(), &rule};
      }
    } else {
      note(read_key(source.settings, path, key.str(), node), node);
    }
  }
  // In the order of the file, as of equal rules the first one counts.
  for (const auto& [line, entry] : names) {
    note(read_reservation(source, path, entry.first, *entry.second), *entry.second);
  }
  if (!error.ok()) return error;
  return source;
}

}  // namespace memlease::server
