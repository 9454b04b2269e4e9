// A terminal as long as a program fills it: the alternate screen without a cursor, keys at once and
// unseen. Its end gives back the terminal as it was, however the program comes to that. Not
// thread-safe.
#pragma once

#include <termios.h>

#include <cstddef>
#include <string>
#include <vector>

namespace memlease::ctl {

class Screen {
 public:
  // Of standard output, which is a terminal; keys come where standard input is one, too.
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  struct Size {
    std::size_t rows = 24;
    std::size_t columns = 80;
  };
  // Asked of the terminal each time: windows change.
  static Size size();
  // From the top; what does not fit is left out. False: the terminal has gone.
  bool draw(const std::vector<std::string>& lines) const;
  // Where keys come from; -1: from nowhere.
  int keys() const { return keys_; }
  // Those that have been pressed. False: the terminal has gone.
  bool read_keys(std::string& keys) const;

  // While the program is stopped the terminal is the shell's.
  void leave();
  void enter();

 private:
  bool entered_ = false;
  int keys_ = -1;
  termios before_{};
};

}  // namespace memlease::ctl
