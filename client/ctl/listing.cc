#include "client/ctl/listing.h"

#include <cstdio>

namespace memlease::ctl {
namespace {

void write_out(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

Listing::Listing(std::string_view key, const std::vector<Column>& columns, const Options& options)
    : json_(options.json), objects_(key, columns), lines_(columns, options.style) {}

void Listing::add(const std::vector<Row>& rows) {
  if (json_) {
    write_out(objects_.add(rows));
  } else {
    lines_.take(rows);
  }
}

void Listing::end() { write_out(json_ ? objects_.end() : lines_.flush()); }

void print(const Table& table, const Options& options) {
  Listing listing(table.key, table.columns, options);
  listing.add(table.rows);
  listing.end();
}

}  // namespace memlease::ctl
