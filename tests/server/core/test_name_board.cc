// Creations are counted where those who wait for a name can see it.
#include <sys/mman.h>

#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "server/core/broker.h"
#include "tests/server/core/broker_world.h"
#include "wire/error.h"
#include "wire/shared_word.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::FakeMemory;
using testing::peer_of;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

class NameBoardTest : public ::testing::Test {
 protected:
  std::uint32_t count_of(const std::string& name) {
    const auto creations = world_.broker.creations(name);
    EXPECT_TRUE(creations.ok()) << creations.status();
    return creations->count;
  }
  std::uint64_t place_of(const std::string& name) {
    return world_.broker.creations(name)->at.offset;
  }
  // One that shares no count with `name`.
  std::string name_apart_from(const std::string& name) {
    std::string other;
    for (int i = 0; other.empty() || place_of(other) == place_of(name); ++i) {
      other = fmt::format("other/{}", i);
    }
    return other;
  }

  BrokerWorld world_;
  Session& session_ = world_.connect(1000);
};

TEST_F(NameBoardTest, ACreationChangesTheCountOfItsNameAlone) {
  const std::string other = name_apart_from("a");
  const std::uint32_t before = count_of("a");
  const std::uint32_t other_before = count_of(other);
  world_.create(session_, spec_of("a"));
  EXPECT_NE(count_of("a"), before);
  EXPECT_EQ(count_of(other), other_before);
}

TEST_F(NameBoardTest, OpeningAndWithdrawingChangeNothing) {
  world_.create(session_, spec_of("a"));
  const std::uint32_t before = count_of("a");
  world_.open(session_, "a");
  ASSERT_TRUE(world_.try_create(session_, spec_of("a"), true).ok());
  ASSERT_TRUE(world_.broker.withdraw(peer_of(1000), "a").ok());
  EXPECT_EQ(count_of("a"), before);
}

TEST_F(NameBoardTest, EverybodyMayMapItAndNobodyMayWriteIt) {
  const auto creations = world_.broker.creations("a");
  ASSERT_TRUE(creations.ok()) << creations.status();
  for (const uid_t uid : {0U, 1000U, 1001U}) {
    const auto grant = world_.broker.fetch_file(world_.connect(uid).id, creations->at.file);
    ASSERT_TRUE(grant.ok()) << grant.status();
    EXPECT_FALSE(grant->writable);
    EXPECT_EQ(grant->kind, wire::FileKind::kBoard);
    void* page = ::mmap(nullptr, grant->size_bytes, PROT_READ, MAP_SHARED, grant->fd.get(), 0);
    ASSERT_NE(page, MAP_FAILED);
    const auto& count = *reinterpret_cast<const wire::HalfWord*>(static_cast<std::byte*>(page) +
                                                                 creations->at.offset);
    const std::uint32_t before = count.load();
    world_.create(session_, spec_of("a"));
    EXPECT_NE(count.load(), before);
    ASSERT_TRUE(world_.broker.withdraw(peer_of(1000), "a").ok());
    ::munmap(page, grant->size_bytes);
  }
}

TEST_F(NameBoardTest, ThereIsNoPageBeforeSomebodyWaits) {
  world_.create(session_, spec_of("a"));
  const FakeMemory::Live before = world_.memory.live();
  world_.memory.fail_only(1);
  EXPECT_EQ(code_of(world_.broker.creations("b").status()), ErrorCode::kOutOfMemory);
  EXPECT_EQ(world_.memory.live(), before);
  count_of("b");
  count_of("c");
  EXPECT_EQ(world_.memory.live().files, before.files + 1);
}

TEST_F(NameBoardTest, ADrainHasEverybodyLookAgainAndRefusesThem) {
  const std::uint32_t before = count_of("a");
  const wire::FileRange at = world_.broker.creations("a")->at;
  const auto grant = world_.broker.fetch_file(session_.id, at.file);
  ASSERT_TRUE(grant.ok()) << grant.status();
  void* page = ::mmap(nullptr, grant->size_bytes, PROT_READ, MAP_SHARED, grant->fd.get(), 0);
  ASSERT_NE(page, MAP_FAILED);
  world_.broker.drain();
  EXPECT_NE(
      reinterpret_cast<const wire::HalfWord*>(static_cast<std::byte*>(page) + at.offset)->load(),
      before);
  EXPECT_EQ(code_of(world_.broker.creations("a").status()), ErrorCode::kDaemonUnavailable);
  ::munmap(page, grant->size_bytes);
}

}  // namespace
}  // namespace memlease::server
