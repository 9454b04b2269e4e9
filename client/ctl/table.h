// What a command answers: rows of cells under named columns, written as a table, as "key value"
// lines or as JSON, so that a value is named once and the three never differ.
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
  // The rows, and the titles above the first ones.
  std::string add(const std::vector<Row>& rows);

 private:
  const std::vector<Column> columns_;
  const Style style_;
  std::vector<std::size_t> widths_;
  std::vector<bool> right_;  // numbers
  bool titled_ = false;
};

// Aligned columns under a line of titles, numbers to the right; the titles alone without rows.
std::string as_text(const Table& table, const Style& style);
// "Title   value" for each column of a table's only row.
std::string as_lines(const Table& record, const Style& style);
// {"key": [{...}, ...]}
std::string as_json(const Table& table);
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
