// Where the log's lines go. Nobody waits for whoever reads them: a line for which there is no room,
// in a pipe that nobody empties, say, is dropped and counted. Not thread-safe.
#pragma once

#include <limits.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace memlease::server {

class LogSink {
 public:
  // The descriptor stays the caller's.
  explicit LogSink(int fd) : fd_(fd) {}

  // From now on `fd` is the file at `path`. One that has grown to max_bytes becomes `path`.1, in
  // the place of an older one, and `fd` a new file. Where that cannot be done its lines go, and it
  // begins anew.
  void bound(const std::string& path, std::uint64_t max_bytes);
  // If somebody has moved that file away, `fd` becomes a new one at its path.
  void reopen();

  // More may not find room in a pipe where poll(2) says that there is some, nor come out of it in
  // one piece.
  static constexpr std::size_t kMostBytes = PIPE_BUF;

  // With its newline, by one write(2), so that lines of several processes do not mix. A line that
  // is longer than kMostBytes ends in "..." there, and its newline; so does one that did not find
  // room, in a terminal, as soon as there is some.
  void write(std::string line);
  bool has_room() const;

  struct Dropped {
    std::uint64_t lines = 0;
    int reason = 0;  // why a file did not take the last one, an errno; 0: nobody took it
  };
  // Lines lost since the last call.
  Dropped take_dropped();
  // The line that was to tell of these has just been written. If it was lost itself, they are yet
  // to be told of, and it does not count.
  void told_of(const Dropped& dropped);

 private:
  // What write(2) says; where that is less than all, errno says why a file did not take the rest,
  // and else 0.
  ssize_t write_what_fits(std::string_view text) const;
  void begin_new_file();
  bool take_new_file();

  const int fd_;
  Dropped dropped_;
  bool torn_ = false;  // the last line
  std::string path_;   // "": not bounded
  std::uint64_t max_bytes_ = 0;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace memlease::server
