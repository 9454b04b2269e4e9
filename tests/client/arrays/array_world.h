// One array of a client without a daemon: the client's half is real, on a fake of the daemon's
// calls and of its files. Another process's pages are the test's to write, and what the daemon does
// to the board its own code does.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "client/arrays/open_array.h"
#include "gtest/gtest.h"
#include "server/core/slot_board.h"
#include "tests/support/fake_array_owner.h"
#include "tests/support/fake_control.h"
#include "tests/support/fake_files.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"
#include "wire/board.h"
#include "wire/futex.h"

namespace memlease::testing {

class ArrayWorld {
 public:
  static constexpr wire::ArrayId kId{9};
  // Of another process: its writer row, and its reader row.
  static constexpr wire::RowRef kWriter{wire::FileId{4}, 0};
  static constexpr wire::RowRef kReader{wire::FileId{4}, 16};
  // This process's.
  static constexpr wire::RowRef kOwnReader{wire::FileId{3}, 16};
  static constexpr wire::RowRef kOwnWriter{wire::FileId{3}, 32};
  // Of an array on a GPU.
  static constexpr wire::FileId kEvents{5};

  explicit ArrayWorld(std::uint32_t slots = 2, std::uint32_t max_slots = 0) {
    files->kinds = {{kBoard, wire::FileKind::kBoard},
                    {wire::to_int(kOwnReader.file), wire::FileKind::kSessionPage},
                    {wire::to_int(kWriter.file), wire::FileKind::kSessionPage},
                    {wire::to_int(kEvents), wire::FileKind::kEvents}};
    control->row = kOwnReader;
    answer.id = kId;
    answer.spec.name = "a";
    answer.spec.slots = slots;
    answer.spec.max_slots = max_slots == 0 ? slots : max_slots;
    answer.slot_bytes = 64;
    answer.may_write = true;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      answer.slots.push_back({wire::FileId{kSegment}, slot * 64});
    }
    answer.board_record = {wire::FileId{kBoard}, 0};
    server::init_board(board(), kId, slots, kWriter);
    server::set_writer(board(), kWriter, false);
  }

  std::byte* page(wire::FileId file) {
    auto mapped = owner->session().mappings().get(
        file, file == wire::FileId{kBoard} ? wire::FileKind::kBoard : wire::FileKind::kSessionPage,
        internal::kNoInterrupts);
    EXPECT_TRUE(mapped.ok()) << mapped.status();
    kept.push_back(*mapped);
    return kept.back()->data();
  }
  template <typename Row>
  Row& row(wire::RowRef at) {
    return *reinterpret_cast<Row*>(page(at.file) + at.unit * wire::kRowUnitBytes);
  }
  wire::BoardRecord& board() {
    return *reinterpret_cast<wire::BoardRecord*>(page(wire::FileId{kBoard}));
  }

  // This process has none of the files mapped any more that no array of its own needs.
  void unmap() { kept.clear(); }
  // The next fetch is not answered.
  void stop_files() { files->answers = files->fetches.load(); }
  void go_on() { files->answers = std::numeric_limits<int>::max(); }

  absl::StatusOr<std::unique_ptr<internal::OpenArray>> try_open(
      internal::InterruptCheck interrupt = internal::kNoInterrupts) {
    return internal::OpenArray::open(owner, answer, interrupt);
  }
  // The array's first handle.
  std::shared_ptr<internal::OpenArray> open() {
    auto array = try_open();
    EXPECT_TRUE(array.ok()) << array.status();
    std::shared_ptr<internal::OpenArray> handle = std::move(*array);
    owner->handle = handle;
    return handle;
  }

  // Another process publishes the version, in slot 1 if it is odd, else in slot 0, and wakes
  // whoever sleeps on that.
  void publish_elsewhere(std::uint64_t version = 1) {
    const auto slot = static_cast<std::uint32_t>(version % 2);
    auto& writer = row<wire::WriterRow>(kWriter);
    writer.slot_words()[slot].store(version);
    writer.highest_used.store(version);
    writer.publication.store(wire::pack({version, slot}));
    ++writer.publish_count;
    wire::futex_wake_all(writer.publish_count);
  }
  // Another process reads the slot.
  void read_elsewhere(std::uint32_t slot) {
    if (board().subscribers.entries[0].load() == 0) {
      server::add_subscriber(board(), board().subscribers.entries[0], kReader);
    }
    ++row<wire::ReaderRow>(kReader).holds()[slot];
  }
  void release_elsewhere(std::uint32_t slot) { --row<wire::ReaderRow>(kReader).holds()[slot]; }
  // The daemon gives the array's ownership to whoever asks: at once, or by an offer of what the
  // other process has published.
  void grant_ownership() {
    control->on_acquire_writer = [this] {
      server::set_writer(board(), kOwnWriter, false);
      return internal::WriterAnswer{internal::WriterAnswer::State::kGranted, kOwnWriter, {}, 0};
    };
  }
  void offer_ownership() {
    control->on_acquire_writer = [] {
      return internal::WriterAnswer{internal::WriterAnswer::State::kOffered, kOwnWriter, kWriter,
                                    5};
    };
    control->on_confirm_writer = [this](std::uint64_t offer) {
      EXPECT_EQ(offer, 5U);
      server::set_writer(board(), kOwnWriter, false);
      return absl::OkStatus();
    };
  }

  Gates gates;
  FakeImporter gpu{"GPU-1", gates};
  FakeFiles* const files = new FakeFiles;        // the session's
  FakeControl* const control = new FakeControl;  // likewise
  const std::shared_ptr<FakeArrayOwner> owner = std::make_shared<FakeArrayOwner>(
      std::make_unique<internal::Session>("/here", wire::SessionId{7},
                                          std::unique_ptr<internal::FileSource>(files),
                                          std::unique_ptr<internal::ControlPort>(control)),
      gpu);
  internal::OpenAnswer answer;
  std::vector<std::shared_ptr<internal::Mapping>> kept;

 private:
  static constexpr std::uint32_t kBoard = 1, kSegment = 2;
};

}  // namespace memlease::testing
