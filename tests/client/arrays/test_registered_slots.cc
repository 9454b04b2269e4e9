// Which of a host array's slots are registered for copies on GPUs, where, and until when, on fakes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/arrays/registered_slots.h"
#include "gtest/gtest.h"
#include "tests/support/fake_importer.h"
#include "tests/support/forked.h"
#include "tests/support/gates.h"
#include "wire/unique_fd.h"

namespace memlease::internal {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kSlotBytes = RegisteredSlots::kSmallestBytes;
constexpr std::uint64_t kSegmentBytes = 4 * kSlotBytes;

class RegisteredSlotsTest : public ::testing::Test {
 protected:
  RegisteredSlotsTest() {
    EXPECT_EQ(ftruncate(file.get(), kSegmentBytes), 0);
    bytes = map(file.get(), PROT_READ | PROT_WRITE);
  }
  void TearDown() override { munmap(bytes, kSegmentBytes); }
  static std::byte* map(int fd, int access) {
    void* const made = mmap(nullptr, kSegmentBytes, access, MAP_SHARED, fd, 0);
    EXPECT_NE(made, MAP_FAILED);
    EXPECT_EQ(madvise(made, kSegmentBytes, MADV_DONTFORK), 0);
    return static_cast<std::byte*>(made);
  }
  // As a reader maps a segment that its process may write.
  static std::shared_ptr<MappedRanges> to_read(int fd) {
    return std::make_shared<MappedRanges>(map(fd, PROT_READ), kSegmentBytes, kPage, false);
  }
  RegisteredSlots::Slot slot(std::uint32_t number, std::uint64_t size_bytes = kSlotBytes) {
    return {number, 0, wire::FileId{1}, {ranges.get(), number * kSlotBytes}, size_bytes};
  }
  RegisteredBytes from(const RegisteredSlots::Slot& slot) {
    return slots.begin_copy(slot, false, slot.size_bytes, gpu, refused);
  }
  RegisteredBytes to(const RegisteredSlots::Slot& slot) {
    return slots.begin_copy(slot, true, slot.size_bytes, gpu, refused);
  }

  wire::UniqueFd file{memfd_create("segment", 0)};
  std::byte* bytes = nullptr;  // as another process has them
  std::shared_ptr<MappedRanges> ranges = to_read(file.get());
  testing::Gates gates;
  testing::FakeImporter gpu{"GPU-1", gates};
  RegisteredSlots slots;
  bool refused = false;
};

TEST_F(RegisteredSlotsTest, ASlotIsRegisteredOnceForBothDirections) {
  bytes[kSlotBytes] = std::byte{1};
  std::byte* const data = from(slot(1)).get();
  EXPECT_EQ(gpu.registered_count(), 1U);
  EXPECT_EQ(data[0], std::byte{1});
  const auto copy = to(slot(1));
  EXPECT_EQ(copy.get(), data);
  copy.get()[kSlotBytes - 1] = std::byte{2};
  EXPECT_EQ(bytes[2 * kSlotBytes - 1], std::byte{2});
  EXPECT_EQ(gpu.registered_count(), 1U);
  EXPECT_NE(from(slot(2)), nullptr);
  EXPECT_EQ(gpu.registered_count(), 2U);
}

TEST_F(RegisteredSlotsTest, SmallSlotsAreCopiedAsTheyAre) {
  EXPECT_EQ(from(slot(0, kSlotBytes - 1)), nullptr);
  EXPECT_FALSE(refused);
  EXPECT_EQ(gpu.registered_count(), 0U);
}

TEST_F(RegisteredSlotsTest, ASlotIsNotLockedForASmallPartOfIt) {
  const auto part = [this](std::uint64_t size_bytes) {
    return slots.begin_copy(slot(0), true, size_bytes, gpu, refused);
  };
  EXPECT_EQ(part(kSlotBytes / 4 - 1), nullptr);
  EXPECT_FALSE(refused);
  EXPECT_EQ(gpu.registered_count(), 0U);
  EXPECT_NE(part(kSlotBytes / 4), nullptr);
  EXPECT_EQ(gpu.registered_count(), 1U);
  EXPECT_NE(part(1), nullptr) << "it is registered already";
}

// Leases and views have other addresses, behind which pages are replaced and protected.
TEST_F(RegisteredSlotsTest, CopiesSeeTheSlotWhateverViewsDo) {
  std::byte* const data = from(slot(0)).get();
  const std::byte* const view = ranges->data();
  ASSERT_NE(data, view);
  const MappedRanges::Area area{view, kSlotBytes};
  ASSERT_TRUE(ranges->keep_copies({&area, 1}).ok());
  bytes[0] = std::byte{7};
  EXPECT_EQ(view[0], std::byte{0}) << "the view goes on to see a copy";
  EXPECT_EQ(data[0], std::byte{7});
  std::byte* const later = from(slot(1)).get();
  bytes[kSlotBytes] = std::byte{8};
  EXPECT_EQ(later[0], std::byte{8});
  ranges->let_go(view);
}

TEST_F(RegisteredSlotsTest, WhatIsRefusedIsToldOnceAndNotTriedAgain) {
  EXPECT_NE(from(slot(0)), nullptr);
  gpu.refuse_registrations(true);
  EXPECT_EQ(from(slot(1)), nullptr);
  EXPECT_TRUE(refused);
  gpu.refuse_registrations(false);
  EXPECT_EQ(from(slot(1)), nullptr);
  EXPECT_FALSE(refused);
  EXPECT_NE(from(slot(0)), nullptr) << "what is registered stays so";
}

TEST_F(RegisteredSlotsTest, AFileThatMayNotBeWrittenIsRegisteredForReading) {
  const wire::UniqueFd read_only(
      ::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
  ranges = to_read(read_only.get());
  bytes[0] = std::byte{3};
  const auto copy = from(slot(0));
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy.get()[0], std::byte{3});
  EXPECT_EQ(to(slot(0)), nullptr);
  EXPECT_FALSE(refused);
}

// The fake ends the test if pages are unmapped first.
TEST_F(RegisteredSlotsTest, PagesStayRegisteredWhileTheyAreCopied) {
  auto copy = from(slot(0));
  from(slot(1));
  EXPECT_EQ(gpu.registered_count(), 2U);
  OpenMemory gone = slots.forget_from(0);
  EXPECT_EQ(gpu.registered_count(), 2U);
  gone.clear();
  EXPECT_EQ(gpu.registered_count(), 1U);
  EXPECT_EQ(copy.get()[0], std::byte{0});
  copy = nullptr;
  EXPECT_EQ(gpu.registered_count(), 0U);
}

TEST_F(RegisteredSlotsTest, AnAddedSlotOfTheSameNumberIsAnotherOne) {
  RegisteredSlots::Slot added = slot(2);
  added.place_word = 5;
  from(added);
  added.place_word = 6;
  added.at.offset = 0;
  bytes[0] = std::byte{4};
  EXPECT_EQ(from(added).get()[0], std::byte{4});
  EXPECT_EQ(gpu.registered_count(), 2U) << "no copy waits for the end of a registration";
  slots.forget_from(3).clear();
  EXPECT_EQ(gpu.registered_count(), 1U);
}

TEST_F(RegisteredSlotsTest, OfTwoThreadsOneRegistersIt) {
  gates.shut("register_pages");
  std::thread slow([&] {
    bool not_asked = false;
    EXPECT_NE(slots.begin_copy(slot(0), false, kSlotBytes, gpu, not_asked), nullptr);
  });
  EXPECT_TRUE(gates.reached("register_pages"));
  std::byte* const data = from(slot(0)).get();
  gates.open_all();
  slow.join();
  EXPECT_EQ(gpu.registered_count(), 2U) << "no copy waits for the end of a registration";
  slots.forget_from(1).clear();
  EXPECT_EQ(gpu.registered_count(), 1U);
  EXPECT_EQ(from(slot(0)).get(), data);
}

// The addresses are free there, and may be somebody's.
TEST_F(RegisteredSlotsTest, AForkedChildUnmapsNothing) {
  auto copy = from(slot(0));
  EXPECT_EQ(testing::in_forked_child([&]() -> std::string {
              void* const own = mmap(copy.get(), kSlotBytes, PROT_READ,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
              if (own != copy.get()) return "the parent's pages are there";
              copy = nullptr;
              slots.forget_from(0).clear();
              return msync(own, kSlotBytes, MS_ASYNC) == 0 ? "its own pages stay" : "unmapped";
            }),
            "its own pages stay");
  EXPECT_EQ(gpu.registered_count(), 1U);
}

}  // namespace
}  // namespace memlease::internal
