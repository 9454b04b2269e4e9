// The core's ports to memory, as plain objects of this process: pages are bytes that daemon and
// clients share, segments are a number of bytes, a descriptor is a count. Nothing calls the kernel,
// so that a run is fast and the same each time. Refuses calls, and lies, when it is told to. Not
// thread-safe; outlives what it makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/core/access.h"
#include "server/core/device_backend.h"
#include "server/core/page_source.h"
#include "server/core/shared_memory.h"

namespace memlease::simulation {

class PlainMemory final : public server::DeviceBackend, public server::PageSource {
 public:
  // As the kernel has it: it stays for whoever has it mapped after the daemon let it go, empty if
  // that has revoked it.
  struct File {
    bool segment = false;
    std::uint64_t size_bytes = 0;
    std::vector<std::uint64_t> words;  // of pages
    bool open_in_daemon = true;
    bool exported_writable = false;
    // As the daemon's books say, once somebody has looked: whose arrays it is for, and who alone
    // may write it.
    std::optional<server::AccessDomain> domain;
    wire::SessionId owner{0};

    std::byte* bytes() { return reinterpret_cast<std::byte*>(words.data()); }
  };
  struct Export {
    std::shared_ptr<File> file;
    bool writable = false;
  };
  // What the daemon has open.
  struct Live {
    std::uint64_t files = 0;
    std::uint64_t segment_bytes = 0;
    friend bool operator==(const Live&, const Live&) = default;
  };

  std::string device() const override { return "host"; }
  SegmentSizes segment_sizes() const override { return {kFirstSegment, 8 * kFirstSegment, 4096}; }
  std::uint64_t alignment_bytes(std::uint64_t size_bytes) const override {
    return size_bytes > 4096 ? 4096 : 256;
  }
  absl::StatusOr<std::unique_ptr<server::SharedMemory>> create_segment(
      std::uint64_t size_bytes, wire::ReserveKept kept) override;
  absl::StatusOr<std::unique_ptr<server::SharedMemory>> create_pages(
      std::uint64_t size_bytes, bool daemon_writes, wire::ReserveKept kept) override;
  absl::Status has_room(std::uint64_t /*bytes*/) override { return absl::OkStatus(); }

  // Of the calls from now on, the nth fails (1 = the next one); a file that is handed out counts.
  void refuse(std::uint64_t nth) { refused_ = calls_ + nth; }
  void never_refuse() { refused_ = 0; }
  // Segments have half of what was asked for: a driver that lies.
  void make_short_segments() { short_segments_ = true; }

  const Live& live() const { return live_; }
  const std::vector<std::shared_ptr<File>>& files() const { return files_; }
  // What create_segment() has made last.
  File& last_segment() { return *last_segment_; }
  // The file that was handed out last.
  const Export& last_export() const { return last_export_; }
  // The page that has this address; nullptr if there is none.
  File* page_at(const void* address) const;

 private:
  static constexpr std::uint64_t kFirstSegment = std::uint64_t{1} << 20;
  class Opened;

  absl::Status count_call();
  std::unique_ptr<server::SharedMemory> make(bool segment, std::uint64_t size_bytes);
  void close(const std::shared_ptr<File>& file);

  std::uint64_t calls_ = 0;
  std::uint64_t refused_ = 0;
  bool short_segments_ = false;
  Live live_;
  std::vector<std::shared_ptr<File>> files_;  // that the daemon has open
  std::map<const std::byte*, File*> pages_;   // of them, by their addresses
  std::shared_ptr<File> last_segment_;
  Export last_export_;
};

}  // namespace memlease::simulation
