#include "tests/support/watcher.h"

#include "fmt/format.h"
#include "tests/support/pattern.h"

namespace memlease::testing {

Watcher::Watcher(const Array& array) : array_(array), thread_([this] { read_on(); }) {}

Watcher::~Watcher() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

Watched Watcher::stop() {
  stop_.store(true);
  thread_.join();
  return watched_;
}

void Watcher::read_on() {
  ReadOptions options;
  options.timeout = std::chrono::milliseconds(20);
  do {  // at least once, however short the watch
    // Now the current version at once, now a newer one with a wait.
    options.newer_than = watched_.reads % 2 == 0 ? 0 : watched_.last_version;
    try {
      ReadLease lease = array_.read(options);
      ++watched_.reads;
      watched_.wrong = look_at(lease);
      lease.release();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::ProducerDied || error.code() == ErrorCode::WriteAborted) {
        ++watched_.died;
      } else if (error.code() != ErrorCode::Timeout) {
        watched_.wrong = error.what();
      }
      ++watched_.reads;  // the other kind of read is next
    }
  } while (!stop_.load() && watched_.wrong.empty());
}

std::string Watcher::look_at(const ReadLease& lease) {
  const Pattern pattern(static_cast<std::uint64_t*>(const_cast<void*>(lease.data())),
                        array_.size_bytes() / 8);
  const std::uint64_t version = lease.version();
  const std::uint64_t writer = pattern.writer();
  if (std::string wrong = pattern.wrong(version); !wrong.empty()) return wrong;
  if (version < watched_.last_version) {
    return fmt::format("version {} came after {}", version, watched_.last_version);
  }
  if (version == watched_.last_version && writer != last_writer_) {
    return fmt::format("version {} was used by pid {} and again by pid {}", version, last_writer_,
                       writer);
  }
  watched_.last_version = version;
  last_writer_ = writer;
  return "";
}

}  // namespace memlease::testing
