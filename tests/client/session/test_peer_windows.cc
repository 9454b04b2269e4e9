// Where pages of other processes are shown: which addresses are used again, and for how long they
// may be read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>

#include "client/session/peer_windows.h"
#include "gtest/gtest.h"
#include "tests/support/forked.h"

namespace memlease::internal {
namespace {

constexpr std::uint64_t kWindowBytes = 4096;

// Where a page of another process is mapped.
std::byte* show_page(void* where = nullptr) {
  const int fixed = where == nullptr ? 0 : MAP_FIXED_NOREPLACE;
  void* const data =
      mmap(where, kWindowBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  EXPECT_NE(data, MAP_FAILED);
  *static_cast<std::byte*>(data) = std::byte{42};
  return static_cast<std::byte*>(data);
}

bool is_mapped(std::byte* data) { return msync(data, kWindowBytes, MS_ASYNC) == 0; }

TEST(PeerWindows, ShowPagesOfSessionsThatThisProcessMayNotWrite) {
  const auto shows = [](wire::FileKind kind, bool writable) {
    return PeerWindows::shows(SharedFile{{}, kind, kWindowBytes, writable});
  };
  EXPECT_TRUE(shows(wire::FileKind::kSessionPage, false));
  EXPECT_FALSE(shows(wire::FileKind::kSessionPage, true)) << "its own";
  EXPECT_FALSE(shows(wire::FileKind::kBoard, false));
  EXPECT_FALSE(shows(wire::FileKind::kSegment, false));
}

TEST(PeerWindows, AreTakenOnceAndByAPageOfTheirSize) {
  PeerWindows windows;
  EXPECT_EQ(windows.take(kWindowBytes), nullptr) << "there is none yet";
  std::byte* const window = show_page();
  windows.give_back(window, kWindowBytes);
  EXPECT_EQ(windows.take(2 * kWindowBytes), nullptr);
  EXPECT_EQ(windows.take(kWindowBytes / 2), nullptr);
  EXPECT_EQ(windows.take(kWindowBytes), window);
  EXPECT_EQ(windows.take(kWindowBytes), nullptr);
  windows.give_back(window, kWindowBytes);
}

TEST(PeerWindows, AFreeOneReadsAsZerosUntilAllEnd) {
  auto windows = std::make_unique<PeerWindows>();
  std::byte* const free = show_page();
  std::byte* const in_use = show_page();
  windows->give_back(free, kWindowBytes);
  EXPECT_EQ(*free, std::byte{0});
  windows.reset();
  EXPECT_FALSE(is_mapped(free));
  EXPECT_TRUE(is_mapped(in_use)) << "its mapping unmaps it";
  munmap(in_use, kWindowBytes);
}

// Nor does their end touch what the child has there by then.
TEST(PeerWindows, AForkedChildHasNone) {
  auto windows = std::make_unique<PeerWindows>();
  std::byte* const window = show_page();
  windows->give_back(window, kWindowBytes);
  EXPECT_EQ(testing::in_forked_child([&]() -> std::string {
              if (is_mapped(window)) return "the window is there";
              show_page(window);
              windows.reset();
              return is_mapped(window) ? "keeps its page" : "has lost its page";
            }),
            "keeps its page");
}

}  // namespace
}  // namespace memlease::internal
