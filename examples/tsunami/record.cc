#include "record.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace tsunami {

std::string page_of(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::uint64_t offset = 0;
    char device[32] = {};
    std::uint64_t inode = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNx64 " %31s %" SCNu64, &begin,
                    &end, &offset, device, &inode) == 5 &&
        wanted >= begin && wanted < end) {
      return std::string(device) + ":" + std::to_string(inode) + ":" +
             std::to_string(offset + (wanted - begin));
    }
  }
  throw std::runtime_error("an address of a lease is in no mapping of /proc/self/maps");
}

void Record::note(const void* bytes) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  times_s_.push_back(std::chrono::duration<double>(now).count());
  // One look for each slot: a slot's page never changes while the array is open.
  if (bytes != nullptr && known_.insert(bytes).second) pages_.insert(page_of(bytes));
}

void Record::save(const std::string& folder, int rank, std::uint64_t copies) const {
  const std::string number = std::to_string(rank);
  const std::string path = folder + "/rank" + number + ".json";
  std::ofstream file(path);
  file.precision(17);
  file << "{\"name\": \"rank " << number << "\", \"versions\": " << times_s_.size()
       << ", \"copies\": " << copies << ", \"pages\": {\"" << number << "\": [";
  const char* separator = "";
  for (const std::string& page : pages_) {
    file << separator << '"' << page << '"';
    separator = ", ";
  }
  file << "]}, \"times_s\": [";
  separator = "";
  for (const double time : times_s_) {
    file << separator << time;
    separator = ", ";
  }
  file << "]}\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path + ": is --report a folder?");
}

}  // namespace tsunami
