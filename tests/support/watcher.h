// A bystander: reads an array all the time in a thread of its own, and checks what it gets.
#pragma once

#include <memlease/array.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace memlease::testing {

struct Watched {
  std::uint64_t reads = 0;
  std::uint64_t last_version = 0;
  std::uint64_t died = 0;  // times that it was told of a dead writer (slots=1)
  std::string wrong;       // the first thing that must not happen; "" = nothing did
};

class Watcher {
 public:
  explicit Watcher(const Array& array);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Throws nothing; call once.
  Watched stop();

 private:
  void read_on();
  // What is wrong with this lease, beside those before.
  std::string look_at(const ReadLease& lease);

  Array array_;
  Watched watched_;
  std::uint64_t last_writer_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace memlease::testing
