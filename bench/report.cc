#include "bench/report.h"

#include <algorithm>
#include <cstdio>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace memlease::bench {

double percentile(std::vector<double>& samples, double fraction) {
  const auto at = samples.begin() +
                  static_cast<std::ptrdiff_t>(fraction * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

void Report::add_distribution(const std::string& series, std::vector<double> samples_ns) {
  add(series + ".p50", percentile(samples_ns, 0.5));
  add(series + ".p99", percentile(samples_ns, 0.99));
}

// Keys and notes are our own words, without characters that JSON would escape.
void Report::print() const {
  std::vector<std::string> series;
  for (const auto& [name, values] : series_) {
    series.push_back(fmt::format("    \"{}\": [{:.5g}]", name, fmt::join(values, ", ")));
  }
  std::vector<std::string> notes;
  for (const auto& [key, value] : notes_) {
    notes.push_back(fmt::format("    \"{}\": \"{}\"", key, value));
  }
  std::puts(fmt::format("{{\n  \"program\": \"{}\",\n  \"series_ns\": {{\n{}\n  }},\n"
                        "  \"notes\": {{\n{}\n  }}\n}}",
                        program_, fmt::join(series, ",\n"), fmt::join(notes, ",\n"))
                .c_str());
}

}  // namespace memlease::bench
