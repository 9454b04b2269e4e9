// Probes of shared memory: memfds, seals, who may reopen them, huge pages.
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "client/ctl/check.h"
#include "fmt/format.h"
#include "wire/unique_fd.h"

namespace memlease::ctl {
namespace {

using wire::UniqueFd;

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr unsigned kNobody = 65534;
constexpr const char* kName = "memlease-doctor";

std::string self_path(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// 0 or the error of opening `fd` once more.
int reopen_error(int fd, int flags) {
  const UniqueFd again(::open(self_path(fd).c_str(), flags | O_CLOEXEC));
  return again ? 0 : errno;
}

// A mapping of this process. Empty where mmap failed.
class Mapping {
 public:
  Mapping(int fd, std::size_t bytes, std::size_t offset = 0)
      : bytes_(bytes),
        start_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      static_cast<off_t>(offset))) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (*this) ::munmap(start_, bytes_);
  }
  explicit operator bool() const { return start_ != MAP_FAILED; }
  char* data() const { return static_cast<char*>(start_); }

 private:
  const std::size_t bytes_;
  void* const start_;
};

// The pool that vm.nr_hugepages sets aside.
bool pool_works() {
  const UniqueFd fd(::memfd_create(kName, MFD_CLOEXEC | MFD_HUGETLB));
  if (!fd || ::ftruncate(fd.get(), kHugePageBytes) != 0) return false;
  return static_cast<bool>(Mapping(fd.get(), kHugePageBytes));  // reserves, or fails
}

// True if the mapping that holds `address` has a huge page of shared memory.
bool has_huge_page(const char* address) {
  std::ifstream smaps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin <= wanted && wanted < end;
    } else if (inside && line.starts_with("ShmemPmdMapped:")) {
      return line.find(" 0 kB") == std::string::npos;
    }
  }
  return false;
}

// Transparent huge pages of shared memory: asks for one and looks whether it came.
bool transparent_works() {
  const UniqueFd fd(::memfd_create(kName, MFD_CLOEXEC));
  constexpr std::size_t kBytes =
      2 * kHugePageBytes;  // one whole page lies inside, wherever it starts
  if (!fd || ::ftruncate(fd.get(), kBytes) != 0) return false;
  const Mapping mapping(fd.get(), kBytes);
  if (!mapping || ::madvise(mapping.data(), kBytes, MADV_HUGEPAGE) != 0) return false;
  std::memset(mapping.data(), 1, kBytes);
  return has_huge_page(mapping.data());
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.empty() ? "no such setting" : line;
}

// As in [always] never: the word in brackets.
std::string chosen_word(const std::string& line) {
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos) return line;
  return line.substr(begin + 1, end - begin - 1);
}

}  // namespace

Check probe_memfd() {
  const auto failed = [](std::string_view what, int error) -> Check {
    return {"memfd", Verdict::kFailure, fmt::format("{}: {}", what, std::strerror(error)),
            "Needs Linux 3.17 and a container profile (seccomp) that allows memfd_create."};
  };
  const UniqueFd fd(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return failed("memfd_create", errno);
  if (::fchmod(fd.get(), 0600) != 0) return failed("fchmod of a memfd", errno);
  if (::ftruncate(fd.get(), 4096) != 0) return failed("ftruncate of a memfd", errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return failed("sealing a memfd", errno);
  if (::ftruncate(fd.get(), 0) == 0) {
    return {"memfd", Verdict::kFailure,
            "a sealed memfd could be cut: a process that has it mapped "
            "would be killed",
            "This kernel does not keep seals: use another one."};
  }
  const Mapping mapping(fd.get(), 4096);
  if (!mapping) return failed("mapping a memfd", errno);
  mapping.data()[0] = 1;
  return {"memfd", Verdict::kOk,
          "made, sealed and mapped (arrays need nothing of /dev/shm, whatever its size)", ""};
}

// Readers get their files read-only. What keeps them from opening them once more for writing is the
// file's mode, which binds all users but the file's owner, who could change it, and root.
Check probe_read_only() {
  const UniqueFd fd(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool root = ::geteuid() == 0;
  // Root tries it as another user. Others can only be kept out of a file of their own.
  if (!fd || ::fchmod(fd.get(), root ? 0644 : 0400) != 0) {
    return {"read_only", Verdict::kFailure,
            fmt::format("cannot make a memfd to try it with: {}", std::strerror(errno)),
            "See the check memfd."};
  }
  if (root) ::setfsuid(kNobody);
  const int reading = reopen_error(fd.get(), O_RDONLY);
  const int writing = reopen_error(fd.get(), O_RDWR);
  if (root) ::setfsuid(0);
  if (reading != 0) {
    return {"read_only", Verdict::kFailure,
            fmt::format("cannot open a memfd through /proc/self/fd: {}", std::strerror(reading)),
            "Mount /proc."};
  }
  if (writing != EACCES) {
    return {"read_only", Verdict::kFailure,
            fmt::format("a read-only memfd could be opened for writing ({})",
                        writing == 0 ? "no error" : std::strerror(writing)),
            "Readers of other users cannot be kept from writing here: use another kernel, or share "
            "only with whom you trust."};
  }
  return {"read_only", Verdict::kOk,
          fmt::format("a file that was given out read-only cannot be opened for writing{}",
                      root ? " by another user" : ""),
          ""};
}

Check probe_huge_pages() {
  const bool pool = pool_works();
  const bool transparent = transparent_works();
  constexpr const char* kShmem = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  const std::string settings =
      fmt::format("vm.nr_hugepages = {}, shmem_enabled = {}",
                  first_line("/proc/sys/vm/nr_hugepages"), chosen_word(first_line(kShmem)));
  if (!pool && !transparent) {
    return {
        "huge_pages", Verdict::kNote,
        fmt::format("none for shared memory ({}); large arrays work, somewhat slower", settings),
        std::filesystem::exists(kShmem) ? fmt::format("echo advise > {}, as root", kShmem) : ""};
  }
  return {"huge_pages", Verdict::kOk,
          fmt::format("{} ({})",
                      pool && transparent ? "from the pool, and transparent"
                      : pool              ? "from the pool"
                                          : "transparent",
                      settings),
          ""};
}

}  // namespace memlease::ctl
