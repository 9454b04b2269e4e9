#include "wire/process_stat.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "wire/unique_fd.h"

namespace memlease::wire {

std::optional<ProcessStat> ProcessStat::of(pid_t pid) {
  const std::string who = pid == 0 ? "self" : std::to_string(pid);
  const UniqueFd file(::open(fmt::format("/proc/{}/stat", who).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 2'048> line;  // the name, and some fifty numbers
  const ssize_t size = file ? ::read(file.get(), line.data(), line.size()) : -1;
  std::string_view rest(line.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  // The second field, in parentheses, may have any characters.
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || rest.size() < name_end + 4) return std::nullopt;
  rest.remove_prefix(name_end + 3);  // with the state, a letter
  ProcessStat stat;
  for (std::uint64_t& field : stat.fields_) {
    if (!rest.starts_with(' ')) return std::nullopt;
    rest.remove_prefix(1);
    std::from_chars(rest.data(), rest.data() + rest.size(), field);
    rest.remove_prefix(std::min(rest.size(), rest.find(' ')));
  }
  return stat;
}

}  // namespace memlease::wire
