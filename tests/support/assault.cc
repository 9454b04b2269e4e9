#include "tests/support/assault.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "client/channel/attach_client.h"
#include "fmt/format.h"

namespace memlease::testing {
namespace {

using wire::UniqueFd;

constexpr std::uint32_t kMostFiles = 100;

bool opens(const std::string& path, int flags) {
  return static_cast<bool>(UniqueFd(open(path.c_str(), flags | O_CLOEXEC)));
}

// All ways that come to mind; each says whether it worked.
class Attacker {
 public:
  explicit Attacker(const internal::SharedFile& file)
      : fd_(file.fd.get()),
        size_(file.size_bytes),
        path_(fmt::format("/proc/self/fd/{}", fd_)),
        view_(mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0)) {}
  ~Attacker() { munmap(view_, size_); }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  std::vector<std::string> try_all() {
    std::vector<std::string> worked;
    const auto attempt = [&](const char* way, bool success) {
      if (success) worked.emplace_back(way);
    };
    attempt("open-rdwr", opens(path_, O_RDWR));
    attempt("open-wronly", opens(path_, O_WRONLY));
    attempt("open-trunc", opens(path_, O_RDONLY | O_TRUNC));
    attempt("open-append", opens(path_, O_WRONLY | O_APPEND));
    attempt("dev-fd", opens(fmt::format("/dev/fd/{}", fd_), O_RDWR));
    attempt("thread-self", opens(fmt::format("/proc/thread-self/fd/{}", fd_), O_RDWR));
    attempt("map-files", opens(map_file(), O_RDWR));
    attempt("fchmod", fchmod(fd_, 0666) == 0);
    attempt("chmod", chmod(path_.c_str(), 0666) == 0);
    attempt("fchown", fchown(fd_, getuid(), getgid()) == 0);
    attempt("futimens", futimens(fd_, nullptr) == 0);
    attempt("ftruncate", ftruncate(fd_, 0) == 0);
    attempt("truncate", truncate(path_.c_str(), 0) == 0);
    attempt("write", write(fd_, "x", 1) == 1);
    attempt("pwrite", pwrite(fd_, "x", 1, 0) == 1);
    attempt("punch", fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
    attempt("zero-range", fallocate(fd_, FALLOC_FL_ZERO_RANGE, 0, 4096) == 0);
    attempt("grow", fallocate(fd_, 0, static_cast<off_t>(size_), 4096) == 0);
    attempt("seal", fcntl(fd_, F_ADD_SEALS, F_SEAL_WRITE) == 0);
    attempt("seal-future", fcntl(fd_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
    attempt("setfl", fcntl(fd_, F_SETFL, O_RDWR) == 0 && write(fd_, "x", 1) == 1);
    attempt("mmap", maps(PROT_READ | PROT_WRITE));
    attempt("mmap-wronly", maps(PROT_WRITE));
    attempt("mprotect", mprotect(view_, size_, PROT_READ | PROT_WRITE) == 0);
    attempt("madvise-remove", madvise(view_, size_, MADV_REMOVE) == 0);
    attempt("proc-mem", writes_own_memory());
    attempt("vm-writev", writes_by_syscall());
    attempt("sendfile", sends_into());
    attempt("copy-file-range", copy_file_range(fd_, nullptr, fd_, nullptr, 1, 0) == 1);
    return worked;
  }

 private:
  bool maps(int protection) const {
    void* data = mmap(nullptr, size_, protection, MAP_SHARED, fd_, 0);
    if (data == MAP_FAILED) return false;
    munmap(data, size_);
    return true;
  }
  std::string map_file() const {
    const auto start = reinterpret_cast<std::uintptr_t>(view_);
    return fmt::format("/proc/self/map_files/{:x}-{:x}", start, start + size_);
  }
  bool writes_own_memory() const {
    const UniqueFd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(view_));
    return memory && pwrite(memory.get(), "x", 1, at) == 1;
  }
  bool writes_by_syscall() const {
    char byte = 'x';
    const iovec from{&byte, 1};
    const iovec to{view_, 1};
    return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == 1;
  }
  bool sends_into() const {
    const UniqueFd source(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    return sendfile(fd_, source.get(), nullptr, 1) == 1;
  }

  const int fd_;
  const std::size_t size_;
  const std::string path_;
  void* const view_;
};

}  // namespace

Assault assault_files(const std::string& directory) {
  Assault result;
  auto session = internal::AttachClient::connect(directory);
  if (!session.ok()) std::abort();
  for (std::uint32_t id = 1; id <= kMostFiles; ++id) {
    const auto file = (*session)->fetch({wire::FileId{id}, internal::Access::kWrite});
    if (!file.ok()) continue;
    ++result.files;
    if (file->writable) {
      ++result.writable;
      continue;
    }
    for (std::string& way : Attacker(*file).try_all()) {
      result.ways_that_worked.push_back(std::move(way));
    }
  }
  return result;
}

}  // namespace memlease::testing
