// What the log says of events.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/report/history_log.h"
#include "tests/server/telemetry/log_pipe.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;

class HistoryLogTest : public LogPipe {
 protected:
  std::string said(const HistoryEvent& event, LogLevel level = LogLevel::kInfo) {
    Log log(level, LogFormat::kJournal, write_.get());
    UidLogLimiters by_uid(50, std::chrono::seconds(10));
    HistoryLog(log, by_uid).write(event);
    return written();
  }
  static HistoryEvent event_of(Happening what) {
    HistoryEvent event;
    event.what = what;
    event.session = wire::SessionId{3};
    event.pid = 4711;
    event.uid = 1000;
    event.command = "solver -n 4";
    event.array = "sim/u";
    event.domain = AccessDomain{1001, 1001, 0660};
    event.bytes = 4096;
    event.held_ms = 1500;
    event.slots = 4;
    event.arrays = 10;
    event.reason = "was writing";
    event.hint = "wait";
    return event;
  }
};

TEST_F(HistoryLogTest, WhatWasReclaimedHasProcessBytesAndTime) {
  EXPECT_EQ(said(event_of(Happening::kReclaimed)),
            "<6>reclaimed from a process that has ended session=3 pid=4711 uid=1000 "
            "command=\"solver -n 4\" array=sim/u bytes=4096 held_s=1.5 reason=\"was writing\"\n");
  EXPECT_THAT(said(event_of(Happening::kDied)),
              HasSubstr("<6>a process ended before it had left session=3 pid=4711 uid=1000 "
                        "command=\"solver -n 4\" arrays=10 bytes=4096 held_s=1.5 "));
}

// The line of its end counts them: there may be ten thousand.
TEST_F(HistoryLogTest, WhatADeadProcessNeitherHeldNorWroteIsForThoseWhoDebug) {
  HistoryEvent event = event_of(Happening::kReclaimed);
  for (const auto reason : {kCreatedIt, kWasItsWriter}) {
    event.reason = reason;
    EXPECT_EQ(said(event), "");
    EXPECT_THAT(said(event, LogLevel::kDebug), HasSubstr("array=sim/u"));
  }
}

TEST_F(HistoryLogTest, SessionsThatComeAndGoLeaveRoomForDeaths) {
  Log log(LogLevel::kInfo, LogFormat::kJournal, write_.get());
  UidLogLimiters by_uid(50, std::chrono::seconds(10));
  HistoryLog lines(log, by_uid);
  for (int i = 0; i < 100; ++i) lines.write_session(1000, "session opened", {});
  lines.write(event_of(Happening::kDied));
  const std::string text = written();
  EXPECT_EQ(std::ranges::count(text, '\n'), 26);
  EXPECT_THAT(text, HasSubstr("a process ended before it had left session=3 pid=4711"));
  EXPECT_THAT(text, HasSubstr("suppressed=75"));
}

TEST_F(HistoryLogTest, AnEvictionHasTheBytesThatTheSessionHeld) {
  HistoryEvent event = event_of(Happening::kEvicted);
  event.reason = "by uid 0";
  EXPECT_THAT(said(event), HasSubstr("<6>a session was evicted session=3 pid=4711 uid=1000 "
                                     "command=\"solver -n 4\" bytes=4096 held_s=1.5 "));
}

TEST_F(HistoryLogTest, SlotsAreToldOfWithTheUserWhoPaysForThem) {
  EXPECT_EQ(said(event_of(Happening::kGrown)),
            "<6>a slot was added: readers hold the others array=sim/u uid=1001 writer_pid=4711 "
            "slots=4 bytes=4096\n");
  EXPECT_THAT(said(event_of(Happening::kShrunk)), HasSubstr("added slots were given back"));
}

TEST_F(HistoryLogTest, AMechanismIsToldOfWithItsNameAndWhatToDo) {
  HistoryEvent event;
  event.what = Happening::kDegraded;
  event.mechanism = Mechanism::kMemory;
  event.reason = "there is none";
  event.hint = "get some";
  EXPECT_EQ(said(event), "<4>there is none mechanism=memory hint=\"get some\"\n");
  event.mechanism = Mechanism::kDirectory;
  EXPECT_EQ(said(event), "<3>there is none mechanism=directory hint=\"get some\"\n");
  event.what = Happening::kRecovered;
  event.reason = "there it is";
  EXPECT_EQ(said(event), "<6>there it is mechanism=directory\n");
}

// A simulation may make ten thousand of them.
TEST_F(HistoryLogTest, CreationsAndWithdrawalsAreForThoseWhoDebug) {
  for (const Happening what : {Happening::kCreated, Happening::kWithdrawn}) {
    EXPECT_EQ(said(event_of(what)), "");
    EXPECT_THAT(said(event_of(what), LogLevel::kDebug), HasSubstr("array=sim/u"));
  }
}

TEST_F(HistoryLogTest, AUserWhoDiesInALoopTakesNobodyElsesLines) {
  Log log(LogLevel::kInfo, LogFormat::kJournal, write_.get());
  UidLogLimiters by_uid(50, std::chrono::seconds(10));
  HistoryLog history_log(log, by_uid);
  HistoryEvent event = event_of(Happening::kReclaimed);
  for (int i = 0; i < 1000; ++i) history_log.write(event);
  const std::string lines = written();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 50);
  event.uid = 1002;
  history_log.write(event);
  EXPECT_THAT(written(), HasSubstr("uid=1002"));
}

}  // namespace
}  // namespace memlease::server
