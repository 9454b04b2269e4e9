// Who may do what, as the broker sees it: tokens, files, quotas, and that a name that one may not
// see looks like a name that does not exist.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/broker.h"
#include "tests/server/core/broker_world.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::credential_of;
using ::testing::HasSubstr;
using testing::peer_of;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;
using wire::FileKind;

TEST(BrokerToken, SpeaksForItsSessionOnAConnectionOfItsUid) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  const auto found = world.broker.authenticate(credential_of(session), 1000);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, &session);
}

TEST(BrokerToken, EveryOtherCredentialGetsOneAndTheSameAnswer) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  Session& neighbour = world.connect(1000);
  Session& hung_up = world.connect(1000);
  world.broker.hang_up(hung_up.id, Farewell::kNone);
  Session& ended = world.connect(1000);
  const auto of_ended = credential_of(ended);
  world.broker.exited(ended.id);

  const auto good = credential_of(session);
  std::vector<std::pair<std::vector<std::uint8_t>, uid_t>> bad = {
      {good, 1001},  // foreign
      {good, 0},     // root's connections have sessions of their own
      {credential_of(hung_up), 1000},
      {of_ended, 1000},
      {{}, 1000},
      {std::vector<std::uint8_t>(36, 0), 1000},
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto changed = good;
    changed[i] ^= 0x40;
    bad.emplace_back(changed, 1000);
    bad.emplace_back(std::vector<std::uint8_t>(good.begin(), good.begin() + static_cast<long>(i)),
                     1000);
  }
  auto longer = good;
  longer.push_back(0);
  bad.emplace_back(longer, 1000);
  auto mixed = credential_of(neighbour);
  std::copy(good.begin(), good.begin() + 4, mixed.begin());  // my id, my neighbour's token
  bad.emplace_back(mixed, 1000);

  const auto expected = world.broker.authenticate({}, 1000).status();
  EXPECT_EQ(code_of(expected), ErrorCode::kDenied);
  for (const auto& [credential, uid] : bad) {
    EXPECT_EQ(world.broker.authenticate(credential, uid).status(), expected);
  }
}

// The same question before and after the name ceases to exist must get the same answer.
TEST(BrokerAccess, AForbiddenArrayLooksLikeNone) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& stranger = world.connect(1001);
  world.create(owner, spec_of("secret", 0660));
  const auto answers = [&] {
    return std::vector<absl::Status>{
        world.broker.open(stranger, "secret").status(),
        world.broker.withdraw(stranger.peer, "secret"),
    };
  };
  const auto forbidden = answers();
  EXPECT_FALSE(world.broker.exists(stranger.peer, "secret"));
  EXPECT_TRUE(world.names(stranger.peer).empty());
  ASSERT_TRUE(world.broker.withdraw(owner.peer, "secret").ok());
  const auto unknown = answers();
  EXPECT_EQ(forbidden, unknown);
  for (const absl::Status& status : unknown) EXPECT_EQ(code_of(status), ErrorCode::kNotFound);
}

TEST(BrokerAccess, ExistOkOpensNoDoor) {
  BrokerWorld world;
  world.create(world.connect(1000), spec_of("secret"));
  Session& stranger = world.connect(1001);
  for (const bool exist_ok : {false, true}) {
    const auto taken = world.try_create(stranger, spec_of("secret"), exist_ok).status();
    EXPECT_EQ(code_of(taken), ErrorCode::kAlreadyExists);
    EXPECT_THAT(wire::message_of(taken), HasSubstr("that you may not read"));
    EXPECT_THAT(wire::hint_of(taken), HasSubstr("another name"));
  }
  EXPECT_TRUE(stranger.memberships.empty());
}

TEST(BrokerAccess, WhoeverWantsAnArrayOfOneUserGetsNoOtherOnes) {
  BrokerWorld world;
  Session& mallory = world.connect(1001);
  world.create(mallory, spec_of("u", 0644));
  Session& reader = world.connect(1002);
  const auto refused = world.broker.open(reader, "u", 1000).status();
  EXPECT_EQ(code_of(refused), ErrorCode::kDenied);
  EXPECT_THAT(wire::message_of(refused), HasSubstr("'u' is an array of uid 1001, not of uid 1000"));
  EXPECT_TRUE(reader.memberships.empty());
  EXPECT_TRUE(world.broker.open(reader, "u", 1001).ok());

  ASSERT_TRUE(world.broker.withdraw(mallory.peer, "u").ok());
  world.create(world.connect(1000), spec_of("u", 0644));
  EXPECT_TRUE(world.broker.open(reader, "u", 1000).ok());
}

TEST(BrokerAccess, AnArrayOfOneUserIsCreatedByThatUserAlone) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& other = world.connect(1001);
  Session& root = world.connect(0);
  const auto create = [&](Session& session, bool exist_ok = true) {
    return world.try_create(session, spec_of("u", 0666), exist_ok, {}, 1000).status();
  };
  EXPECT_EQ(code_of(create(owner, false)), ErrorCode::kInvalidArgument) << "without exist_ok";
  EXPECT_EQ(code_of(create(other)), ErrorCode::kDenied);
  EXPECT_EQ(code_of(create(root)), ErrorCode::kDenied) << "it would be root's";
  EXPECT_EQ(world.broker.catalog().size(), 0U);
  EXPECT_TRUE(create(owner).ok());
  EXPECT_TRUE(create(other).ok()) << "it is there";

  ASSERT_TRUE(world.broker.withdraw(owner.peer, "u").ok());
  world.create(other, spec_of("u", 0666));
  EXPECT_EQ(code_of(create(owner)), ErrorCode::kDenied) << "somebody else has taken the name";
}

TEST(BrokerAccess, AForbiddenFileLooksLikeNone) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& stranger = world.connect(1001);
  const auto id = world.create(owner, spec_of("secret"));
  const wire::FileId segment = world.broker.catalog().find(id)->slots[0].file;
  const wire::FileId board = world.broker.catalog().find(id)->board_at.file;
  const auto answers = [&] {
    return std::vector<absl::Status>{world.broker.fetch_file(stranger.id, segment).status(),
                                     world.broker.fetch_file(stranger.id, board).status()};
  };
  const auto forbidden = answers();
  ASSERT_TRUE(world.broker.withdraw(owner.peer, "secret").ok());
  ASSERT_TRUE(world.broker.catalog().all().empty());
  ASSERT_EQ(world.broker.host().segments.memory_bytes(), 0U);
  EXPECT_EQ(forbidden, answers());
  EXPECT_EQ(code_of(forbidden[0]), ErrorCode::kNotFound);
}

TEST(BrokerAccess, FilesAreWritableForThoseAloneWhoWriteThem) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1001);
  Session& root = world.connect(0);
  const auto id = world.create(owner, spec_of("u", 0604));
  world.open(reader, "u");
  const auto row = world.broker.subscribe(reader, id);
  ASSERT_TRUE(row.ok());
  const Array& array = *world.broker.catalog().find(id);
  const struct {
    wire::FileId file;
    FileKind kind;
    bool owner_writes, reader_writes, root_writes;
  } expected[] = {
      {array.slots[0].file, FileKind::kSegment, true, false, true},
      {array.board_at.file, FileKind::kBoard, false, false, false},
      {(*array.takeover_at).file, FileKind::kSessionPage, false, false, false},
      {row->row.file, FileKind::kSessionPage, false, true, false},
  };
  for (const auto& e : expected) {
    for (const auto& [session, writes] :
         {std::pair{&owner, e.owner_writes}, std::pair{&reader, e.reader_writes},
          std::pair{&root, e.root_writes}}) {
      const auto grant = world.broker.fetch_file(session->id, e.file, true);
      ASSERT_TRUE(grant.ok()) << grant.status();
      EXPECT_EQ(grant->kind, e.kind);
      const auto to_read = world.broker.fetch_file(session->id, e.file, false);
      ASSERT_TRUE(to_read.ok()) << to_read.status();
      EXPECT_EQ(to_read->writable, writes && e.kind != FileKind::kSegment);
      EXPECT_EQ(grant->writable, writes) << wire::to_int(e.file) << " uid " << session->peer.uid;
      // The descriptor keeps the promise.
      void* data = ::mmap(nullptr, grant->size_bytes, PROT_WRITE, MAP_SHARED, grant->fd.get(), 0);
      EXPECT_EQ(data != MAP_FAILED, writes);
      if (data != MAP_FAILED) ::munmap(data, grant->size_bytes);
    }
  }
}

TEST(BrokerAccess, AReaderMayNeitherWriteNorWithdraw) {
  BrokerWorld world;
  Session& reader = world.connect(1001);
  const auto id = world.create(world.connect(1000), spec_of("u", 0604));
  world.open(reader, "u");
  EXPECT_EQ(code_of(world.broker.acquire_writer(reader, id).status()), ErrorCode::kDenied);
  EXPECT_EQ(code_of(world.broker.withdraw(reader.peer, "u")), ErrorCode::kDenied);
  EXPECT_FALSE(reader.memberships.at(id).writer_row);
}

TEST(BrokerAccess, AnArrayThatTheSessionNeverOpenedIsOutOfReach) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  const auto id = world.create(world.connect(1000), spec_of("u"));
  EXPECT_FALSE(world.broker.subscribe(session, id).ok());
  EXPECT_FALSE(world.broker.acquire_writer(session, id).ok());
  EXPECT_FALSE(world.broker.confirm_writer(session, id, 1).ok());
  EXPECT_FALSE(world.broker.cancel_writer(session, id).ok());
}

TEST(BrokerAccess, LeaveDoesNotTellWhichArraysThereAre) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  Session& owner = world.connect(1001);
  const auto id = world.create(owner, spec_of("u"));
  EXPECT_TRUE(world.broker.leave(session, id, 1).ok()) << "as of one that is gone:";
  EXPECT_TRUE(world.broker.leave(session, wire::ArrayId{UINT64_MAX}, 1).ok());
  EXPECT_TRUE(owner.memberships.contains(id));
}

TEST(BrokerQuota, CountsSessionsUntilTheirProcessHasExited) {
  BrokerWorld world({{}, {0, 0, 1}});
  Session& session = world.connect(1000);
  EXPECT_EQ(code_of(world.broker.open_session(peer_of(1000)).status()), ErrorCode::kQuotaExceeded);
  EXPECT_TRUE(world.broker.open_session(peer_of(1001)).ok());
  world.broker.hang_up(session.id, Farewell::kNone);
  EXPECT_FALSE(world.broker.open_session(peer_of(1000)).ok());
  world.broker.exited(session.id);
  EXPECT_TRUE(world.broker.open_session(peer_of(1000)).ok());
}

TEST(BrokerQuota, CountsTheBytesOfAllSlotsUntilTheyAreReturned) {
  const std::uint64_t bytes = std::uint64_t{3} * 256;
  BrokerWorld world({{}, {2 * bytes, 0, 0}});
  Session& session = world.connect(1000);
  const auto id = world.create(session, spec_of("a"));
  world.create(session, spec_of("b"));
  EXPECT_EQ(code_of(world.try_create(session, spec_of("c")).status()), ErrorCode::kQuotaExceeded);
  wire::ReaderRow& row = world.subscribe(session, id);
  row.holds()[0].store(1);
  ASSERT_TRUE(world.broker.withdraw(session.peer, "a").ok());
  EXPECT_FALSE(world.try_create(session, spec_of("c")).ok()) << "still held";
  row.holds()[0].store(0);
  ASSERT_TRUE(world.broker.leave(session, id, 1).ok());
  EXPECT_TRUE(world.try_create(session, spec_of("c")).ok());
}

TEST(BrokerQuota, CountsWholePlaces) {
  BrokerWorld world({{}, {65 * 256, 0, 0}});
  Session& session = world.connect(1000);
  auto spec = spec_of("a", 0600, 64);
  spec.shape = {1};
  world.create(session, spec);
  EXPECT_EQ(world.broker.host().quota.used_by(1000).bytes, 64U * 256);
  EXPECT_EQ(code_of(world.try_create(session, spec_of("b")).status()), ErrorCode::kQuotaExceeded);
}

// Who asks in vain again and again has them not all looked at each time.
TEST(BrokerEviction, IsForWhoOwnsAllThatASessionHasOpen) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& other = world.connect(1001);
  Session& reader = world.connect(1002);
  for (const char* name : {"a", "b"}) world.create(owner, spec_of(name, 0604));
  const auto foreign = world.create(other, spec_of("c", 0604));
  for (const char* name : {"a", "b", "c"}) world.open(reader, name);
  const auto evicts = [&](uid_t uid) { return world.broker.evict(peer_of(uid), reader.id).ok(); };
  EXPECT_FALSE(evicts(1000));
  EXPECT_FALSE(evicts(1000));
  EXPECT_FALSE(evicts(1001));
  EXPECT_FALSE(evicts(1000));
  ASSERT_TRUE(world.broker.leave(reader, foreign, 1).ok());
  EXPECT_FALSE(evicts(1001));
  EXPECT_TRUE(evicts(1000));
}

// A session's seven, and two each of a segment, a board, and takeover rows; rows of a reader are
// the reader's.
TEST(BrokerQuota, CountsTheDescriptorsOfSessionsAndFiles) {
  BrokerWorld world;
  const auto used = [&](uid_t uid) { return world.broker.quota().used_by(uid).descriptors; };
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1001);
  EXPECT_EQ(used(1000), 7U);
  const auto id = world.create(owner, spec_of("a", 0604));
  EXPECT_EQ(used(1000), 7U + 6U);
  world.create(owner, spec_of("b", 0604));
  EXPECT_EQ(used(1000), 7U + 6U) << "in the same files";
  world.open(reader, "a");
  world.subscribe(reader, id);
  EXPECT_EQ(used(1000), 7U + 6U);
  EXPECT_EQ(used(1001), 7U + 3U) << "one of them to write it by";
  world.unmap_pages();
  world.broker.exited(reader.id);
  EXPECT_EQ(used(1001), 0U);
  world.broker.exited(owner.id);
  EXPECT_EQ(used(1000), 0U);
}

TEST(BrokerQuota, WhoTakesAllDescriptorsTakesHisOwn) {
  BrokerWorld world({{}, {0, 0, 0, 30}});
  Session& session = world.connect(1000);
  std::uint32_t made = 0;
  absl::Status refused;
  for (; refused.ok(); ++made) {  // each in files of its own
    const std::uint32_t mode = 0600 | (made & 3) << 4 | (made >> 2 & 3) << 1;
    refused = world.try_create(session, spec_of(std::to_string(made), mode)).status();
    ASSERT_LT(made, 15U);
  }
  EXPECT_EQ(code_of(refused), ErrorCode::kQuotaExceeded);
  EXPECT_THAT(wire::message_of(refused), HasSubstr("of its 30 descriptors"));
  EXPECT_THAT(wire::hint_of(refused), HasSubstr("quota_descriptors"));
  EXPECT_EQ(world.broker.catalog().size(), made - 1);
  EXPECT_TRUE(world.try_create(world.connect(1001), spec_of("other")).ok());
}

TEST(BrokerQuota, ChargesTheOwnerOfTheArrayNotWhoeverReadsIt) {
  BrokerWorld world({{}, {0, 1, 0}});
  world.create(world.connect(1000), spec_of("a", 0604));
  Session& reader = world.connect(1001);
  world.open(reader, "a");
  EXPECT_TRUE(world.try_create(reader, spec_of("mine")).ok());
  EXPECT_FALSE(world.try_create(reader, spec_of("more")).ok());
}

}  // namespace
}  // namespace memlease::server
