// Numbers of shared files are used again, and never while somebody may know them.
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/broker.h"
#include "server/core/file_table.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/let_go.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using ::testing::ElementsAre;
using testing::FakeMemory;
using testing::peer_of;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;
using wire::FileId;
using wire::SessionId;

constexpr std::uint32_t kNumbers = 64;

struct Table {
  FakeMemory memory;
  Quota quota{{}};
  std::vector<std::shared_ptr<Garbage>> heap;  // that could not go
  FileTable files{quota,
                  [this](uid_t, std::shared_ptr<Garbage> garbage) {
                    heap.push_back(std::move(garbage));
                    testing::let_go(heap);
                  },
                  kNumbers};

  absl::StatusOr<FileId> add(uid_t uid = 1000) {
    auto pages = memory.create_pages(4096, true, wire::ReserveKept::kAll);
    EXPECT_TRUE(pages.ok()) << pages.status();
    return files.add({std::move(*pages), wire::FileKind::kBoard, {uid, 1000, 0600}, {}}, uid);
  }
  FileId added(uid_t uid = 1000) {
    const auto id = add(uid);
    EXPECT_TRUE(id.ok()) << id.status();
    return *id;
  }
};

TEST(FileNumbers, ANumberRestsAsLongAsItCan) {
  Table table;
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t number = 1; number <= kNumbers; ++number) {
      const FileId id = table.added();
      EXPECT_EQ(wire::to_int(id), number);
      table.files.remove(id);
    }
  }
  EXPECT_EQ(table.memory.live().files, 0U);
}

TEST(FileNumbers, ANumberInUseIsLeftOut) {
  Table table;
  const FileId stays = table.added();
  for (std::uint32_t i = 0; i < 3 * kNumbers; ++i) {
    const FileId id = table.added();
    EXPECT_NE(id, stays);
    table.files.remove(id);
  }
  EXPECT_NE(table.files.find(stays), nullptr);
}

TEST(FileNumbers, WhoWasGivenAFileNeverMeetsItsNumberAgain) {
  Table table;
  const SessionId reader{7};
  const FileId known = table.added();
  ASSERT_TRUE(table.files.grant(known, peer_of(1000), reader, false).ok());
  ASSERT_TRUE(table.files.grant(known, peer_of(1000), reader, false).ok());  // counts once
  table.files.remove(known);
  EXPECT_EQ(table.files.find(known), nullptr);
  const auto comes_again = [&] {
    bool met = false;
    for (std::uint32_t i = 0; i < 2 * kNumbers; ++i) {
      const FileId id = table.added();
      met = met || id == known;
      table.files.remove(id);
    }
    return met;
  };
  EXPECT_FALSE(comes_again());
  table.files.session_ended(SessionId{8});  // somebody else
  EXPECT_FALSE(comes_again());
  table.files.session_ended(reader);
  EXPECT_TRUE(comes_again());
}

TEST(FileNumbers, ARefusedFetchKnowsNothing) {
  Table table;
  const FileId id = table.added();
  EXPECT_EQ(code_of(table.files.grant(id, peer_of(2000), SessionId{7}, false).status()),
            ErrorCode::kNotFound);
  table.files.remove(id);
  std::set<FileId> met;
  for (std::uint32_t i = 0; i < kNumbers; ++i) met.insert(table.added());
  EXPECT_TRUE(met.contains(id));
}

TEST(FileNumbers, AnErrorSaysThatAllAreTakenAndByWhom) {
  Table table;
  const SessionId reader{7};
  for (std::uint32_t i = 0; i < kNumbers; ++i) {
    const FileId id = table.added();
    table.files.pin(id, reader, 1000);
    if (i % 2 == 0) table.files.remove(id);
  }
  const auto none = table.add();
  EXPECT_EQ(code_of(none.status()), ErrorCode::kOutOfMemory);
  const std::string message = wire::message_of(none.status());
  EXPECT_NE(message.find("all 64 numbers of shared files are taken"), std::string::npos) << message;
  EXPECT_EQ(table.memory.live().files, kNumbers / 2);
  table.files.session_ended(reader);
  EXPECT_TRUE(table.add().ok());
}

// ---- As clients do it.

struct FewNumbers {
  BrokerWorld world{{{}, {}, kNumbers}};

  void end(SessionId id) {
    world.broker.hang_up(id, Farewell::kNone);
    world.broker.exited(id);
  }
};

TEST(FileNumbers, ThousandsOfProcessesComeAndGo) {
  FewNumbers few;
  BrokerWorld& world = few.world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  for (int i = 0; i < 2000; ++i) {
    Session& reader = world.connect(1000);
    world.open(reader, "u");
    const auto subscribed = world.broker.subscribe(reader, id);
    ASSERT_TRUE(subscribed.ok()) << subscribed.status();
    ASSERT_TRUE(world.broker.fetch_file(reader.id, subscribed->row.file).ok());
    few.end(reader.id);
  }
}

TEST(FileNumbers, ThousandsOfArraysComeAndGoBesideAProcessThatLives) {
  FewNumbers few;
  BrokerWorld& world = few.world;
  Session& lives = world.connect(1000);
  world.create(lives, spec_of("kept"));
  const wire::ArraySpec own_class = spec_of("u", 0640);  // its files go with it
  for (int i = 0; i < 2000; ++i) {
    Session& passing = world.connect(1001);
    const auto opened = world.try_create(passing, own_class);
    ASSERT_TRUE(opened.ok()) << opened.status();
    for (const FileId file : {opened->array->board_at.file, opened->array->slots[0].file}) {
      ASSERT_TRUE(world.broker.fetch_file(passing.id, file).ok());
    }
    few.end(passing.id);
  }
}

// A reader that lives keeps the rows of the writers that it has followed by their numbers.
TEST(FileNumbers, AProcessThatLivesNeverMeetsANumberTwice) {
  FewNumbers few;
  BrokerWorld& world = few.world;
  Session& lives = world.connect(1000);
  const auto id = world.create(lives, spec_of("u"));
  std::set<FileId> met;
  absl::Status refused;
  for (std::uint32_t i = 0; i <= kNumbers; ++i) {
    Session& writer = world.connect(1000);
    world.open(writer, "u");
    const auto answer = world.broker.acquire_writer(writer, id);
    if (!answer.ok()) {
      refused = answer.status();
      break;
    }
    ASSERT_TRUE(world.broker.fetch_file(lives.id, answer->row.file).ok());
    EXPECT_TRUE(met.insert(answer->row.file).second) << "a number means two files";
    few.end(writer.id);
  }
  EXPECT_EQ(code_of(refused), ErrorCode::kOutOfMemory);
  EXPECT_GT(met.size(), kNumbers / 2);
}

TEST(FileNumbers, WhoWasToldOfAnArraysFilesNeverMeetsTheirNumbersAgain) {
  FewNumbers few;
  BrokerWorld& world = few.world;
  Session& owner = world.connect(1000);
  Session& late = world.connect(1001);
  const auto opened = world.try_create(owner, spec_of("u", 0604));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::set<FileId> told{opened->array->board_at.file, opened->array->slots[0].file};
  world.open(late, "u");
  few.end(owner.id);  // with the array, before `late` has fetched anything
  for (std::uint32_t i = 0; i < 2 * kNumbers; ++i) {
    Session& passing = world.connect(1000);
    const auto other = world.try_create(passing, spec_of("u", 0604));
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_FALSE(told.contains(other->array->board_at.file));
    EXPECT_FALSE(told.contains(other->array->slots[0].file));
    few.end(passing.id);
  }
}

// How descriptors of it are asked for.
class NotedMemory : public SharedMemory {
 public:
  explicit NotedMemory(std::vector<std::string>& exports) : exports_(exports) {}
  std::uint64_t size_bytes() const override { return 4096; }
  std::byte* data() override { return nullptr; }
  absl::StatusOr<wire::SharedFd> export_fd(bool writable) override {
    exports_.emplace_back(writable ? "writer" : "reader");
    return wire::SharedFd(wire::UniqueFd(::eventfd(0, EFD_CLOEXEC)));
  }

 private:
  std::vector<std::string>& exports_;
};

// Until it has its writer it can be made to wait (SharedMemory::export_fd) by who reads it.
TEST(GrantedFiles, WhatClientsWriteHasItsWriterBeforeAnybodyReadsIt) {
  const SessionId owner{7}, reader{8};
  for (const auto kind : {wire::FileKind::kSegment, wire::FileKind::kSessionPage,
                          wire::FileKind::kEvents, wire::FileKind::kBoard}) {
    Table table;
    std::vector<std::string> exports;
    const auto id = table.files.add(
        {std::make_unique<NotedMemory>(exports), kind, {1000, 1000, 0644}, owner}, 1000);
    ASSERT_TRUE(id.ok()) << id.status();
    ASSERT_TRUE(table.files.grant(*id, peer_of(2000), reader, true).ok());
    if (kind == wire::FileKind::kBoard) {
      EXPECT_THAT(exports, ElementsAre("reader")) << "the daemon writes it";
      EXPECT_EQ(table.quota.used_by(1000).descriptors, 2U);
      continue;
    }
    EXPECT_THAT(exports, ElementsAre("writer", "reader"));
    ASSERT_TRUE(table.files.grant(*id, peer_of(1000), owner, true).ok());
    EXPECT_EQ(exports.back(), "writer");
    EXPECT_EQ(exports.size(), 3U);
    EXPECT_EQ(table.quota.used_by(1000).descriptors, 3U);
  }
}

TEST(GrantedFiles, NobodyReadsWhatHasNoRoomForItsWriter) {
  Usage limits;
  limits.descriptors = 2;
  Quota quota{limits};
  std::vector<std::string> exports;
  FileTable files{quota, testing::let_go_once, kNumbers};
  const auto id = files.add({std::make_unique<NotedMemory>(exports),
                             wire::FileKind::kSessionPage,
                             {1000, 1000, 0644},
                             SessionId{7}},
                            1000);
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(code_of(files.grant(*id, peer_of(2000), SessionId{8}, false).status()),
            ErrorCode::kQuotaExceeded);
  EXPECT_THAT(exports, ElementsAre());
}

// Of the file's pages, by a descriptor that somebody has kept.
std::uint64_t blocks_of(const wire::SharedFd& kept) {
  struct stat info{};
  EXPECT_EQ(::fstat(kept.get(), &info), 0);
  return static_cast<std::uint64_t>(info.st_blocks);
}

TEST(RemovedFiles, AreEmptyForWhoeverHasThemOpenUntilTheDaemonEnds) {
  Table table;
  const auto kept_of = [&](FileId id) {
    auto fd = table.files.find(id)->memory->export_fd(false);
    EXPECT_TRUE(fd.ok()) << fd.status();
    return *std::move(fd);
  };
  const FileId gone = table.added();
  const FileId with_events = table.added();
  const FileId at_the_end = table.added();
  table.files.never_revoke(with_events);
  const auto kept = kept_of(gone);
  const auto kept_events = kept_of(with_events);
  const auto kept_at_the_end = kept_of(at_the_end);
  EXPECT_GT(blocks_of(kept), 0U);
  table.files.remove(gone);
  EXPECT_EQ(blocks_of(kept), 0U);
  table.files.remove(with_events);
  EXPECT_GT(blocks_of(kept_events), 0U) << "a stream may wait for a word there";
  table.files.leave_to_clients();
  table.files.remove(at_the_end);
  EXPECT_GT(blocks_of(kept_at_the_end), 0U);
  EXPECT_EQ(table.memory.live().files, 0U);
}

// Who writes a file can make whoever takes its pages wait.
TEST(RemovedFiles, StayAndAreChargedWhileSomebodyCanWriteThem) {
  Table table;
  const FileId id = table.added();
  auto writer = table.files.find(id)->memory->export_fd(true);
  ASSERT_TRUE(writer.ok());
  const auto reader = table.files.find(id)->memory->export_fd(false);
  ASSERT_TRUE(reader.ok());
  const Usage before = table.quota.used_by(1000);
  EXPECT_EQ(before.page_bytes, 4096U);
  table.files.remove(id);
  EXPECT_EQ(table.files.find(id), nullptr);
  testing::let_go(table.heap);
  EXPECT_EQ(table.heap.size(), 1U);
  EXPECT_EQ(table.quota.used_by(1000), before);
  EXPECT_GT(blocks_of(*writer), 0U);
  writer->reset();
  testing::let_go(table.heap);
  EXPECT_TRUE(table.heap.empty());
  EXPECT_EQ(table.quota.used_by(1000), Usage{});
  EXPECT_EQ(blocks_of(*reader), 0U);
  EXPECT_EQ(table.memory.live().files, 0U);
}

// Somebody may be sending it just now.
class LentMemory : public SharedMemory {
 public:
  explicit LentMemory(bool& lent) : lent_(lent) {}
  ~LentMemory() override { EXPECT_FALSE(lent_); }
  std::uint64_t size_bytes() const override { return 4096; }
  std::byte* data() override { return nullptr; }
  absl::StatusOr<wire::SharedFd> export_fd(bool /*writable*/) override { return wire::SharedFd(); }
  bool is_lent() const override { return lent_; }
  Elsewhere elsewhere() override { return Elsewhere::kNoWriter; }

 private:
  bool& lent_;
};

TEST(RemovedFiles, StayWhileSomebodyHasBorrowedADescriptor) {
  Table table;
  bool lent = true;
  const auto id = table.files.add({std::make_unique<LentMemory>(lent),
                                   wire::FileKind::kSessionPage,
                                   {1000, 1000, 0600},
                                   SessionId{7}},
                                  1000);
  ASSERT_TRUE(id.ok()) << id.status();
  table.files.remove(*id);
  testing::let_go(table.heap);
  EXPECT_EQ(table.heap.size(), 1U);
  EXPECT_EQ(table.quota.used_by(1000).page_bytes, 4096U);
  lent = false;
  testing::let_go(table.heap);
  EXPECT_TRUE(table.heap.empty());
  EXPECT_EQ(table.quota.used_by(1000), Usage{});
}

// Who finds no room waits for what is on its way, and not for what is kept.
TEST(RemovedFiles, AreChargedUntilTheyAreKnownToHaveGone) {
  FakeMemory memory;
  Quota quota{{}};
  std::vector<std::shared_ptr<Garbage>> heap;
  FileTable files{quota, [&](uid_t uid, std::shared_ptr<Garbage> garbage) {
                    EXPECT_EQ(uid, 1000U);
                    heap.push_back(std::move(garbage));
                  }};
  const auto add = [&] {
    auto pages = memory.create_pages(4096, true, wire::ReserveKept::kAll);
    return files.add({std::move(*pages), wire::FileKind::kBoard, {1000, 1000, 0600}, {}}, 1000)
        .value();
  };
  const FileId kept = add();
  auto writer = files.find(kept)->memory->export_fd(true);
  files.remove(kept);
  files.remove(add());
  EXPECT_EQ(files.going_of(1000), 2U);
  EXPECT_EQ(files.going_of(1001), 0U);
  EXPECT_EQ(quota.used_by(1000).descriptors, 4U);
  testing::let_go(heap);
  EXPECT_EQ(files.going(), 0U);
  EXPECT_EQ(files.going_of(1000), 0U);
  EXPECT_EQ(quota.used_by(1000).descriptors, 2U);
  writer->reset();
  testing::let_go(heap);
  EXPECT_EQ(files.going(), 0U);
  EXPECT_EQ(quota.used_by(1000), Usage{});
}

TEST(RemovedFiles, ADaemonThatEndsLeavesToItsClientsWhatTheyHaveOpen) {
  wire::SharedFd segment;
  wire::SharedFd board;
  wire::SharedFd row;
  {
    BrokerWorld world;
    Session& session = world.connect(1000);
    const auto id = world.create(session, spec_of("a"));
    const Array& array = *world.broker.catalog().find(id);
    const auto fetch = [&](FileId file) {
      auto grant = world.broker.fetch_file(session.id, file);
      EXPECT_TRUE(grant.ok()) << grant.status();
      return std::move(grant->fd);
    };
    segment = fetch(array.slots.front().file);
    board = fetch(array.board_at.file);
    const auto subscribed = world.broker.subscribe(session, id);
    ASSERT_TRUE(subscribed.ok());
    row = fetch(subscribed->row.file);
  }
  for (const wire::SharedFd* kept : {&segment, &board, &row}) EXPECT_GT(blocks_of(*kept), 0U);
}

}  // namespace
}  // namespace memlease::server
