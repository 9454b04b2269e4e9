// What a benchmark program has measured: named series of one value per block, written as JSON to
// standard output for bench/run.py. Blocks are interleaved, so that value i of every series was
// measured under the same conditions and the ratio of two series is formed block by block.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace memlease::bench {

class Report {
 public:
  explicit Report(std::string program) : program_(std::move(program)) {}

  // Appends the value of the next block: nanoseconds, unless the goal that reads it says bytes.
  void add(const std::string& series, double value) { series_[series].push_back(value); }
  // Appends the median and the 99th percentile as <series>.p50 and <series>.p99.
  void add_distribution(const std::string& series, std::vector<double> samples);
  // A remark on the run, such as the number of processes.
  void note(const std::string& key, const std::string& value) { notes_[key] = value; }

  void print() const;

 private:
  const std::string program_;
  std::map<std::string, std::vector<double>> series_;
  std::map<std::string, std::string> notes_;
};

}  // namespace memlease::bench
