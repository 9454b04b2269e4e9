#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "client/ctl/commands.h"
#include "client/ctl/doctor.h"
#include "client/ctl/events.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/fake_daemon.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::ctl {
namespace {

using testing::FakeDaemon;
using wire::ErrorCode;

constexpr std::uint64_t kNow = 1'700'000'000'000;

// One fake daemon and the text of the command that asks it.
class Commands : public ::testing::Test {
 protected:
  Commands() {
    options_.directory = daemon_.directory();
    options_.style = {.human = true, .color = false, .now_ms = kNow};
  }

  template <typename Command, typename... Arguments>
  std::string run(Command&& command, const Arguments&... arguments) {
    auto connection = connect(options_);
    EXPECT_TRUE(connection.ok()) << connection.status();
    ::testing::internal::CaptureStdout();
    status_ = command(*connection, options_, arguments...);
    std::fflush(stdout);
    return ::testing::internal::GetCapturedStdout();
  }

  v1::ArrayInfo& add_array(const std::string& name, bool withdrawn = false,
                           const std::string& page = "") {
    v1::ArrayInfo& array = *daemon_.admin().arrays[page].add_arrays();
    wire::ArraySpec spec;
    spec.name = name;
    spec.shape = {512, 512};
    *array.mutable_spec() = wire::to_proto(spec);
    array.set_array_id(withdrawn ? 1 : 2);
    array.set_bytes(3 << 20);
    array.set_held_bytes(2 << 20);
    array.set_version(7);
    array.add_slot_versions(5);
    array.add_slot_versions(7);
    array.add_slot_versions(6);
    array.set_readers(2);
    array.set_subscribers(3);
    array.set_empty_writes(9);
    array.set_copied_versions(4);
    array.set_writer_pid(4711);
    array.set_writer_session_id(12);
    array.set_created_unix_ms(kNow - 30'000);
    array.set_withdrawn(withdrawn);
    return array;
  }

  FakeDaemon daemon_;
  Options options_;
  absl::Status status_;
};

TEST_F(Commands, LsShowsALineForEachArray) {
  add_array("sim/u");
  add_array("old", true);
  EXPECT_EQ(run(list_arrays, std::string("*"), std::string()),
            "NAME             TYPE              DEVICE  SLOTS  VERSION    BYTES     HELD  READERS"
            "  SUBSCRIBERS  WRITER  LIFETIME  OWNER  MODE  CREATED\n"
            "sim/u            float32[512,512]  host        3        7  3.0 MiB  2.0 MiB        2"
            "            3    4711  session   root   0600  30 s ago\n"
            "old (withdrawn)  float32[512,512]  host        3        7  3.0 MiB  2.0 MiB        2"
            "            3    4711  session   root   0600  30 s ago\n");
  EXPECT_EQ(daemon_.admin().last_text, "*");
}

using Names = std::vector<std::string>;

// The names in the order of the lines.
Names names_in(const std::string& table) {
  std::istringstream lines(table);
  Names names;
  for (std::string line; std::getline(lines, line);)
    names.push_back(line.substr(0, line.find(' ')));
  if (!names.empty()) names.erase(names.begin());  // the titles
  return names;
}

TEST_F(Commands, LsSortsNumbersFromTheLargestAndTextAlphabetically) {
  const auto add = [&](const std::string& name, std::uint64_t bytes, std::uint64_t created_ms) {
    v1::ArrayInfo& array = add_array(name);
    array.set_bytes(bytes);
    array.set_held_bytes(name == "c" ? 1 : 0);
    array.set_created_unix_ms(created_ms);
  };
  add("a", 9, kNow - 3);
  add("b", 10, kNow - 2);
  add("c", 9, kNow - 1);
  EXPECT_EQ(names_in(run(list_arrays, std::string(), std::string("bytes"))),
            (Names{"b", "a", "c"}));
  EXPECT_EQ(names_in(run(list_arrays, std::string(), std::string("held"))), (Names{"c", "a", "b"}));
  EXPECT_EQ(names_in(run(list_arrays, std::string(), std::string("created"))),
            (Names{"c", "b", "a"}));
  EXPECT_EQ(names_in(run(list_arrays, std::string(), std::string("name"))), (Names{"a", "b", "c"}));
}

TEST_F(Commands, LsTellsAddedSlotsApart) {
  add_array("sim/u").set_slots(5);
  EXPECT_NE(run(list_arrays, std::string(), std::string()).find("    3+2  "), std::string::npos);
  EXPECT_NE(run(show_array, std::string("sim/u")).find("Slots              3+2\n"),
            std::string::npos);
}

TEST_F(Commands, LsSpellsEveryFieldInJson) {
  v1::ArrayInfo& array = add_array("sim/u");
  array.set_slots(5);
  array.mutable_spec()->set_max_slots(12);
  *array.mutable_attributes() =
      wire::to_proto(wire::Attributes{{"origin", std::vector<double>{0, 0.5}}, {"units", "K"}});
  options_.json = true;
  EXPECT_EQ(run(list_arrays, std::string(), std::string()),
            "{\"arrays\": [{\"name\": \"sim/u\", \"dtype\": \"float32\", \"shape\": [512,512], "
            "\"strides_bytes\": [2048,4], \"device\": \"host\", \"slots\": 3, \"added_slots\": 2, "
            "\"max_slots\": 12, \"version\": 7, "
            "\"slot_versions\": [5,7,6], \"empty_writes\": 9, \"copied_versions\": 4, "
            "\"copied_bytes\": 4194304, \"slot_bytes\": 1048576, \"bytes\": "
            "3145728, "
            "\"held_bytes\": 2097152, \"readers\": 2, "
            "\"subscribers\": 3, \"writer_pid\": 4711, \"writer_session\": 12, "
            "\"lifetime\": \"session\", \"exclusive_writer\": "
            "false, \"owner_uid\": 0, "
            "\"owner_gid\": 0, \"mode\": \"0600\", \"withdrawn\": false, "
            "\"created_unix_ms\": 1699999970000, \"array_id\": 2, "
            "\"attributes\": {\"origin\": [0.0, 0.5], \"units\": \"K\"}}]}\n");
}

TEST_F(Commands, LsTakesAllOfAPageByOneCallWithItsAttributes) {
  for (const char* name : {"a", "b"}) {
    *add_array(name).mutable_attributes() = wire::to_proto(wire::Attributes{{"units", name}});
  }
  daemon_.admin().arrays[""].set_next("b");
  *add_array("c", false, "b").mutable_attributes() =
      wire::to_proto(wire::Attributes{{"units", "K"}});
  EXPECT_EQ(names_in(run(list_arrays, std::string(), std::string())), (Names{"a", "b", "c"}));
  EXPECT_EQ(daemon_.admin().calls, 2);
  EXPECT_FALSE(daemon_.admin().asked_for_attributes) << "no line shows them";
  EXPECT_EQ(names_in(run(list_arrays, std::string(), std::string("name"))), (Names{"a", "b", "c"}));
  options_.json = true;
  daemon_.admin().calls = 0;
  const std::string json = run(list_arrays, std::string(), std::string());
  EXPECT_EQ(daemon_.admin().calls, 2);
  for (const char* units : {"a", "b", "K"}) {
    EXPECT_NE(json.find(fmt::format("\"attributes\": {{\"units\": \"{}\"}}}}", units)),
              std::string::npos)
        << json;
  }
  EXPECT_TRUE(json.ends_with("}]}\n")) << json;
}

TEST_F(Commands, AListThatFailsAtALaterPageFails) {
  daemon_.admin().holders[""].add_holders()->set_array("a");
  daemon_.admin().holders[""].set_next("a");
  daemon_.admin().later_error = wire::to_grpc(wire::make_error(ErrorCode::kDenied, "no", "ask"));
  EXPECT_EQ(run(list_holders, std::string()), "");
  EXPECT_EQ(exit_code_of(status_), kDenied);
}

TEST_F(Commands, HoldersComeInPages) {
  daemon_.admin().holders[""].add_holders()->set_array("a");
  daemon_.admin().holders[""].set_next("a");
  daemon_.admin().holders["a"].add_holders()->set_array("density");
  EXPECT_EQ(names_in(run(list_holders, std::string())), (Names{"a", "density"}));
}

TEST_F(Commands, InfoPrefersTheArrayThatStillHasTheName) {
  add_array("sim/u", true);
  add_array("sim/u");
  const std::string text = run(show_array, std::string("sim/u"));
  EXPECT_TRUE(status_.ok());
  EXPECT_NE(text.find("Name               sim/u\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Versions in slots  5,7,6\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Empty writes       9\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Versions copied    4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Size of copies     4.0 MiB\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Array id           2\n"), std::string::npos) << text;
}

TEST_F(Commands, InfoOfANameThatIsNotThereIsNotFound) {
  add_array("sim/u2");
  EXPECT_EQ(run(show_array, std::string("sim/u")), "");
  EXPECT_EQ(wire::code_of(status_), ErrorCode::kNotFound);
  EXPECT_EQ(exit_code_of(status_), kNotFound);
}

TEST_F(Commands, InfoTakesNoPattern) {
  add_array("sim/u");
  EXPECT_EQ(run(show_array, std::string("sim/*")), "");
  EXPECT_EQ(exit_code_of(status_), kUsage);
}

TEST_F(Commands, HoldersSaysWhoHoldsWhatSinceWhen) {
  v1::Holder& reader = *daemon_.admin().holders[""].add_holders();
  reader.set_session_id(3);
  reader.set_pid(100);
  reader.set_command("plot");
  reader.set_array("sim/u");
  reader.set_array_bytes(1 << 20);
  for (const std::uint64_t version : {0U, 6U}) reader.add_versions(version);
  reader.set_subscribed(true);
  reader.set_since_unix_ms(kNow - 5000);
  reader.set_connected(true);
  v1::Holder& writer = *daemon_.admin().holders[""].add_holders();
  writer.set_session_id(4);
  writer.set_pid(101);
  writer.set_command("so\x1b[1mlver");
  writer.set_array("sim/u");
  writer.set_array_bytes(1 << 20);
  writer.set_writer(true);
  writer.set_writing(true);
  EXPECT_EQ(
      run(list_holders, std::string("sim/u")),
      "ARRAY  PID  SESSION  USER  ROLE              VERSIONS    BYTES  SINCE    COMMAND\n"
      "sim/u  100        3  root  reading           0,6       2.0 MiB  5 s ago  plot\n"
      "sim/u  101        4  root  writing, hung up  -         1.0 MiB  -        so?[1mlver\n");
  EXPECT_EQ(daemon_.admin().last_text, "sim/u");
  options_.json = true;
  EXPECT_NE(run(list_holders, std::string()).find("\"versions\": [0,6], \"bytes\": 2097152"),
            std::string::npos);
}

TEST_F(Commands, HoldersMarksArraysThatAreWithdrawn) {
  v1::Holder& reader = *daemon_.admin().holders[""].add_holders();
  reader.set_array("sim/u");
  reader.set_withdrawn(true);
  EXPECT_NE(run(list_holders, std::string()).find("\nsim/u (withdrawn)  "), std::string::npos);
  options_.json = true;
  const std::string json = run(list_holders, std::string());
  EXPECT_NE(json.find("\"array\": \"sim/u\", "), std::string::npos) << json;
  EXPECT_NE(json.find("\"withdrawn\": true"), std::string::npos) << json;
}

TEST_F(Commands, AProcessInAnotherPidNamespaceHasASessionAndNoNumber) {
  v1::Holder& writer = *daemon_.admin().holders[""].add_holders();
  writer.set_session_id(4);
  writer.set_command("in another PID namespace");
  writer.set_array("sim/u");
  writer.set_writer(true);
  writer.set_connected(true);
  EXPECT_EQ(
      run(list_holders, std::string()),
      "ARRAY  PID  SESSION  USER  ROLE    VERSIONS  BYTES  SINCE  COMMAND\n"
      "sim/u    ?        4  root  writer  -           0 B  -      in another PID namespace\n");
  add_array("sim/u").set_writer_pid(0);
  EXPECT_NE(run(list_arrays, std::string(), std::string()).find("      ?  session "),
            std::string::npos);
  options_.json = true;
  EXPECT_NE(run(list_holders, std::string()).find("\"pid\": null, \"session\": 4, "),
            std::string::npos);
  EXPECT_NE(run(list_arrays, std::string(), std::string())
                .find("\"writer_pid\": null, \"writer_session\": 12"),
            std::string::npos);
}

TEST_F(Commands, SessionsSaysWhoIsConnected) {
  v1::SessionInfo& session = *daemon_.admin().sessions.add_sessions();
  session.set_session_id(3);
  session.set_pid(100);
  session.set_command("plot all");
  session.set_arrays_open(2);
  session.set_since_unix_ms(kNow - 7'200'000);
  EXPECT_EQ(run(list_sessions),
            "SESSION  PID  USER  ARRAYS  BYTES  CONNECTED  SINCE    COMMAND\n"
            "      3  100  root       2    0 B  no         2 h ago  plot all\n");
}

TEST_F(Commands, StatusShowsQuotasBesideTheWhole) {
  daemon_.admin().status.set_version("0.1.0");
  daemon_.admin().status.set_incarnation("\x01\xAB");
  daemon_.admin().status.set_memory_limit_bytes(std::uint64_t{1} << 30);
  v1::Quota& quota = *daemon_.admin().status.add_quotas();
  quota.set_bytes(1 << 20);
  quota.set_arrays_limit(10);
  const std::string text = run(show_status);
  EXPECT_NE(text.find("Memory limit      1.0 GiB\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Incarnation       01ab\n"), std::string::npos) << text;
  EXPECT_NE(text.find("root  1.0 MiB   none       0     10         0  -                0  -\n"),
            std::string::npos)
      << text;
  options_.json = true;
  EXPECT_NE(run(show_status)
                .find("\"quotas\": [{\"uid\": 0, \"bytes\": 1048576, "
                      "\"bytes_limit\": null, \"arrays\": 0, \"arrays_limit\": 10"),
            std::string::npos);
}

TEST_F(Commands, StatusShowsWhatEachUserSpendsAndMaySpend) {
  const auto add = [&](const char* what, std::uint64_t used, std::uint64_t limit,
                       const char* device = "") {
    v1::Spending& one = *daemon_.admin().status.add_spending();
    one.set_what(what);
    one.set_used(used);
    one.set_limit(limit);
    one.set_device(device);
  };
  add("page_bytes", 1 << 20, std::uint64_t{2} << 30);
  add("waiting_calls", 3, 256);
  add("requests", 0, 2048);
  add("warm_bytes", 4096, 0, "GPU-1");
  const std::string text = run(show_status);
  EXPECT_NE(text.find("USER  SPENDS         GPU        NOW    LIMIT\n"
                      "root  page_bytes     -      1.0 MiB  2.0 GiB\n"
                      "root  waiting_calls  -            3      256\n"
                      "root  warm_bytes     GPU-1  4.0 KiB     none\n"),
            std::string::npos)
      << text;
  options_.json = true;
  const std::string json = run(show_status);
  EXPECT_NE(json.find("{\"uid\": 0, \"what\": \"requests\", \"device\": null, \"used\": 0, "
                      "\"limit\": 2048}"),
            std::string::npos)
      << json;
}

TEST_F(Commands, HealthFailsWhileTheDaemonDrains) {
  EXPECT_EQ(run(show_health), "Health  serving\n");
  EXPECT_TRUE(status_.ok());
  daemon_.set_serving(false);
  options_.json = true;
  EXPECT_EQ(run(show_health), "{\"serving\": false}\n");
  EXPECT_EQ(exit_code_of(status_), kFailure);
}

TEST_F(Commands, WithdrawAndEvictSayWhatTheyDid) {
  EXPECT_EQ(run(withdraw, std::string("u")), "Withdrawn  u\n");
  options_.json = true;
  EXPECT_EQ(run(evict, std::uint32_t{12}), "{\"evicted\": 12}\n");
}

TEST_F(Commands, AFailedCallPrintsNoAnswer) {
  daemon_.admin().error = wire::to_grpc(wire::make_error(ErrorCode::kDenied, "no", "ask"));
  EXPECT_EQ(run(withdraw, std::string("u")), "");
  EXPECT_EQ(exit_code_of(status_), kDenied);
  EXPECT_EQ(run(evict, std::uint32_t{1}), "");
  EXPECT_EQ(run(list_arrays, std::string(), std::string()), "");
  EXPECT_EQ(run(show_status), "");
}

TEST_F(Commands, EachKindOfErrorHasItsExitCode) {
  const struct {
    ErrorCode error;
    ExitCode exit;
  } kCases[] = {
      {ErrorCode::kInvalidArgument, kUsage},
      {ErrorCode::kNotFound, kNotFound},
      {ErrorCode::kDaemonUnavailable, kUnreachable},
      {ErrorCode::kDaemonLost, kUnreachable},
      {ErrorCode::kDenied, kDenied},
      {ErrorCode::kTimeout, kTimeout},
      {ErrorCode::kInternal, kFailure},
      {ErrorCode::kVersionSkew, kFailure},
  };
  for (const auto& [error, exit] : kCases)
    EXPECT_EQ(exit_code_of(wire::make_error(error, "x")), exit);
  EXPECT_EQ(exit_code_of(absl::OkStatus()), kSuccess);
}

class Events : public Commands {
 protected:
  v1::HistoryReply& add_reply(std::uint64_t through, std::uint64_t newest) {
    v1::HistoryReply& reply = daemon_.admin().histories.emplace_back();
    reply.set_through(through);
    reply.set_newest(newest);
    return reply;
  }
  static void add_event(v1::HistoryReply& reply, std::uint64_t number,
                        v1::HistoryEvent::Kind kind) {
    v1::HistoryEvent& event = *reply.add_events();
    event.set_number(number);
    event.set_kind(kind);
    event.set_unix_ms(kNow);
    event.set_pid(4711);
    event.set_command("/usr/bin/python3 solver.py");
    event.set_array("sim/u");
    event.set_bytes(3 << 20);
    event.set_held_ms(12'000);
    event.set_reason("was writing");
  }
};

TEST_F(Events, AreATable) {
  auto& reply = add_reply(7, 7);
  add_event(reply, 6, v1::HistoryEvent::CREATED);
  add_event(reply, 7, v1::HistoryEvent::RECLAIMED);
  options_.style.human = false;
  EXPECT_EQ(run(show_events, EventsOptions{.since = 5}),
            "NUMBER  TIME                  EVENT      ARRAY    BYTES  HELD   PID  USER  WHY"
            "          COMMAND\n"
            "     6  2023-11-14T22:13:20Z  created    sim/u  3145728  -     4711  root  was writing"
            "  /usr/bin/python3 solver.py\n"
            "     7  2023-11-14T22:13:20Z  reclaimed  sim/u  3145728  12s   4711  root  was writing"
            "  /usr/bin/python3 solver.py\n");
  EXPECT_EQ(daemon_.admin().asked_after, std::vector<std::uint64_t>{5});
}

TEST_F(Events, ComeInAsManyAnswersAsThereAre) {
  add_event(add_reply(1, 2), 1, v1::HistoryEvent::CREATED);
  add_event(add_reply(2, 2), 2, v1::HistoryEvent::CREATED);
  options_.json = true;
  const std::string text = run(show_events, EventsOptions{});
  EXPECT_TRUE(text.starts_with("{\"newest\": 2, \"dropped\": 0, \"events\": [{\"number\": 1, "))
      << text;
  EXPECT_NE(text.find("{\"number\": 2, \"unix_ms\": 1700000000000, \"event\": \"created\""),
            std::string::npos)
      << text;
  EXPECT_EQ(daemon_.admin().asked_after, (std::vector<std::uint64_t>{0, 1}));
}

TEST_F(Events, AreFollowedUntilTheDaemonEnds) {
  add_event(add_reply(1, 1), 1, v1::HistoryEvent::CREATED);
  add_event(add_reply(3, 3), 3, v1::HistoryEvent::DIED);
  options_.json = true;
  const std::string text = run(show_events, EventsOptions{.follow = true});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(text.find("\"event\": \"died\""), std::string::npos) << text;
  EXPECT_EQ(exit_code_of(status_), kUnreachable) << status_;
  EXPECT_EQ(daemon_.admin().asked_after, (std::vector<std::uint64_t>{0, 1, 3}));
}

TEST_F(Events, ThatAFollowerMissedAreCountedWhereTheyWere) {
  auto& reply = add_reply(9, 9);
  add_event(reply, 9, v1::HistoryEvent::EVICTED);
  reply.set_dropped(8);
  options_.json = true;
  const std::string text = run(show_events, EventsOptions{.follow = true});
  EXPECT_TRUE(text.starts_with("{\"dropped\": 8}\n{\"number\": 9,")) << text;
}

TEST_F(Events, OfAnotherRunOfTheDaemonAreAnErrorOfUse) {
  add_reply(500, 12);
  EXPECT_EQ(run(show_events, EventsOptions{.since = 500, .follow = true}), "");
  EXPECT_EQ(exit_code_of(status_), kUsage);
}

// The fake has neither a lock nor an attach socket.
TEST_F(Commands, DoctorFindsWhatADaemonLacks) {
  options_.json = true;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_doctor(options_), kFailure);
  std::fflush(stdout);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("{\"failed\": 2, "), std::string::npos) << text;
  EXPECT_NE(text.find("\"name\": \"control_socket\", \"result\": \"ok\""), std::string::npos);
  EXPECT_NE(text.find("\"name\": \"attach_socket\", \"result\": \"failed\""), std::string::npos);
  EXPECT_NE(text.find("\"name\": \"lock\", \"result\": \"failed\""), std::string::npos);
}

TEST_F(Commands, DoctorTellsWhatIsWrongInTheDaemonsBooks) {
  options_.verify = true;
  daemon_.admin().verified.add_violations("'a' is not charged what it costs uid 1000");
  daemon_.admin().verified.add_violations("file 7 is for nothing");
  daemon_.admin().verified.set_wrong(2);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_doctor(options_), kFailure);
  std::fflush(stdout);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(
      text.find("2 things are wrong: 'a' is not charged what it costs uid 1000; file 7 is for "
                "nothing\n"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace memlease::ctl
