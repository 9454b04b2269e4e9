// Mappings that stay are bounded.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "server/device/left_mappings.h"
#include "server/device/open_file_watch.h"
#include "wire/unique_fd.h"

namespace memlease::server {
namespace {

constexpr std::size_t kMapped = 4096;

struct ReadFile {
  wire::UniqueFd reader;
  void* data = nullptr;
  int watch = -1;

  explicit ReadFile(OpenFileWatch& files) {
    const wire::UniqueFd file(::memfd_create("read", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(file.get(), kMapped), 0);
    data = ::mmap(nullptr, kMapped, PROT_READ, MAP_SHARED, file.get(), 0);
    EXPECT_NE(data, MAP_FAILED);
    reader.reset(::open(fmt::format("/proc/self/fd/{}", file.get()).c_str(), O_RDONLY | O_CLOEXEC));
    watch = files.begin(reader.get());
  }
  std::byte* bytes() const { return static_cast<std::byte*>(data); }
  bool is_mapped() const { return ::msync(data, kMapped, MS_ASYNC) == 0; }
};

TEST(LeftMappings, OneGoesWhereThereWouldBeTooMany) {
  const auto files = std::make_shared<OpenFileWatch>();
  std::vector<ReadFile> all;
  for (int i = 0; i < 4; ++i) all.emplace_back(*files);
  const auto mapped = [&] {
    return std::ranges::count_if(all, [](const ReadFile& read) { return read.is_mapped(); });
  };
  {
    LeftMappings left(files, 2);
    for (const ReadFile& read : all) left.unmap(read.bytes(), kMapped, read.watch);
    EXPECT_EQ(mapped(), 2);
  }
  EXPECT_EQ(mapped(), 0) << "the daemon ends";
}

TEST(LeftMappings, NoneStaysOfWhichNobodyCanTell) {
  const auto files = std::make_shared<OpenFileWatch>();
  LeftMappings left(files);
  const ReadFile read(*files);
  files->end(read.watch);
  left.unmap(read.bytes(), kMapped, -1);
  EXPECT_FALSE(read.is_mapped());
}

TEST(LeftMappings, EachGoesInItsTurnOnceNobodyHasIt) {
  const auto files = std::make_shared<OpenFileWatch>();
  LeftMappings left(files);
  std::vector<ReadFile> all;
  for (int i = 0; i < 100; ++i) all.emplace_back(*files);
  for (const ReadFile& read : all) left.unmap(read.bytes(), kMapped, read.watch);
  const auto mapped = [&] {
    return std::ranges::count_if(all, [](const ReadFile& read) { return read.is_mapped(); });
  };
  EXPECT_EQ(mapped(), 100);
  for (int i = 0; i < 90; ++i) all[static_cast<std::size_t>(i)].reader.reset();
  for (int i = 0; i < 8; ++i) {
    ReadFile unread(*files);
    unread.reader.reset();
    left.unmap(unread.bytes(), kMapped, unread.watch);
  }
  EXPECT_EQ(mapped(), 10);
}

}  // namespace
}  // namespace memlease::server
