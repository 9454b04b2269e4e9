#include "server/device/memfd_device_backend.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/device/allocation_error.h"
#include "server/device/held_pages.h"
#include "server/device/lock_dropper.h"
#include "server/device/open_file_watch.h"
#include "wire/error.h"
#include "wire/shared_fd.h"
#include "wire/unique_fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace memlease::server {
namespace {

using wire::ErrorCode;
using wire::SharedFd;
using wire::UniqueFd;

// Going through them takes as long as there are many.
constexpr std::chrono::seconds kLockTime{1};
// That pipes hold, of each huge page's range: of pages that the daemon looks at with its lock held,
// and of segments, of which there may be many.
constexpr std::uint64_t kHeldOfPages = 8;
constexpr std::uint64_t kHeldOfSegments = 2;
constexpr std::uint64_t kStepBytes = std::uint64_t{16} << 20;  // some milliseconds

// The new open file obeys the daemon's mode bits (0600): a client of another uid can neither reopen
// it for writing nor change the mode.
absl::StatusOr<UniqueFd> reopen(int fd, int flags, std::uint64_t size_bytes) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  UniqueFd opened(open(path.c_str(), flags | O_CLOEXEC));
  if (!opened) return allocation_error("opening a file again", size_bytes);
  return opened;
}

absl::Status allocate(int fd, std::uint64_t at, std::uint64_t size_bytes) {
  int result = 0;
  do {
    result = fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(size_bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? absl::OkStatus() : allocation_error("fallocate", size_bytes);
}

// Nobody takes pages out of an immutable file, or puts some in (fallocate(2)), which would have
// whoever looks at them wait in the kernel for as long as he likes. What is open or mapped for
// writing is written as ever. False: this takes Linux 6.0, CAP_LINUX_IMMUTABLE, and a file that is
// not of huge pages.
bool set_immutable(int fd, bool immutable) {
  int flags = 0;
  if (ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0) return false;
  flags = immutable ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
  return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

UniqueFd create_memfd(const char* name, unsigned flags) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | flags));
  if (!fd && errno == EINVAL) {  // before Linux 6.3
    fd.reset(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  }
  return fd;
}

// The kernel's setting; it applies it by itself where it is "always" or "within_size".
std::string transparent_huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  for (std::string word; file >> word;) {
    if (word.front() == '[') return word.substr(1, word.size() - 2);
  }
  return "unknown to this kernel";
}

}  // namespace

// What a file has been promised, while there is one. Its pages may not be there: where the file
// cannot be immutable a client can take the memory out of those that he may write
// (FALLOC_FL_PUNCH_HOLE), and put it back on the account of his own control group. Where the daemon
// looks at such a page, it is in the daemon's again.
class MemfdDeviceBackend::HeldBytes {
 public:
  HeldBytes(std::shared_ptr<Held> all, std::uint64_t bytes) : all_(std::move(all)), bytes_(bytes) {
    all_->fetch_add(bytes_);
  }
  HeldBytes(HeldBytes&& other) noexcept
      : all_(std::move(other.all_)), bytes_(std::exchange(other.bytes_, 0)) {}
  HeldBytes& operator=(HeldBytes&&) = delete;
  ~HeldBytes() {
    if (all_ != nullptr) all_->fetch_sub(bytes_);
  }

 private:
  std::shared_ptr<Held> all_;
  std::uint64_t bytes_;
};

// Whoever gets a descriptor shares the daemon's own open file: another one for each of them would
// be memory of the daemon's control group for as long as they keep it, and in nobody's account.
class MemfdDeviceBackend::Memfd : public SharedMemory {
 public:
  Memfd(UniqueFd reader, std::vector<UniqueFd> held_pages, std::uint64_t size_bytes, HeldBytes held,
        std::shared_ptr<OpenFileWatch> open_files)
      : open_files_(std::move(open_files)),
        reader_(std::move(reader)),
        held_pages_(std::move(held_pages)),
        size_bytes_(size_bytes),
        held_(std::move(held)) {}
  ~Memfd() override {
    if (data_ != nullptr) munmap(data_, size_bytes_);
    open_files_->end(watch_);
  }

  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::byte* data() override { return data_; }

  absl::StatusOr<SharedFd> export_fd(bool writable) override {
    if (writable && !writer_) {
      if (auto status = make_writer(); !status.ok()) return status;
    }
    is_exported_ = true;
    const SharedFd& opened = writable ? writer_ : reader_;
    auto& dropped = writable ? writers_locks_dropped_ : readers_locks_dropped_;
    if (const auto now = std::chrono::steady_clock::now(); now - dropped >= kLockTime) {
      if (LockDropper::get().begin(opened)) dropped = now;
    }
    return opened;
  }
  bool is_lent() const override { return reader_.is_shared() || writer_.is_shared(); }

  void change(absl::FunctionRef<void()> change) override {
    read_only_ ? change_read_only(data_, size_bytes_, change) : change();
  }
  Elsewhere elsewhere() override {
    if (writer_.is_shared()) return Elsewhere::kWriter;
    writer_.reset();
    if (!had_writer_) return Elsewhere::kNoWriter;
    const std::optional<bool> has_gone = open_files_->has_gone(watch_);
    if (!has_gone) return elsewhere_by_lease(reader_.get());
    return *has_gone ? Elsewhere::kNoWriter : Elsewhere::kWriter;
  }
  bool revoke() override {
    if (is_immutable_) set_immutable(reader_.get(), false);
    const auto writer = reopen(reader_.get(), O_RDWR, size_bytes_);
    return writer.ok() && take_pages(writer->get(), size_bytes_);
  }

  absl::Status map(int memfd, bool writable) {
    read_only_ = !writable;
    void* data = mmap(nullptr, size_bytes_, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                      MAP_SHARED, memfd, 0);
    if (data == MAP_FAILED) return allocation_error("mmap", size_bytes_);
    data_ = static_cast<std::byte*>(data);
    // Who looks later may wait for who has them, too. What is read brings those behind it along.
    for (std::uint64_t at = 0; at < size_bytes_; at += 4096) {
      static_cast<void>(*static_cast<volatile std::byte*>(data_ + at));
    }
    return absl::OkStatus();
  }

 private:
  // The flag is set before anybody has the file: who has it can make that wait, too.
  absl::Status make_writer() {
    if (is_immutable_) set_immutable(reader_.get(), false);
    auto opened = reopen(reader_.get(), O_RDWR, size_bytes_);
    if (!opened.ok()) return opened.status();
    const int fd = opened->get();
    writer_ = SharedFd(*std::move(opened));
    is_immutable_ = (!is_exported_ || is_immutable_) && set_immutable(fd, true);
    watch_ = open_files_->begin(fd);
    had_writer_ = true;
    return absl::OkStatus();
  }

  const std::shared_ptr<OpenFileWatch> open_files_;
  const SharedFd reader_;
  const std::vector<UniqueFd> held_pages_;
  SharedFd writer_;
  bool had_writer_ = false;
  int watch_ = -1;
  std::chrono::steady_clock::time_point readers_locks_dropped_;
  std::chrono::steady_clock::time_point writers_locks_dropped_;
  bool is_exported_ = false;
  bool is_immutable_ = false;
  const std::uint64_t size_bytes_;
  std::byte* data_ = nullptr;
  bool read_only_ = false;
  const HeldBytes held_;
};

MemfdDeviceBackend::MemfdDeviceBackend(HugePages huge_pages, Room room, unsigned huge_page_flags)
    : own_files_(open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC)),
      room_(std::move(room)),
      open_files_(std::make_shared<OpenFileWatch>()),
      huge_page_flags_(huge_page_flags),
      huge_pages_text_("switched off") {
  if (huge_pages == HugePages::kAuto) probe_huge_pages();
}

// Touches every page, in steps, so that a lack of memory is an error here and no signal later. All
// of it is looked for at first, so that what does not fit takes nothing from others meanwhile.
absl::Status MemfdDeviceBackend::commit(int fd, std::uint64_t size_bytes, unsigned flags,
                                        Mapping mapping, wire::ReserveKept kept) {
  // The pool of huge pages refuses by itself, and no group pays for what comes from there.
  if ((flags & MFD_HUGETLB) != 0) return allocate(fd, 0, size_bytes);
  committing_.fetch_add(size_bytes);
  std::uint64_t done = 0;
  absl::Status status;
  while (status.ok() && done < size_bytes) {
    const std::uint64_t step = std::min(kStepBytes, size_bytes - done);
    // All that is under way: its files are among those that are held already.
    const std::uint64_t wanted = committing_;
    const std::uint64_t held = *held_;
    const std::uint64_t others = wanted - std::min(wanted, size_bytes - done);
    status = look_for_room(wanted, held - std::min(held, wanted), others, kept);
    // Pages that the daemon maps are written at once: the kernel then has less to do for each.
    const bool maps = mapping != Mapping::kNone;
    if (status.ok()) status = maps ? write_zeros(fd, done, step) : allocate(fd, done, step);
    if (!status.ok()) break;
    committing_.fetch_sub(step);
    done += step;
  }
  committing_.fetch_sub(size_bytes - done);
  return status;
}

absl::Status MemfdDeviceBackend::has_room(std::uint64_t bytes) {
  return look_for_room(bytes, *held_, 0, wire::ReserveKept::kAll);
}

absl::Status MemfdDeviceBackend::look_for_room(std::uint64_t bytes, std::uint64_t held_bytes,
                                               std::uint64_t others_bytes,
                                               wire::ReserveKept kept) const {
  if (!room_) return absl::OkStatus();
  const wire::MemoryBound room = room_(bytes, held_bytes, kept);
  if (bytes <= room.bytes) return absl::OkStatus();
  return wire::make_error(
      ErrorCode::kOutOfMemory,
      fmt::format("there is no host memory for {} bytes{}, but for {} ({})", bytes - others_bytes,
                  others_bytes == 0
                      ? std::string()
                      : fmt::format(" beside {} that others are just being given", others_bytes),
                  room.bytes, room.what),
      "Free memory on this machine or in this control group, raise its limit, or lower "
      "memory_limit_bytes.");
}

absl::StatusOr<std::unique_ptr<SharedMemory>> MemfdDeviceBackend::make(const char* name,
                                                                       std::uint64_t size_bytes,
                                                                       unsigned flags,
                                                                       Mapping mapping,
                                                                       wire::ReserveKept kept) {
  UniqueFd fd = create_memfd(name, flags);
  if (!fd) return allocation_error("memfd_create", size_bytes);
  if (fchmod(fd.get(), 0600) != 0) return allocation_error("fchmod", size_bytes);
  if (ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    return allocation_error("ftruncate", size_bytes);
  }
  HeldBytes held(held_, (flags & MFD_HUGETLB) != 0 ? 0 : size_bytes);
  if (auto status = commit(fd.get(), size_bytes, flags, mapping, kept); !status.ok()) return status;
  std::vector<UniqueFd> held_pages;
  if ((flags & MFD_HUGETLB) == 0) {
    auto pipes = hold_pages(fd.get(), size_bytes,
                            mapping == Mapping::kNone ? kHeldOfSegments : kHeldOfPages);
    if (!pipes.ok()) return pipes.status();
    held_pages = *std::move(pipes);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return allocation_error("sealing", size_bytes);
  }
  auto reader = reopen(fd.get(), O_RDONLY, size_bytes);
  if (!reader.ok()) return reader.status();
  auto memory = std::make_unique<Memfd>(*std::move(reader), std::move(held_pages), size_bytes,
                                        std::move(held), open_files_);
  if (mapping == Mapping::kNone) return memory;
  if (auto status = memory->map(fd.get(), mapping == Mapping::kWritable); !status.ok()) {
    return status;
  }
  return memory;
}

// One huge page, really faulted in: a pool of the right size is the only kind that can be relied
// on.
void MemfdDeviceBackend::probe_huge_pages() {
  auto probe = make("memlease-probe", kHugePageBytes, huge_page_flags_, Mapping::kNone,
                    wire::ReserveKept::kAll);
  use_huge_pages_ = probe.ok();
  huge_pages_text_ = fmt::format("{}; transparent ones for shared memory: {}",
                                 probe.ok() ? "2 MiB pages from the pool where it has enough"
                                            : "none from the pool, it is empty (vm.nr_hugepages)",
                                 transparent_huge_pages());
}

DeviceBackend::SegmentSizes MemfdDeviceBackend::segment_sizes() const {
  return {std::uint64_t{4} << 20, std::uint64_t{512} << 20, 4096};
}

std::uint64_t MemfdDeviceBackend::alignment_bytes(std::uint64_t size_bytes) const {
  return size_bytes > 4096 ? 4096 : 256;
}

bool MemfdDeviceBackend::keeps_pages() {
  const UniqueFd probe = create_memfd("memlease-probe", 0);
  return probe && set_immutable(probe.get(), true);
}

absl::StatusOr<std::unique_ptr<SharedMemory>> MemfdDeviceBackend::create_segment(
    std::uint64_t size_bytes, wire::ReserveKept kept) {
  if (use_huge_pages_ && size_bytes % kHugePageBytes == 0) {
    auto huge = make("memlease-segment", size_bytes, huge_page_flags_, Mapping::kNone, kept);
    lacks_huge_pages_ = !huge.ok();
    if (huge.ok()) return huge;
  }
  return make("memlease-segment", size_bytes, 0, Mapping::kNone, kept);
}

absl::StatusOr<std::unique_ptr<SharedMemory>> MemfdDeviceBackend::create_pages(
    std::uint64_t size_bytes, bool daemon_writes, wire::ReserveKept kept) {
  return daemon_writes ? make("memlease-board", size_bytes, 0, Mapping::kWritable, kept)
                       : make("memlease-session", size_bytes, 0, Mapping::kReadOnly, kept);
}

}  // namespace memlease::server
