#include "client/ctl/table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "fmt/format.h"

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

void append_members(std::string& out, const std::vector<Column>& columns, const Row& row) {
  bool first = true;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].key.empty()) continue;
    if (!std::exchange(first, false)) out += ", ";
    out.append(json_string(columns[i].key)).append(": ").append(to_json(row[i]));
  }
}

// "key": [{...}, ...
std::string begin_list(std::string_view key) { return json_string(key) + ": ["; }

void append_objects(std::string& out, const std::vector<Column>& columns,
                    const std::vector<Row>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += i == 0 ? "{" : ", {";
    append_members(out, columns, rows[i]);
    out += '}';
  }
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
    : style_(style) {
  widths.resize(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string_view title = columns[i].title;
    if (title.empty()) continue;
    shown_.push_back({i, title, std::max(widths[i], width_of(title)), columns[i].number});
  }
}

void Lines::take(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    for (Shown& shown : shown_) {
      const Cell& cell = row[shown.column];
      const std::string text = spell(cell, style_);
      shown.width = std::max(shown.width, width_of(text));
      shown.right = shown.right || is_number(cell);
      texts_ += text;
      ends_.push_back(texts_.size());
    }
  }
}

void Lines::append_cell(std::string& line, std::size_t place, std::string_view text) const {
  const Shown& shown = shown_[place];
  if (place != 0) line += kGap;
  const std::size_t blanks = shown.width - width_of(text);
  if (shown.right) line.append(blanks, ' ');
  line += text;
  if (!shown.right) line.append(blanks, ' ');
}

std::string Lines::flush() {
  std::string out;
  std::string line;
  if (!std::exchange(titled_, true)) {
    for (std::size_t i = 0; i < shown_.size(); ++i) append_cell(line, i, shown_[i].title);
    out = bold(trimmed(std::move(line)), style_) + '\n';
  }
  std::size_t begin = 0;
  for (std::size_t cell = 0; cell < ends_.size();) {
    const std::size_t line_begin = out.size();
    for (std::size_t i = 0; i < shown_.size(); ++i, ++cell) {
      append_cell(out, i, std::string_view(texts_).substr(begin, ends_[cell] - begin));
      begin = ends_[cell];
    }
    out.resize(std::max(line_begin, out.find_last_not_of(' ') + 1));
    out += '\n';
  }
  texts_.clear();
  ends_.clear();
  return out;
}

JsonList::JsonList(std::string_view key, std::vector<Column> columns)
    : key_(key), columns_(std::move(columns)) {}

std::string JsonList::add(const std::vector<Row>& rows) {
  std::string out;
  if (rows.empty()) return out;
  out = rows_ == 0 ? "{" + begin_list(key_) : ", ";
  append_objects(out, columns_, rows);
  rows_ += rows.size();
  return out;
}

std::string JsonList::end() { return (rows_ == 0 ? "{" + begin_list(key_) : "") + "]}\n"; }

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

std::string as_json_object(const Table& record, const std::vector<Table>& nested) {
  assert(record.rows.size() == 1);
  std::string out = "{";
  append_members(out, record.columns, record.rows[0]);
  for (const Table& table : nested) {
    out += ", " + begin_list(table.key);
    append_objects(out, table.columns, table.rows);
    out += ']';
  }
  return out + "}\n";
}

}  // namespace memlease::ctl
