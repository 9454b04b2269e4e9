#include "server/config/subordinate_uids.h"

#include <pwd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string_view>

#include "server/config/to_number.h"

namespace memlease::server {
namespace {

std::optional<uid_t> user_named(const std::string& name) {
  if (const auto uid = to_number<uid_t>(name)) return uid;
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> text{};
  getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
  return found == nullptr ? std::nullopt : std::optional(found->pw_uid);
}

}  // namespace

std::vector<SubordinateUids> subordinate_uids(std::istream& file) {
  std::vector<SubordinateUids> all;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first_at = line.find(':');
    const std::size_t count_at =
        first_at == std::string::npos ? first_at : line.find(':', first_at + 1);
    if (count_at == std::string::npos) continue;
    const std::string_view text = line;
    const auto first = to_number<uid_t>(text.substr(first_at + 1, count_at - first_at - 1));
    const auto count = to_number<std::uint32_t>(text.substr(count_at + 1));
    if (!first || !count) continue;
    if (const auto user = user_named(line.substr(0, first_at))) {
      all.push_back({*user, *first, *count});
    }
  }
  return all;
}

std::vector<SubordinateUids> read_subordinate_uids(const std::string& path) {
  std::ifstream file(path);
  return subordinate_uids(file);
}

}  // namespace memlease::server
