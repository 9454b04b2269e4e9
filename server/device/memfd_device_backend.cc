#include "server/device/memfd_device_backend.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "wire/error.h"
#include "wire/mutex.h"
#include "wire/unique_fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace memlease::server {
namespace {

using wire::ErrorCode;
using wire::UniqueFd;

constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;
// Going through them takes as long as there are many.
constexpr std::chrono::seconds kLockTime{1};
// That pipes hold, of each huge page's range: of pages that the daemon looks at with its lock held,
// and of segments, of which there may be many.
constexpr std::uint64_t kHeldOfPages = 8;
constexpr std::uint64_t kHeldOfSegments = 2;
constexpr std::uint64_t kMostPagesOfPipe = 256;                // pipe-max-size, by default
constexpr std::size_t kMostHeld = 16 * kMostPagesOfPipe;       // of one file
constexpr std::uint64_t kStepBytes = std::uint64_t{16} << 20;  // some milliseconds

absl::Status failed(const char* what, std::uint64_t size_bytes) {
  const int error = errno;
  std::string_view hint = "Free memory on this machine, or lower memory_limit_bytes.";
  if (error == EMFILE || error == ENFILE) {
    hint = "Raise the daemon's limit of open files (LimitNOFILE), or withdraw arrays.";
  } else if (error == EFBIG) {
    hint = "Start the daemon with a higher limit of the size of files (LimitFSIZE, ulimit -f).";
  }
  return wire::errno_error(ErrorCode::kOutOfMemory,
                           fmt::format("{} for {} bytes of host memory", what, size_bytes), error,
                           hint);
}

// The new open file obeys the daemon's mode bits (0600): a client of another uid can neither reopen
// it for writing nor change the mode.
absl::StatusOr<UniqueFd> reopen(int fd, int flags, std::uint64_t size_bytes) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  UniqueFd opened(open(path.c_str(), flags | O_CLOEXEC));
  if (!opened) return failed("opening a file again", size_bytes);
  return opened;
}

absl::Status allocate(int fd, std::uint64_t at, std::uint64_t size_bytes) {
  int result = 0;
  do {
    result = fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(size_bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? absl::OkStatus() : failed("fallocate", size_bytes);
}

// Locks of bytes (F_OFD_SETLK) belong to the open file: those that somebody has put there who has
// it, too, would be there for as long as the daemon has it, and be gone through at each close().
void drop_locks(int fd) {
  struct flock all{};
  all.l_type = F_UNLCK;
  (void)fcntl(fd, F_OFD_SETLK, &all);
}

// Has locks dropped by a thread that the daemon does not wait for: that waits itself for whoever
// reads the list of all locks of files (/proc/locks), which may be for as long as he likes. One at
// a time. Thread-safe.
class LockDropper {
 public:
  // Lasts as long as the process: its thread may.
  static LockDropper& get() {
    static LockDropper& the_only = *new LockDropper;
    return the_only;
  }
  // False: it is at another one, or there is no thread.
  bool begin(int fd) {
    const wire::MutexLock lock(mutex_);
    if (fd_ != -1 || !has_thread()) return false;
    fd_ = fd;
    changed_.notify_all();
    return true;
  }
  // Before the descriptor is closed, or anybody asks who has the file.
  void await(int fd) {
    wire::MutexLock lock(mutex_);
    while (fd != -1 && fd_ == fd) changed_.wait(mutex_);
  }

 private:
  LockDropper() = default;
  // Made once: also to make one may wait for what others do.
  bool has_thread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (has_thread_) return true;
    try {
      std::thread([this] { run(); }).detach();
      has_thread_ = true;
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }
  [[noreturn]] void run() {
    wire::MutexLock lock(mutex_);
    for (;;) {
      while (fd_ == -1) changed_.wait(mutex_);
      const int fd = fd_;
      lock.unlock();
      drop_locks(fd);
      lock.lock();
      fd_ = -1;
      changed_.notify_all();
    }
  }

  wire::Mutex mutex_;
  wire::CondVar changed_;
  bool has_thread_ ABSL_GUARDED_BY(mutex_) = false;
  int fd_ ABSL_GUARDED_BY(mutex_) = -1;  // -1: of none
};

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

// Has the pipe keep the page that stands there: 1; 0: not now; -1: the kernel does not do that.
int hold_page(int fd, std::uint64_t at, int pipe) {
  auto offset = static_cast<off_t>(at);
  ssize_t held = -1;
  do {
    held = splice(fd, &offset, pipe, nullptr, 1, SPLICE_F_NONBLOCK);
  } while (held == -1 && errno == EINTR);
  if (held == 1) return 1;
  return held == -1 && (errno == EINVAL || errno == ENOSYS || errno == EPERM) ? -1 : 0;
}

// Who has a file mapped may have the kernel put a huge page in the place of its pages
// (MADV_COLLAPSE, Linux 6.1): it takes these from everybody meanwhile, and who looks at them waits
// for as long as that thread is kept from a processor. It does not begin where somebody else has a
// reference to one of the pages: pipes that nobody reads have them, to the first ones of each
// range. To several: how many references there are, and how many should be, are two looks, between
// which an unmapping may come, but not each time.
absl::StatusOr<std::vector<UniqueFd>> hold_pages(int fd, std::uint64_t size_bytes,
                                                 std::uint64_t pages_of_range) {
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<std::uint64_t> places;
  for (std::uint64_t range = 0; range < size_bytes && places.size() < kMostHeld;
       range += kHugePageBytes) {
    const std::uint64_t end = std::min(size_bytes, range + (pages_of_range * page_bytes));
    for (std::uint64_t at = range; at < end; at += page_bytes) places.push_back(at);
  }
  std::vector<UniqueFd> pipes;
  bool has_room = true;  // else the kernel gives a user's pipes no more (pipe-user-pages-soft)
  for (auto next = places.begin(); next != places.end() && has_room;) {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return failed("pipe2", size_bytes);
    pipes.emplace_back(ends[0]);
    const UniqueFd fill(ends[1]);
    const auto wanted =
        std::min<std::uint64_t>(kMostPagesOfPipe, static_cast<std::uint64_t>(places.end() - next));
    has_room = fcntl(fill.get(), F_SETPIPE_SZ, static_cast<int>(wanted * page_bytes)) >= 0;
    for (std::uint64_t held = 0; held < wanted; ++held, ++next) {
      // What has never been written is not read from the file.
      if (pwrite(fd, "", 1, static_cast<off_t>(*next)) != 1) return failed("pwrite", size_bytes);
      const int done = hold_page(fd, *next, fill.get());
      if (done == -1) return pipes;
      if (done == 0 && next == places.begin()) return failed("splice", size_bytes);
      if (done == 0) {
        has_room = has_room && held != 0;
        break;
      }
    }
  }
  return pipes;
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
  Memfd(UniqueFd reader, std::vector<UniqueFd> held_pages, std::uint64_t size_bytes, HeldBytes held)
      : reader_(std::move(reader)),
        held_pages_(std::move(held_pages)),
        size_bytes_(size_bytes),
        held_(std::move(held)) {}
  ~Memfd() override {
    await_dropper();
    if (data_ != nullptr) munmap(data_, size_bytes_);
  }

  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::byte* data() override { return data_; }

  // The flag is set before anybody has the file: who has it can make that wait, too.
  absl::StatusOr<UniqueFd> export_fd(bool writable) override {
    const bool is_first = !std::exchange(is_exported_, true);
    if (writable && !writer_) {
      if (is_immutable_) set_immutable(reader_.get(), false);
      auto opened = reopen(reader_.get(), O_RDWR, size_bytes_);
      if (!opened.ok()) return opened.status();
      writer_ = *std::move(opened);
      is_immutable_ = (is_first || is_immutable_) && set_immutable(writer_.get(), true);
    }
    const int opened = (writable ? writer_ : reader_).get();
    auto& dropped = writable ? writers_locks_dropped_ : readers_locks_dropped_;
    if (const auto now = std::chrono::steady_clock::now(); now - dropped >= kLockTime) {
      if (LockDropper::get().begin(opened)) dropped = now;
    }
    UniqueFd copy(fcntl(opened, F_DUPFD_CLOEXEC, 0));
    if (!copy) return failed("handing out a file", size_bytes_);
    return copy;
  }

  void change(absl::FunctionRef<void()> change) override {
    read_only_ ? change_read_only(data_, size_bytes_, change) : change();
  }
  Elsewhere elsewhere() override {
    await_dropper();
    writer_.reset();
    return SharedMemory::elsewhere();
  }
  bool revoke() override {
    if (is_immutable_) set_immutable(reader_.get(), false);
    const auto writer = reopen(reader_.get(), O_RDWR, size_bytes_);
    return writer.ok() && take_pages(writer->get(), size_bytes_);
  }

  absl::Status map(int memfd, bool writable) {
    read_only_ = !writable;
    void* data = mmap(nullptr, size_bytes_, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                      MAP_SHARED | MAP_POPULATE, memfd, 0);
    if (data == MAP_FAILED) return failed("mmap", size_bytes_);
    data_ = static_cast<std::byte*>(data);
    return absl::OkStatus();
  }

 private:
  void await_dropper() {
    for (const int fd : {reader_.get(), writer_.get()}) LockDropper::get().await(fd);
  }

  const UniqueFd reader_;
  const std::vector<UniqueFd> held_pages_;
  UniqueFd writer_;
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
    : room_(std::move(room)), huge_page_flags_(huge_page_flags), huge_pages_text_("switched off") {
  if (huge_pages == HugePages::kAuto) probe_huge_pages();
}

// Touches every page, in steps, so that a lack of memory is an error here and no signal later. All
// of it is looked for at first, so that what does not fit takes nothing from others meanwhile.
absl::Status MemfdDeviceBackend::commit(int fd, std::uint64_t size_bytes, unsigned flags,
                                        wire::ReserveKept kept) {
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
    if (status.ok()) status = allocate(fd, done, step);
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
  if (!fd) return failed("memfd_create", size_bytes);
  if (fchmod(fd.get(), 0600) != 0) return failed("fchmod", size_bytes);
  if (ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    return failed("ftruncate", size_bytes);
  }
  HeldBytes held(held_, (flags & MFD_HUGETLB) != 0 ? 0 : size_bytes);
  if (auto status = commit(fd.get(), size_bytes, flags, kept); !status.ok()) return status;
  std::vector<UniqueFd> held_pages;
  if ((flags & MFD_HUGETLB) == 0) {
    auto pipes = hold_pages(fd.get(), size_bytes,
                            mapping == Mapping::kNone ? kHeldOfSegments : kHeldOfPages);
    if (!pipes.ok()) return pipes.status();
    held_pages = *std::move(pipes);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failed("sealing", size_bytes);
  }
  auto reader = reopen(fd.get(), O_RDONLY, size_bytes);
  if (!reader.ok()) return reader.status();
  auto memory = std::make_unique<Memfd>(*std::move(reader), std::move(held_pages), size_bytes,
                                        std::move(held));
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
