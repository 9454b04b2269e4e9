// Reads the TOML file. The only unit that includes toml++.
#include <toml++/toml.h>

#include <algorithm>

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
    case OptionKind::kWord:
      break;
  }
  return "a string";
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
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
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
  if (integer == nullptr || kind == OptionKind::kPath || kind == OptionKind::kWord) {
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
  return error_at(origin, fmt::format("{} must be {}, not {}.", key, type_of(option->kind),
                                      name_of(node.type())));
}

}  // namespace

absl::StatusOr<Settings> read_file(const std::string& path) {
  toml::table table;
  try {
    table = toml::parse_file(path);
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
