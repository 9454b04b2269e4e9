// Lists that come from the daemon page by page.
#pragma once

#include <future>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ctl/connection.h"
#include "client/ctl/table.h"

namespace memlease::ctl {

// A list's column, and where its cells come from.
template <typename... From>
struct Field {
  std::string_view key;  // as Column has them
  std::string_view title;
  std::string_view long_title;  // in the lines of one record. Empty: not there
  Cell (*cell_of)(const From&... from);
};

// Prints a table whose rows come in parts: JSON as it comes, text when all is there, since its
// columns are as wide as the widest cell.
class Listing {
 public:
  Listing(std::string_view key, const std::vector<Column>& columns, const Options& options);
  void add(const std::vector<Row>& rows);
  void end();

 private:
  const bool json_;
  JsonList objects_;
  Lines lines_;
};

void print(const Table& table, const Options& options);

// Calls `show` with one page after the other. Meanwhile the next one is on its way: `ask` is called
// with its place on another thread.
template <typename Reply, typename Ask, typename Show>
absl::Status for_each_page(Ask ask, Show show) {
  absl::StatusOr<Reply> page = ask(std::string());
  for (;;) {
    if (!page.ok()) return page.status();
    std::future<absl::StatusOr<Reply>> next;
    if (!page->next().empty()) next = std::async(ask, page->next());
    const absl::Status shown = show(*page);
    if (!next.valid()) return shown;
    page = next.get();
    if (!shown.ok()) return shown;
  }
}

}  // namespace memlease::ctl
