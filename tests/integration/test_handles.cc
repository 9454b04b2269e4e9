// Handles and leases after close, fork and withdraw.
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

class Handles : public ::testing::Test {
 protected:
  void SetUp() override {
    for (Peer* peer : {&owner_, &reader_}) run(*peer, "connect");
    run(owner_, "create a 3 600 65536 persistent");
    run(owner_, "put a 1000");
  }
  Answer run(Peer& peer, const std::string& command) {
    const Answer answer = peer.ask(command);
    EXPECT_TRUE(answer.ok()) << command << ": " << answer.describe();
    return answer;
  }
  std::uint64_t array_bytes() {
    const auto status = daemon_.admin().status();
    return status.ok() ? status->array_bytes() : 0;
  }

  PrivateDaemon daemon_{{"--warm-bytes=0", "--log-level=warning"}};
  Peer owner_{daemon_.directory()};
  Peer reader_{daemon_.directory()};
};

TEST_F(Handles, AreClosedAndTheirLeasesLiveOn) {
  run(reader_, "read a 0 1000");
  run(reader_, "close_kept a");
  for (const char* command : {"read a 0 1000", "put a 1000", "update a 1000"}) {
    EXPECT_EQ(reader_.ask(command).code, "Closed") << command;
  }
  // Its lease still counts for the writer.
  for (int i = 0; i < 10; ++i) run(owner_, "put a 1000");
  run(reader_, "verify a");
  run(reader_, "release a");
  run(reader_, "close a");
  EXPECT_EQ(run(reader_, "read a 0 1000").number(), 11);
}

TEST_F(Handles, OfAClosedClientAreClosed) {
  run(reader_, "read a 0 1000");
  run(reader_, "disconnect");
  EXPECT_EQ(reader_.ask("read a 0 1000").code, "Closed");
  EXPECT_EQ(reader_.ask("exists a").code, "Closed");
  run(reader_, "verify a");
  run(reader_, "release a");
  run(reader_, "connect");
  run(reader_, "close a");
  EXPECT_EQ(run(reader_, "read a 0 1000").number(), 1);
}

TEST_F(Handles, OpenThemselvesAgainInAForkedChildAndLeasesDoNot) {
  run(reader_, "read a 0 1000");
  run(owner_, "write a 1000");
  for (int i = 0; i < 20; ++i) {
    // Client, array, the parent's lease, its end; then a version.
    EXPECT_EQ(run(reader_, "fork a").text, "none none ForkedClient none 1");
  }
  EXPECT_EQ(run(owner_, "fork a").text, "none none ForkedClient none 1");
  // The parents have lost nothing: lease, hold, ownership, session.
  run(owner_, "fill a");
  run(owner_, "publish a");
  for (int i = 0; i < 10; ++i) run(owner_, "put a 1000");
  run(reader_, "verify a");
  run(reader_, "release a");
  EXPECT_EQ(run(reader_, "read a 11 1000").number(), 12);
  run(reader_, "release a");
  run(reader_, "close a");
  run(owner_, "withdraw a");
  EXPECT_EQ(daemon_.unsettled(2), "") << "the children's sessions must have ended with them";
}

TEST_F(Handles, OfAWithdrawnArrayRefuseAndItsBytesLiveAsLongAsALease) {
  const std::uint64_t bytes = array_bytes();
  EXPECT_GE(bytes, 3 * 65536 * 8);
  run(reader_, "read a 0 1000");
  reader_.say("read a 1 60000");
  EXPECT_EQ(reader_.answer(200).kind, Answer::Kind::kSilent);
  run(owner_, "withdraw a");
  EXPECT_EQ(reader_.answer().code, "Withdrawn") << "a wait must end";
  EXPECT_EQ(owner_.ask("exists a").text, "0");
  for (Peer* peer : {&reader_, &owner_}) {
    EXPECT_EQ(peer->ask("read a 0 1000").code, "Withdrawn");
    EXPECT_EQ(peer->ask("put a 1000").code, "Withdrawn");
  }
  // The name is free at once, and what comes under it has other memory.
  run(owner_, "create a 3 600 65536 session");
  EXPECT_EQ(array_bytes(), 2 * bytes);
  for (int i = 0; i < 10; ++i) run(owner_, "put a 1000");
  run(reader_, "verify a");
  run(reader_, "release a");
  EXPECT_TRUE(eventually([&] { return array_bytes() == bytes; }))
      << "the last lease has gone, and the daemon looks for that";
  run(reader_, "close a");
  EXPECT_EQ(run(reader_, "read a 0 1000").number(), 10);
  run(reader_, "release a");
  run(reader_, "close a");
  run(owner_, "withdraw a");
  EXPECT_EQ(daemon_.unsettled(2), "");
}

TEST_F(Handles, OfAWithdrawnArrayEndAWriteToo) {
  run(owner_, "write a 1000");
  run(reader_, "withdraw a");
  run(owner_, "fill a");
  run(owner_, "drop a");
  EXPECT_EQ(owner_.ask("write a 1000").code, "Withdrawn");
  EXPECT_EQ(daemon_.unsettled(2), "");
}

// Session arrays go with their creator, whoever else has them.
TEST_F(Handles, OfADeadCreatorsArrayAreWithdrawn) {
  Peer creator(daemon_.directory());
  run(creator, "connect");
  run(creator, "create b 3 600 65536 session");
  run(creator, "put b 1000");
  run(reader_, "read b 0 1000");
  creator.kill();
  EXPECT_EQ(reader_.ask("read b 1 5000").code, "Withdrawn");
  run(reader_, "verify b");
  run(reader_, "release b");
  run(owner_, "withdraw a");
  EXPECT_EQ(daemon_.unsettled(2), "");
}

}  // namespace
}  // namespace memlease::testing
