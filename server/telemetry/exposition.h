// The text format of Prometheus, version 0.0.4, in which the daemon tells its metrics: a text that
// grows by one metric after the other. Not thread-safe. docs/decisions/0025-metrics-by-hand.md says
// why no library writes it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace memlease::server {

class Exposition {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  enum class Type { kCounter, kGauge, kHistogram };
  struct Bucket {
    double at_most = 0;
    std::uint64_t count = 0;  // of this bucket alone
  };

  // The metric that the samples behind it belong to. Names, and what counts for them, by
  // https://prometheus.io/docs/practices/naming/.
  void metric(std::string_view name, Type type, std::string_view help);
  void sample(const Labels& labels, std::uint64_t value);
  void sample(const Labels& labels, double value);
  // `beyond`: how many are in no bucket.
  void histogram(const Labels& labels, std::span<const Bucket> buckets, std::uint64_t beyond,
                 double sum);

  const std::string& text() const { return text_; }

 private:
  void line(std::string_view suffix, const Labels& labels, std::string_view le,
            std::string_view value);

  std::string text_;
  std::string name_;
};

}  // namespace memlease::server
