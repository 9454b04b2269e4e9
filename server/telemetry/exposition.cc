#include "server/telemetry/exposition.h"

#include "fmt/format.h"

namespace memlease::server {
namespace {

std::string_view name_of(Exposition::Type type) {
  switch (type) {
    case Exposition::Type::kCounter:
      return "counter";
    case Exposition::Type::kGauge:
      return "gauge";
    case Exposition::Type::kHistogram:
      break;
  }
  return "histogram";
}

// A line's end would end the sample, and a quote the value.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

void Exposition::metric(std::string_view name, Type type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, name_of(type));
}

void Exposition::sample(const Labels& labels, std::uint64_t value) {
  line("", labels, "", fmt::format("{}", value));
}

void Exposition::sample(const Labels& labels, double value) {
  line("", labels, "", fmt::format("{}", value));
}

void Exposition::histogram(const Labels& labels, std::span<const Bucket> buckets,
                           std::uint64_t beyond, double sum) {
  std::uint64_t count = 0;
  for (const Bucket& bucket : buckets) {
    count += bucket.count;
    line("_bucket", labels, fmt::format("{}", bucket.at_most), fmt::format("{}", count));
  }
  count += beyond;
  line("_bucket", labels, "+Inf", fmt::format("{}", count));
  line("_sum", labels, "", fmt::format("{}", sum));
  line("_count", labels, "", fmt::format("{}", count));
}

void Exposition::line(std::string_view suffix, const Labels& labels, std::string_view le,
                      std::string_view value) {
  text_ += name_;
  text_ += suffix;
  std::string_view separator = "{";
  const auto add = [&](std::string_view name, std::string_view of) {
    text_ += fmt::format("{}{}=\"{}\"", separator, name, escaped(of));
    separator = ",";
  };
  for (const auto& [name, of] : labels) add(name, of);
  if (!le.empty()) add("le", le);
  if (separator == ",") text_ += '}';
  text_ += fmt::format(" {}\n", value);
}

}  // namespace memlease::server
