// Tells when nobody can write a file any more, also where the news are lost.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "server/device/open_file_watch.h"
#include "wire/unique_fd.h"

namespace memlease::server {
namespace {

constexpr std::size_t kFileBytes = 4096;

// As the daemon has one: its first descriptor, which no watch sees, is closed.
struct WatchedFile {
  wire::UniqueFd reader = opened(wire::UniqueFd(::memfd_create("file", MFD_CLOEXEC)), O_RDONLY);
  wire::UniqueFd writer = opened(reader, O_RDWR);

  static wire::UniqueFd opened(const wire::UniqueFd& fd, int flags) {
    if (flags == O_RDONLY) {
      EXPECT_EQ(::ftruncate(fd.get(), kFileBytes), 0);
    }
    return wire::UniqueFd(
        ::open(fmt::format("/proc/self/fd/{}", fd.get()).c_str(), flags | O_CLOEXEC));
  }
};

TEST(OpenFileWatch, AWriterHasGoneWithItsLastDescriptorAndMapping) {
  OpenFileWatch watch;
  WatchedFile file;
  WatchedFile other;
  const int of_other = watch.begin(other.writer.get());
  const int of_file = watch.begin(file.writer.get());
  EXPECT_EQ(watch.has_gone(of_file), false);
  wire::UniqueFd copy(::fcntl(file.writer.get(), F_DUPFD_CLOEXEC, 0));
  void* const data =
      ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.writer.get(), 0);
  ASSERT_NE(data, MAP_FAILED);
  file.writer.reset();
  EXPECT_EQ(watch.has_gone(of_file), false) << "there is a copy";
  copy.reset();
  EXPECT_EQ(watch.has_gone(of_file), false) << "it is mapped";
  ASSERT_EQ(::munmap(data, kFileBytes), 0);
  EXPECT_EQ(watch.has_gone(of_file), true);
  EXPECT_EQ(watch.has_gone(of_file), true) << "and stays so";
  EXPECT_EQ(watch.has_gone(of_other), false);
  watch.end(of_file);
  EXPECT_EQ(watch.has_gone(of_file), std::nullopt);
  watch.end(of_other);
}

TEST(OpenFileWatch, ItBeginsAgainWithTheNextOneThatIsOpened) {
  OpenFileWatch watch;
  WatchedFile file;
  const int first = watch.begin(file.writer.get());
  file.writer.reset();
  file.writer = WatchedFile::opened(file.reader, O_RDWR);
  const int of_file = watch.begin(file.writer.get());
  EXPECT_EQ(of_file, first);
  EXPECT_EQ(watch.has_gone(of_file), false);
  file.writer.reset();
  EXPECT_EQ(watch.has_gone(of_file), true);
}

TEST(OpenFileWatch, NobodyCanTellWithoutAWatch) {
  OpenFileWatch watch;
  EXPECT_LT(watch.begin(-1), 0) << "there is no such file";
  EXPECT_EQ(watch.has_gone(-1), std::nullopt);
  watch.end(-1);
}

// The kernel keeps some (fs.inotify.max_queued_events), and says that there were more.
TEST(OpenFileWatch, NobodyCanTellAfterNewsHaveBeenLost) {
  OpenFileWatch watch;
  WatchedFile file;
  WatchedFile noisy[2];
  const int of_file = watch.begin(file.writer.get());
  const int of_noisy[] = {watch.begin(noisy[0].writer.get()), watch.begin(noisy[1].writer.get())};
  int kept = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> kept;
  ASSERT_GT(kept, 0);
  for (int i = 0; i < kept + 10; ++i) {  // alternately: two like each other are one
    ASSERT_TRUE(WatchedFile::opened(noisy[i % 2].reader, O_RDWR));
  }
  file.writer.reset();
  EXPECT_EQ(watch.has_gone(of_file), std::nullopt);
  EXPECT_EQ(watch.has_gone(of_noisy[0]), true);
  WatchedFile later;
  const int of_later = watch.begin(later.writer.get());
  EXPECT_EQ(watch.has_gone(of_later), false);
  later.writer.reset();
  EXPECT_EQ(watch.has_gone(of_later), true);
}

}  // namespace
}  // namespace memlease::server
