/// What one rank did: when each version was published, and in which pages. For the demo's summary.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tsunami {

/// "device:inode:offset" of the page behind an address, as every process on the machine sees it:
/// two processes that print the same look at the same bytes, whatever anybody's counters say.
/// Throws std::runtime_error if nothing is mapped there.
std::string page_of(const void* address);

/// Not thread-safe.
class Record {
 public:
  /// A version was published just now. `bytes` is where it begins in host memory; null for one
  /// that is on a GPU, whose memory has no pages.
  void note(const void* bytes);

  /// Writes FOLDER/rank<rank>.json; `copies` as memlease counted them. Throws std::runtime_error.
  void save(const std::string& folder, int rank, std::uint64_t copies) const;

 private:
  std::vector<double> times_s_;  // of the steady clock, which all processes share
  std::set<const void*> known_;  // addresses whose pages are known
  std::set<std::string> pages_;
};

}  // namespace tsunami
