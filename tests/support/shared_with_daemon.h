// What a test shares with a library that is loaded into its daemon before all else: a T in a file
// that both map. tests/support/shared_with_test.h is the library's half.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/in_build.h"
#include "tests/support/temporary_folder.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

// To be there as long as the daemon. T::kVariable is that of the environment which names the file.
template <typename T>
class SharedWithDaemon {
 public:
  // `library`: as the build has it, "tests/libx.so".
  explicit SharedWithDaemon(std::string library) : library_(std::move(library)) {
    const wire::UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file || ::ftruncate(file.get(), sizeof(T)) != 0) std::abort();
    void* const data =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (data == MAP_FAILED) std::abort();
    shared_ = new (data) T{};
  }
  ~SharedWithDaemon() { ::munmap(shared_, sizeof(T)); }
  SharedWithDaemon(const SharedWithDaemon&) = delete;
  SharedWithDaemon& operator=(const SharedWithDaemon&) = delete;

  T* operator->() const { return shared_; }
  // With which the daemon is to be started.
  std::vector<std::string> environment() const {
    return {"LD_PRELOAD=" + in_build(library_), std::string(T::kVariable) + "=" + path_};
  }

 private:
  const std::string library_;
  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/shared";
  T* shared_ = nullptr;
};

}  // namespace memlease::testing
