#include "tests/support/fake_importer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "client/ordering/stream_waits.h"
#include "wire/error.h"
#include "wire/held_mutexes.h"

namespace memlease::testing {

using wire::ErrorCode;

class FakeImporter::Memory : public internal::DeviceMemory {
 public:
  Memory(FakeImporter& importer, Allocation& allocation, std::uint64_t size_bytes)
      : importer_(importer), allocation_(allocation), size_bytes_(size_bytes) {}
  ~Memory() override {
    importer_.gates_.pass("close_memory");
    const std::lock_guard lock(importer_.mutex_);
    if (!importer_.running_.empty()) ++importer_.stalled_closings_;
    if (--allocation_.opens == 0) ::munmap(std::exchange(allocation_.mapped, nullptr), size_bytes_);
  }
  std::byte* data() const override { return static_cast<std::byte*>(allocation_.mapped); }
  std::uint64_t size_bytes() const override { return size_bytes_; }

 private:
  FakeImporter& importer_;
  Allocation& allocation_;
  const std::uint64_t size_bytes_;
};

class FakeImporter::Mark : public internal::StreamMark {
 public:
  Mark(FakeImporter& importer, Stalls stalls) : importer_(importer), stalls_(std::move(stalls)) {
    ++importer_.marks_;
  }
  ~Mark() override { --importer_.marks_; }
  absl::StatusOr<bool> complete() override {
    const std::lock_guard lock(importer_.mutex_);
    if (auto status = importer_.failure(); !status.ok()) return status;
    return importer_.over(stalls_);
  }

 private:
  FakeImporter& importer_;
  const Stalls stalls_;
};

namespace {

bool is_mapped(std::byte* pages, std::uint64_t size_bytes) {
  constexpr std::uint64_t kPageBytes = 4096;
  const std::uint64_t before = reinterpret_cast<std::uintptr_t>(pages) % kPageBytes;
  std::vector<unsigned char> seen((before + size_bytes + kPageBytes - 1) / kPageBytes);
  return ::mincore(pages - before, before + size_bytes, seen.data()) == 0;
}

}  // namespace

class FakeImporter::Registered : public internal::RegisteredPages {
 public:
  Registered(FakeImporter& importer, std::byte* pages) : importer_(importer), pages_(pages) {}
  ~Registered() override {
    if (pid_ != ::getpid()) return;
    importer_.gates_.pass("unregister_pages");
    const std::lock_guard lock(importer_.mutex_);
    if (!importer_.running_.empty()) ++importer_.stalled_closings_;
    const auto known = importer_.registered_.find(pages_);
    if (!is_mapped(pages_, known->second)) std::abort();
    for (const auto& [word, stalls] : importer_.waits_) {
      const auto* const at = reinterpret_cast<const std::byte*>(word);
      const bool here = at >= pages_ && at < pages_ + known->second;
      if (here && !importer_.over(stalls)) std::abort();
    }
    importer_.registered_.erase(known);
  }

 private:
  FakeImporter& importer_;
  std::byte* const pages_;
  const pid_t pid_ = ::getpid();
};

void FakeImporter::refuse_registrations(bool refuses) {
  const std::lock_guard lock(mutex_);
  refuses_registrations_ = refuses;
}

std::size_t FakeImporter::registered_count() const {
  const std::lock_guard lock(mutex_);
  return registered_.size();
}

bool FakeImporter::over(const Stalls& stalls) const {
  return std::none_of(stalls.begin(), stalls.end(), [&](int it) { return running_.contains(it); });
}

absl::Status FakeImporter::failure() const {
  if (!failed_) return absl::OkStatus();
  return wire::make_error(ErrorCode::kInternal, "the fake GPU has failed", "The test wants it so.");
}

void FakeImporter::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  pending_.clear();
  running_.clear();
  resumed_.notify_all();
}

absl::Status FakeImporter::check_device() {
  const std::lock_guard lock(mutex_);
  return failure();
}

void FakeImporter::capture(Stream stream) {
  const std::lock_guard lock(mutex_);
  capturing_.insert(stream.handle());
}

std::size_t FakeImporter::captured_count() const {
  const std::lock_guard lock(mutex_);
  return captured_;
}

bool FakeImporter::is_capturing(Stream stream) {
  const std::lock_guard lock(mutex_);
  return capturing_.contains(stream.handle());
}

absl::Status FakeImporter::check_stream(Stream stream) {
  if (!is_capturing(stream)) return check_device();
  return wire::make_error(ErrorCode::kInvalidArgument, "the stream is capturing a graph", "");
}

FakeImporter::Stalls& FakeImporter::given(Stream stream) {
  if (capturing_.contains(stream.handle())) ++captured_;
  return streams_[stream.handle()];
}

FakeImporter::~FakeImporter() {
  resume();
  internal::StreamWaits::over();
}

void FakeImporter::stall(Stream stream) {
  const std::lock_guard lock(mutex_);
  running_.insert(++last_stall_);
  streams_[stream.handle()].insert(last_stall_);
}

void FakeImporter::resume() {
  const std::lock_guard lock(mutex_);
  running_.clear();
  for (const PendingWrite& write : pending_) write.word->store(write.value);
  pending_.clear();
  resumed_.notify_all();
}

void FakeImporter::refuse_next_open() {
  const std::lock_guard lock(mutex_);
  refuses_ = true;
}

int FakeImporter::stalled_closings() const {
  const std::lock_guard lock(mutex_);
  return stalled_closings_;
}

int FakeImporter::open_memory_count() const {
  const std::lock_guard lock(mutex_);
  int count = 0;
  for (const auto& [handle, allocation] : memory_) count += allocation.opens;
  return count;
}

absl::StatusOr<std::unique_ptr<internal::DeviceMemory>> FakeImporter::open_memory(
    const wire::DeviceHandle& handle, std::uint64_t size_bytes) {
  gates_.pass("open_memory");
  const std::lock_guard lock(mutex_);
  if (std::exchange(refuses_, false)) {
    return wire::make_error(ErrorCode::kInternal, "the fake GPU refuses", "The test wants it so.");
  }
  Allocation& allocation = memory_[handle];
  if (!allocation.bytes) {
    allocation.bytes = wire::UniqueFd(::memfd_create("memlease-fake-gpu", MFD_CLOEXEC));
    if (::ftruncate(allocation.bytes.get(), static_cast<off_t>(size_bytes)) != 0) std::abort();
  }
  if (allocation.opens++ == 0) {
    allocation.mapped =
        ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation.bytes.get(), 0);
    if (allocation.mapped == MAP_FAILED) std::abort();
  }
  return std::make_unique<Memory>(*this, allocation, size_bytes);
}

absl::Status FakeImporter::write_word(wire::Word& word, std::uint64_t value, Stream stream) {
  const std::lock_guard lock(mutex_);
  if (auto status = failure(); !status.ok()) return status;
  const Stalls& stalls = given(stream);
  if (over(stalls)) {
    word.store(value);
  } else {
    pending_.push_back({&word, value, stalls});
  }
  return absl::OkStatus();
}

absl::Status FakeImporter::wait_for_word(const wire::Word& word, std::uint64_t value,
                                         Stream stream) {
  const std::lock_guard lock(mutex_);
  if (auto status = failure(); !status.ok()) return status;
  if (word.load() >= value) return absl::OkStatus();
  for (const PendingWrite& write : pending_) {
    if (write.word != &word || write.value < value) continue;
    given(stream).merge(Stalls(write.stalls));
    waits_.emplace_back(&word, write.stalls);
    return absl::OkStatus();
  }
  std::abort();  // nobody in this process is about to write that
}

absl::StatusOr<std::unique_ptr<internal::StreamMark>> FakeImporter::mark(Stream stream) {
  const std::lock_guard lock(mutex_);
  if (auto status = failure(); !status.ok()) return status;
  return std::make_unique<Mark>(*this, given(stream));
}

absl::Status FakeImporter::order(Stream before, Stream after) {
  const std::lock_guard lock(mutex_);
  if (auto status = failure(); !status.ok()) return status;
  given(after).merge(Stalls(given(before)));
  return absl::OkStatus();
}

absl::Status FakeImporter::synchronize() {
  wire::expect_no_mutex_held("a wait for a GPU");
  std::unique_lock lock(mutex_);
  resumed_.wait(lock, [&] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [&](const auto& stream) { return over(stream.second); });
  });
  return failure();
}

absl::Status FakeImporter::copy(void* to, const void* from, std::uint64_t size_bytes,
                                Stream /*stream*/) {
  std::memcpy(to, from, size_bytes);
  return absl::OkStatus();
}

absl::Status FakeImporter::copy_rows(std::byte* to, const std::byte* from,
                                     const internal::Rows& rows, Stream /*stream*/) {
  for (std::size_t i = 0; i < rows.count; ++i) {
    std::memcpy(to + rows.to + i * rows.to_pitch, from + rows.from + i * rows.from_pitch,
                rows.bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<internal::RegisteredPages>> FakeImporter::register_pages(
    std::byte* pages, std::uint64_t size_bytes, bool /*writable*/) {
  gates_.pass("register_pages");
  const std::lock_guard lock(mutex_);
  if (refuses_registrations_) {
    return wire::make_error(ErrorCode::kUnsupported, "the fake GPU does not register", "");
  }
  const auto next = registered_.lower_bound(pages);
  const bool overlaps =
      (next != registered_.end() && next->first < pages + size_bytes) ||
      (next != registered_.begin() && pages < std::prev(next)->first + std::prev(next)->second);
  if (overlaps || !is_mapped(pages, size_bytes)) std::abort();
  registered_.emplace_hint(next, pages, size_bytes);
  return std::make_unique<Registered>(*this, pages);
}

absl::StatusOr<std::string> FakeImporter::resolve(const std::string& device) {
  return device == "cuda:0" ? device_ : device;
}

absl::StatusOr<internal::Importer*> FakeImporter::importer(const std::string& uuid) {
  if (uuid == device_) return this;
  return wire::make_error(ErrorCode::kUnsupported, "there is no " + uuid);
}

absl::StatusOr<internal::Importer*> FakeImporter::holder(const void* /*address*/) { return this; }

}  // namespace memlease::testing
