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

// Of TOML, a file of settings is lines of KEY = VALUE alone. toml++ gets nothing else: it ends the
// process at what can begin no key, "[," for one, and does anything at a bare character beyond
// ASCII.
absl::Status check_line(const std::string& origin, std::string_view line) {
  constexpr std::string_view kBlank = " \t";
  constexpr std::string_view kKey =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto skip = [&line](std::string_view characters) {
    const std::size_t end = std::min(line.find_first_not_of(characters), line.size());
    const std::string_view skipped = line.substr(0, end);
    line.remove_prefix(end);
    return skipped;
  };
  skip(kBlank);
  if (line.empty() || line.front() == '#') return absl::OkStatus();
  const std::string_view key = skip(kKey);
  skip(kBlank);
  if (key.empty() || !line.starts_with('=')) {
    return error_at(origin, "the line is not KEY = VALUE, such as idle_exit_s = 10.");
  }
  line.remove_prefix(1);
  skip(kBlank);
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
  for (int number = 1; std::getline(lines, line); ++number) {
    const absl::Status status = check_line(fmt::format("{}:{}", path, number), line);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Settings> read_file(const std::string& path) {
  const auto text = read_text(path);
  if (!text.ok()) return text.status();
  return read_settings(*text, path);
}

absl::StatusOr<Settings> read_settings(const std::string& text, const std::string& path) {
  if (absl::Status status = check_lines(path, text); !status.ok()) return status;
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const toml::source_region& source = error.source();
    const std::string where = source.begin.line > 0 ? origin_of(path, source) : path;
    return error_at(where, error.description());
  }
  Settings settings;
  absl::Status error;  // the first one of the file; the table is in the order of its keys
  toml::source_index error_line = 0;
  for (const auto& [key, node] : table) {
    const absl::Status status = read_key(settings, path, key.str(), node);
    if (status.ok() || (!error.ok() && error_line < node.source().begin.line)) continue;
    error = status;
    error_line = node.source().begin.line;
  }
  if (!error.ok()) return error;
  return settings;
}

}  // namespace memlease::server
