// Has allocations of a daemon fail: the first, the second, and so on, as a test says. Used by one
// thread, and as long as the daemon lives.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/support/in_build.h"
#include "tests/support/refused_memory.h"
#include "tests/support/temporary_folder.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

class FailingMemory {
 public:
  using Mode = RefusedMemory::Mode;

  FailingMemory() {
    const wire::UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file || ::ftruncate(file.get(), sizeof(RefusedMemory)) != 0) std::abort();
    void* const page =
        ::mmap(nullptr, sizeof(RefusedMemory), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (page == MAP_FAILED) std::abort();
    page_ = new (page) RefusedMemory;
  }
  ~FailingMemory() { ::munmap(page_, sizeof(RefusedMemory)); }
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  // With which a daemon is to be started.
  std::vector<std::string> environment() const {
    return {"LD_PRELOAD=" + in_build("tests/libmemlease_failing_memory.so"),
            std::string(RefusedMemory::kVariable) + "=" + path_};
  }
  // From now on the allocation whose turn it is fails.
  void refuse(Mode mode, std::uint64_t turn) {
    page_->counted = 0;
    page_->refused = 0;
    page_->reserve_is_given = 0;
    page_->turn = turn;
    page_->mode = mode;
  }
  // Nothing fails any more. How many have.
  std::uint64_t let_be() {
    page_->mode = RefusedMemory::kNothing;
    return page_->refused;
  }
  std::uint64_t counted() const { return page_->counted; }

 private:
  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/memory";
  RefusedMemory* page_ = nullptr;
};

}  // namespace memlease::testing
