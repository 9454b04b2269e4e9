// What a command answers: rows of cells under named columns, written as a table, as "key value"
// lines or as JSON, so that a value is named once and the three never differ. Values and pure
// functions; Lines and JsonList are not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/cell.h"

namespace memlease::ctl {

struct Column {
  std::string_view key;    // in JSON; stable. Empty: not there
  std::string_view title;  // in tables. Empty: not there
  bool number = false;     // of a column whose first rows may be empty: right from the start
};

using Row = std::vector<Cell>;  // one cell per column

struct Table {
  std::string_view key;  // of the array of rows, in JSON
  std::vector<Column> columns;
  std::vector<Row> rows;
};

// How text is written.
struct Style {
  bool human = false;  // rounded sizes and ages, for a terminal
  bool color = false;
  std::uint64_t now_ms = 0;
};

// Lines whose rows come one after the other, under one line of titles: a column is as wide as what
// has come so far.
class Lines {
 public:
  // `widths`: that columns have at least.
  Lines(std::vector<Column> columns, const Style& style, std::vector<std::size_t> widths = {});
  // Keeps the rows, as they are spelt, for the next flush().
  void take(const std::vector<Row>& rows);
  // The rows that have been taken, and the titles above the first ones.
  std::string flush();
  std::string add(const std::vector<Row>& rows) {
    take(rows);
    return flush();
  }

 private:
  struct Shown {
    std::size_t column = 0;  // of a row
    std::string_view title;
    std::size_t width = 0;
    bool right = false;  // numbers
  };
  void append_cell(std::string& line, std::size_t place, std::string_view text) const;

  const Style style_;
  std::vector<Shown> shown_;
  bool titled_ = false;
  std::string texts_;  // of the cells that are shown, one behind the other
  std::vector<std::size_t> ends_;
};

// The objects of a table likewise: {"key": [{...}, ...]}.
class JsonList {
 public:
  JsonList(std::string_view key, std::vector<Column> columns);
  // What comes next of the text.
  std::string add(const std::vector<Row>& rows);
  std::string end();

 private:
  const std::string_view key_;
  const std::vector<Column> columns_;
  std::size_t rows_ = 0;
};

// Aligned columns under a line of titles, numbers to the right; the titles alone without rows.
std::string as_text(const Table& table, const Style& style);
// "Title   value" for each column of a table's only row.
std::string as_lines(const Table& record, const Style& style);
// {...} of a table's only row, and `nested` tables as members of it.
std::string as_json_object(const Table& record, const std::vector<Table>& nested = {});

// Characters, as far as a terminal's column is one character wide.
std::size_t width_of(std::string_view text);
// With blanks, up to the width.
std::string padded(std::string_view text, std::size_t width, bool right);
// As the style wants it.
std::string spell(const Cell& cell, const Style& style);
// Belongs to the right of its column.
bool is_number(const Cell& cell);

}  // namespace memlease::ctl
