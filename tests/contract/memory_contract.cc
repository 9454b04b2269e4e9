#include "tests/contract/memory_contract.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "tests/contract/findings.h"
#include "tests/support/eventually.h"
#include "tests/support/open_files.h"
#include "wire/shared_fd.h"

namespace memlease::testing {
namespace {

using server::SharedMemory;

constexpr std::uint64_t kSize = std::uint64_t{4} << 20;
constexpr uid_t kOtherUid = 54321;

// The file as somebody who has the descriptor sees it.
class Mapped {
 public:
  Mapped(int fd, int protection)
      : data_(::mmap(nullptr, kSize, protection, MAP_SHARED, fd, 0)), error_(errno) {}
  ~Mapped() {
    if (ok()) ::munmap(data_, kSize);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  bool ok() const { return data_ != MAP_FAILED; }
  int error() const { return ok() ? 0 : error_; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), kSize}; }

 private:
  void* const data_;
  const int error_;
};

// Runs `attempt` as another uid that holds the same descriptors. False also if that failed to
// begin.
bool refused_to_other_uid(int fd, bool (*attempt)(int fd, const char* path)) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  const pid_t child = ::fork();
  if (child == 0) {
    // Dumpable again, or /proc/self itself would be closed to it and hide what is asked here.
    if (::setgid(kOtherUid) != 0 || ::setuid(kOtherUid) != 0 || ::prctl(PR_SET_DUMPABLE, 1) != 0 ||
        ::access("/proc/self/fd", X_OK) != 0) {
      ::_exit(2);
    }
    ::_exit(attempt(fd, path.c_str()) ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void check_flags(int fd, int access, Findings& findings) {
  findings.expect((::fcntl(fd, F_GETFL) & O_ACCMODE) == access,
                  access == O_RDONLY ? "the read-only export is not O_RDONLY"
                                     : "the writable export is not O_RDWR");
  findings.expect((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0, "an export survives exec()");
}

void check_size(int fd, const SharedMemory& memory, Findings& findings) {
  struct stat info{};
  ::fstat(fd, &info);
  findings.expect(memory.size_bytes() == kSize && info.st_size == static_cast<off_t>(kSize),
                  "the size is another one than was asked for");
  findings.expect((info.st_mode & 07777) == 0600, "the mode is not 0600");
  findings.expect(::ftruncate(fd, kSize / 2) != 0, "the file can shrink under its users");
  findings.expect(::ftruncate(fd, kSize * 2) != 0, "the file can grow");
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  findings.expect((::fcntl(fd, F_GET_SEALS) & kSeals) == kSeals, "seals are missing");
  findings.expect(::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0,
                  "a client can seal the file against its writer");
}

void check_read_only(int fd, Findings& findings) {
  findings.expect(Mapped(fd, PROT_READ | PROT_WRITE).error() == EACCES,
                  "the read-only export can be mapped for writing");
  findings.expect(::pwrite(fd, "x", 1, 0) != 1, "the read-only export can be written");
  findings.expect(
      refused_to_other_uid(
          fd, [](int, const char* path) { return ::open(path, O_RDWR | O_CLOEXEC) >= 0; }),
      "another uid can reopen the read-only export for writing");
  findings.expect(
      refused_to_other_uid(fd, [](int held, const char*) { return ::fchmod(held, 0666) == 0; }),
      "another uid can change the mode");
}

void check_bytes(const wire::SharedFd& read_only, const wire::SharedFd& writable,
                 Findings& findings) {
  const Mapped reader(read_only.get(), PROT_READ);
  const Mapped writer(writable.get(), PROT_READ | PROT_WRITE);
  if (!reader.ok() || !writer.ok()) {
    findings.expect(false, "an export cannot be mapped");
    return;
  }
  findings.expect(
      std::ranges::all_of(reader.bytes(), [](std::byte b) { return b == std::byte{0}; }),
      "fresh bytes are not zero");
  writer.bytes()[kSize - 1] = std::byte{42};
  findings.expect(reader.bytes()[kSize - 1] == std::byte{42},
                  "the two exports are not the same memory");
  writer.bytes()[kSize - 1] = std::byte{0};
}

void check_file(SharedMemory& memory, Findings& findings) {
  const auto read_only = memory.export_fd(false);
  const auto writable = memory.export_fd(true);
  if (!read_only.ok() || !writable.ok()) {
    findings.expect(false, "an export failed");
    return;
  }
  check_flags(read_only->get(), O_RDONLY, findings);
  check_flags(writable->get(), O_RDWR, findings);
  check_bytes(*read_only, *writable, findings);
  check_read_only(read_only->get(), findings);
  check_size(writable->get(), memory, findings);
}

// That are there, of a file.
std::uint64_t bytes_of(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

void check_elsewhere(SharedMemory& memory, Findings& findings) {
  using server::Elsewhere;
  constexpr const char* kNone = "sees a writer where nobody can write it";
  constexpr const char* kOne = "does not see who can write it";
  const auto is_let_go = [&] { return !memory.is_lent(); };
  findings.expect(testing::eventually(is_let_go), "stays lent for ever");
  findings.expect(memory.elsewhere() == Elsewhere::kNoWriter, kNone);
  {
    auto reader = memory.export_fd(false);
    const Mapped mapped(reader.ok() ? reader->get() : -1, PROT_READ);
    findings.expect(memory.elsewhere() == Elsewhere::kNoWriter, kNone);
    auto writer = memory.export_fd(true);
    findings.expect(memory.elsewhere() == Elsewhere::kWriter, kOne);
    const Mapped written(writer.ok() ? writer->get() : -1, PROT_READ | PROT_WRITE);
    if (writer.ok()) writer->reset();
    findings.expect(memory.elsewhere() == Elsewhere::kWriter, kOne);
  }
  findings.expect(testing::eventually(is_let_go), "stays lent for ever");
  findings.expect(memory.elsewhere() == Elsewhere::kNoWriter, kNone);
}

bool committed(SharedMemory& memory) {
  const auto fd = memory.export_fd(false);
  return fd.ok() && bytes_of(fd->get()) >= kSize;
}

// Who has kept a descriptor and a mapping, after the daemon has let the memory go.
void check_end(std::unique_ptr<SharedMemory> memory, bool revoked, Findings& findings) {
  const auto fd = memory->export_fd(true);
  const Mapped mapped(fd.ok() ? fd->get() : -1, PROT_READ | PROT_WRITE);
  if (!mapped.ok()) return findings.expect(false, "an export cannot be mapped");
  std::ranges::fill(mapped.bytes(), std::byte{7});
  findings.expect(bytes_of(fd->get()) >= kSize && mapped.bytes()[kSize / 2] == std::byte{7},
                  "pages go before the memory does");
  if (revoked) findings.expect(memory->revoke(), "does not take its pages");
  memory.reset();
  if (revoked) {
    findings.expect(bytes_of(fd->get()) == 0,
                    "who has a descriptor keeps the pages of what is nobody's");
    findings.expect(mapped.bytes()[kSize / 2] == std::byte{0},
                    "who has a mapping keeps the pages of what is nobody's");
  } else {
    findings.expect(mapped.bytes()[kSize / 2] == std::byte{7},
                    "who has a mapping loses its pages with the daemon");
  }
}

// "rw-s" and so on, of the mapping that holds the address.
std::string protection_at(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::size_t used = 0;
    const std::uintptr_t begin = std::stoull(line, &used, 16);
    const std::uintptr_t end = std::stoull(line.substr(used + 1), nullptr, 16);
    if (begin <= wanted && wanted < end) return line.substr(line.find(' ') + 1, 4);
  }
  return "not mapped";
}

// By a thread that is just letting go of one.
bool closes_soon(const std::set<std::string>& before) {
  for (int look = 0; look < 1'000 && open_files() != before; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return open_files() == before;
}

}  // namespace

std::vector<std::string> violations_of(server::DeviceBackend& backend) {
  Findings findings;
  const auto before = open_files();
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{4096}, kSize}) {
    const std::uint64_t alignment = backend.alignment_bytes(size);
    findings.expect(alignment >= 64 && (alignment & (alignment - 1)) == 0,
                    "an alignment is no power of two, or less than a cache line");
  }
  {
    const auto memory = backend.create_segment(kSize, wire::ReserveKept::kAll);
    if (!memory.ok()) return {"a segment could not be made: " + memory.status().ToString()};
    findings.expect((*memory)->data() == nullptr, "the daemon maps a segment");
    findings.expect(committed(**memory), "the bytes are not really there");
    check_file(**memory, findings);
    check_elsewhere(**memory, findings);
  }
  for (const bool revoked : {true, false}) {
    auto memory = backend.create_segment(kSize, wire::ReserveKept::kAll);
    if (memory.ok()) check_end(*std::move(memory), revoked, findings);
  }
  findings.expect(closes_soon(before), "descriptors are left behind");
  return findings.take();
}

std::vector<std::string> violations_of(server::PageSource& source) {
  Findings findings;
  const auto before = open_files();
  for (const bool daemon_writes : {true, false}) {
    const auto memory = source.create_pages(kSize, daemon_writes, wire::ReserveKept::kAll);
    if (!memory.ok()) return {"pages could not be made: " + memory.status().ToString()};
    const std::byte* data = (*memory)->data();
    findings.expect(protection_at(data) == (daemon_writes ? "rw-s" : "r--s"),
                    daemon_writes ? "the daemon cannot write its own page"
                                  : "the daemon can write a client's page");
    check_file(**memory, findings);
    check_elsewhere(**memory, findings);
    const auto fd = (*memory)->export_fd(true);
    const bool seen = fd.ok() && ::pwrite(fd->get(), "x", 1, 100) == 1 && data != nullptr &&
                      data[100] == std::byte{'x'};
    findings.expect(seen, "the daemon does not see what a client writes");
    (*memory)->change([&] { (*memory)->data()[101] = std::byte{'y'}; });
    findings.expect(data[101] == std::byte{'y'}, "a change of the daemon's is not there");
    findings.expect(protection_at(data) == (daemon_writes ? "rw-s" : "r--s"),
                    "after a change the daemon can write a client's page");
    check_end(*source.create_pages(kSize, daemon_writes, wire::ReserveKept::kAll), true, findings);
    check_end(*source.create_pages(kSize, daemon_writes, wire::ReserveKept::kAll), false, findings);
  }
  findings.expect(closes_soon(before), "descriptors are left behind");
  return findings.take();
}

}  // namespace memlease::testing
