#include "client/ctl/table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace memlease::ctl {
namespace {

constexpr std::string_view kGap = "  ";

std::string bold(std::string text, const Style& style) {
  return style.color ? "\x1b[1m" + std::move(text) + "\x1b[0m" : text;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string members(const std::vector<Column>& columns, const Row& row) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].key.empty()) continue;
    parts.push_back(fmt::format("{}: {}", json_string(columns[i].key), to_json(row[i])));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string array_of(const Table& table) {
  std::vector<std::string> objects;
  objects.reserve(table.rows.size());
  for (const Row& row : table.rows) objects.push_back("{" + members(table.columns, row) + "}");
  return fmt::format("{}: [{}]", json_string(table.key), fmt::join(objects, ", "));
}

}  // namespace

std::string spell(const Cell& cell, const Style& style) {
  return style.human ? to_human(cell, style.now_ms) : to_plain(cell);
}

bool is_number(const Cell& cell) {
  return std::holds_alternative<std::uint64_t>(cell) ||
         std::holds_alternative<std::int64_t>(cell) || std::holds_alternative<Bytes>(cell) ||
         std::holds_alternative<Limit>(cell) || std::holds_alternative<Pid>(cell) ||
         std::holds_alternative<Rate>(cell) || std::holds_alternative<BytesRate>(cell) ||
         std::holds_alternative<Seconds>(cell);
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string padded(std::string_view text, std::size_t width, bool right) {
  const std::string fill(width - std::min(width, width_of(text)), ' ');
  return right ? fill + std::string(text) : std::string(text) + fill;
}

Lines::Lines(std::vector<Column> columns, const Style& style, std::vector<std::size_t> widths)
    : columns_(std::move(columns)),
      style_(style),
      widths_(std::move(widths)),
      right_(columns_.size()) {
  widths_.resize(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths_[i] = std::max(widths_[i], width_of(columns_[i].title));
    right_[i] = columns_[i].number;
  }
}

std::string Lines::add(const std::vector<Row>& rows) {
  std::vector<std::string> lines(rows.size());
  std::string titles;
  bool first = true;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string_view title = columns_[i].title;
    if (title.empty()) continue;
    std::vector<std::string> texts;
    for (const Row& row : rows) {
      texts.push_back(spell(row[i], style_));
      widths_[i] = std::max(widths_[i], width_of(texts.back()));
      right_[i] = right_[i] || is_number(row[i]);
    }
    const std::string_view gap = std::exchange(first, false) ? "" : kGap;
    titles.append(gap).append(padded(title, widths_[i], right_[i]));
    for (std::size_t r = 0; r < lines.size(); ++r) {
      lines[r].append(gap).append(padded(texts[r], widths_[i], right_[i]));
    }
  }
  std::string out;
  if (!std::exchange(titled_, true)) out = bold(trimmed(std::move(titles)), style_) + '\n';
  for (std::string& line : lines) out += trimmed(std::move(line)) + '\n';
  return out;
}

std::string as_text(const Table& table, const Style& style) {
  return Lines(table.columns, style).add(table.rows);
}

std::string as_lines(const Table& record, const Style& style) {
  assert(record.rows.size() == 1);
  std::size_t width = 0;
  for (const Column& column : record.columns) width = std::max(width, column.title.size());
  std::string out;
  for (std::size_t i = 0; i < record.columns.size(); ++i) {
    const std::string_view title = record.columns[i].title;
    if (title.empty()) continue;
    out += bold(padded(title, width, false), style);
    out += fmt::format("{}{}\n", kGap, spell(record.rows[0][i], style));
  }
  return out;
}

std::string as_json(const Table& table) { return "{" + array_of(table) + "}\n"; }

std::string as_json_object(const Table& record, const std::vector<Table>& nested) {
  assert(record.rows.size() == 1);
  std::string out = "{" + members(record.columns, record.rows[0]);
  for (const Table& table : nested) out += ", " + array_of(table);
  return out + "}\n";
}

}  // namespace memlease::ctl
