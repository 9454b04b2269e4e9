// What a command answers: rows of cells under named columns, written as a table, as "key value"
// lines or as JSON, so that a value is named once and the three never differ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/cell.h"

namespace memlease::ctl {

struct Column {
  std::string_view key;    // in JSON; stable. Empty: not there
  std::string_view title;  // in tables. Empty: not there
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

// Aligned columns under a line of titles, numbers to the right; the titles alone without rows.
std::string as_text(const Table& table, const Style& style);
// "Title   value" for each column of a table's only row.
std::string as_lines(const Table& record, const Style& style);
// {"key": [{...}, ...]}
std::string as_json(const Table& table);
// {...} of a table's only row, and `nested` tables as members of it.
std::string as_json_object(const Table& record, const std::vector<Table>& nested = {});

}  // namespace memlease::ctl
