#include "client/ctl/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace memlease::ctl {
namespace {

// The alternate screen, no cursor, no wrapping; and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Screen::Screen() {
  if (::tcgetattr(STDIN_FILENO, &before_) == 0) keys_ = STDIN_FILENO;
  enter();
}

Screen::~Screen() { leave(); }

void Screen::enter() {
  if (entered_) return;
  entered_ = true;
  if (keys_ >= 0) {
    termios at_once = before_;
    at_once.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C and Ctrl-Z are signals
    at_once.c_cc[VMIN] = 0;
    at_once.c_cc[VTIME] = 0;
    ::tcsetattr(keys_, TCSADRAIN, &at_once);
  }
  write_all(kEnter);
}

void Screen::leave() {
  if (!entered_) return;
  entered_ = false;
  write_all(kLeave);
  if (keys_ >= 0) ::tcsetattr(keys_, TCSADRAIN, &before_);
}

Screen::Size Screen::size() {
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_row == 0 ||
      window.ws_col == 0) {
    return {};
  }
  return {window.ws_row, window.ws_col};
}

bool Screen::draw(const std::vector<std::string>& lines) const {
  std::string frame = "\x1b[H";
  const std::size_t count = std::min(lines.size(), size().rows);
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) frame += "\r\n";
    frame.append("\x1b[K").append(lines[i]);  // behind a full line it would take the last character
  }
  return write_all(frame.append("\x1b[J"));
}

bool Screen::read_keys(std::string& keys) const {
  std::array<char, 64> bytes{};
  const ssize_t count = ::read(keys_, bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  keys.assign(bytes.data(), static_cast<std::size_t>(count));
  return count > 0;
}

}  // namespace memlease::ctl
