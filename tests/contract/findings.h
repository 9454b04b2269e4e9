// What a contract's checks have found, in words.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace memlease::testing {

class Findings {
 public:
  void expect(bool kept, std::string otherwise) {
    if (!kept) found_.push_back(std::move(otherwise));
  }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

}  // namespace memlease::testing
