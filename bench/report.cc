#include "bench/report.h"

#include <cstdio>

#include "bench/timing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace memlease::bench {

void Report::add_distribution(const std::string& series, std::vector<double> samples) {
  add(series + ".p50", percentile(samples, 0.5));
  add(series + ".p99", percentile(samples, 0.99));
}

// Keys and notes are our own words, without characters that JSON would escape.
void Report::print() const {
  std::vector<std::string> series;
  series.reserve(series_.size());
  for (const auto& [name, values] : series_) {
    series.push_back(fmt::format("    \"{}\": [{:.5g}]", name, fmt::join(values, ", ")));
  }
  std::vector<std::string> notes;
  notes.reserve(notes_.size());
  for (const auto& [key, value] : notes_) {
    notes.push_back(fmt::format("    \"{}\": \"{}\"", key, value));
  }
  std::puts(fmt::format("{{\n  \"program\": \"{}\",\n  \"series\": {{\n{}\n  }},\n"
                        "  \"notes\": {{\n{}\n  }}\n}}",
                        program_, fmt::join(series, ",\n"), fmt::join(notes, ",\n"))
                .c_str());
  std::fflush(stdout);  // whoever prints may be a child, which ends without
}

}  // namespace memlease::bench
