#include "server/channel/command_lines.h"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace memlease::server {

CommandLines::CommandLines(Look look, std::chrono::milliseconds pause, Look name)
    : lines_(std::move(look), pause), names_(std::move(name), pause) {}

std::string CommandLines::of(pid_t pid) {
  const auto line = lines_.at(pid);
  return line && !line->empty() ? *line : name_of(pid);
}

std::string CommandLines::name_of(pid_t pid) { return names_.at(pid).value_or(""); }

// The kernel's own record: read without a lock of the process.
std::string CommandLines::read_name(pid_t pid) {
  std::string name;
  std::ifstream stream(fmt::format("/proc/{}/comm", pid));
  std::getline(stream, name);
  return printable(std::move(name));
}

std::string CommandLines::read_command_line(pid_t pid) {
  std::string arguments(kMostBytes + 1, '\0');
  std::ifstream stream(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  stream.read(arguments.data(), static_cast<std::streamsize>(arguments.size()));
  arguments.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return printable(std::move(arguments));
}

std::string CommandLines::printable(std::string arguments) {
  constexpr std::string_view kEnd = "...";
  while (!arguments.empty() && arguments.back() == '\0') arguments.pop_back();
  std::string out;
  for (const char c : arguments) {
    const auto byte = static_cast<unsigned char>(c);
    const std::string shown = c == '\0'              ? " "
                              : c >= ' ' && c <= '~' ? std::string(1, c)
                                                     : fmt::format("\\x{:02x}", byte);
    if (out.size() + shown.size() > kMostBytes) {
      out.resize(std::min(out.size(), kMostBytes - kEnd.size()));
      return out.append(kEnd);
    }
    out += shown;
  }
  return out;
}

}  // namespace memlease::server
