#include "tests/simulation/plain_memory.h"

#include <algorithm>
#include <utility>

#include "wire/error.h"

namespace memlease::simulation {

using server::SharedMemory;

class PlainMemory::Opened final : public SharedMemory {
 public:
  Opened(PlainMemory& memory, std::shared_ptr<File> file)
      : memory_(memory), file_(std::move(file)) {}
  ~Opened() override { memory_.close(file_); }

  std::uint64_t size_bytes() const override { return file_->size_bytes; }
  std::byte* data() override { return file_->segment ? nullptr : file_->bytes(); }
  absl::StatusOr<wire::SharedFd> export_fd(bool writable) override {
    if (auto status = memory_.count_call(); !status.ok()) return status;
    file_->exported_writable |= writable;
    memory_.last_export_ = {file_, writable};
    return wire::SharedFd();
  }
  // As if nobody could, so that a run fails where somebody needs what has gone.
  server::Elsewhere elsewhere() override { return server::Elsewhere::kNoWriter; }
  bool revoke() override {
    std::ranges::fill(file_->words, 0);
    return true;
  }

 private:
  PlainMemory& memory_;
  const std::shared_ptr<File> file_;
};

absl::Status PlainMemory::count_call() {
  if (++calls_ != refused_) return absl::OkStatus();
  return wire::make_error(wire::ErrorCode::kOutOfMemory, "the simulated machine has none left",
                          "The simulation wants it so.");
}

absl::StatusOr<std::unique_ptr<SharedMemory>> PlainMemory::create_segment(
    std::uint64_t size_bytes, wire::ReserveKept /*kept*/) {
  if (auto status = count_call(); !status.ok()) return status;
  return make(true, short_segments_ ? size_bytes / 2 : size_bytes);
}

absl::StatusOr<std::unique_ptr<SharedMemory>> PlainMemory::create_pages(
    std::uint64_t size_bytes, bool /*daemon_writes*/, wire::ReserveKept /*kept*/) {
  if (auto status = count_call(); !status.ok()) return status;
  return make(false, size_bytes);
}

std::unique_ptr<SharedMemory> PlainMemory::make(bool segment, std::uint64_t size_bytes) {
  auto file = std::make_shared<File>();
  file->segment = segment;
  file->size_bytes = size_bytes;
  ++live_.files;
  if (segment) {
    live_.segment_bytes += size_bytes;
    last_segment_ = file;
  } else {
    file->words.resize(size_bytes / sizeof(std::uint64_t));
    pages_.emplace(file->bytes(), file.get());
  }
  files_.push_back(file);
  return std::make_unique<Opened>(*this, std::move(file));
}

void PlainMemory::close(const std::shared_ptr<File>& file) {
  file->open_in_daemon = false;
  --live_.files;
  if (file->segment) live_.segment_bytes -= file->size_bytes;
  if (!file->segment) pages_.erase(file->bytes());
  std::erase(files_, file);
}

PlainMemory::File* PlainMemory::page_at(const void* address) const {
  const auto* const byte = static_cast<const std::byte*>(address);
  auto after = pages_.upper_bound(byte);
  if (after == pages_.begin()) return nullptr;
  File* const file = std::prev(after)->second;
  return byte < file->bytes() + file->size_bytes ? file : nullptr;
}

}  // namespace memlease::simulation
