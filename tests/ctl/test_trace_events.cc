#include "client/ctl/trace_events.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memlease::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Trace : public ::testing::Test {
 protected:
  struct Held {
    std::uint32_t session;
    std::vector<std::uint64_t> reads;
    bool writing = false;
  };
  void sample(std::uint64_t us, const std::vector<Held>& holders, std::uint64_t version = 0) {
    v1::HoldersReply reply;
    for (const Held& held : holders) {
      v1::Holder& holder = *reply.add_holders();
      holder.set_session_id(held.session);
      holder.set_pid(static_cast<int>(1000 + held.session));
      holder.set_command("/bin/program");
      holder.set_array("sim/u");
      holder.set_array_bytes(64);
      holder.mutable_versions()->Add(held.reads.begin(), held.reads.end());
      holder.set_writing(held.writing);
      holder.set_writer(held.session == 1);
    }
    v1::SampleReply arrays;
    arrays.add_array_ids(9);
    arrays.add_versions(version);
    arrays.add_writer_sessions(1);
    arrays.add_open_sessions(1);
    arrays.add_slots(3);
    arrays.add_described()->set_array_id(9);
    arrays.mutable_described(0)->mutable_spec()->set_name("sim/u");
    live_.add(arrays, static_cast<double>(us));
    trace_.sample(us, live_, reply);
  }
  // What has been written since, that has this in it.
  std::vector<std::string> written(std::string_view text) {
    std::vector<std::string> found;
    for (const std::string& event : events_) {
      if (event.find(text) != std::string::npos) found.push_back(event);
    }
    events_.clear();
    return found;
  }
  static std::string slice(const std::string& name, int begin, int length, int pid, int thread,
                           int session) {
    return "{\"name\": \"" + name +
           "\", \"cat\": \"lease\", \"ph\": \"X\", \"ts\": " + std::to_string(begin) +
           ", \"dur\": " + std::to_string(length) + ", \"pid\": " + std::to_string(pid) +
           ", \"tid\": " + std::to_string(thread) +
           ", \"args\": {\"array\": \"sim/u\", \"bytes\": 64, \"session\": " +
           std::to_string(session) + "}}";
  }

  std::vector<std::string> events_;
  Live live_;
  TraceEvents trace_{[this](const std::string& event) { events_.push_back(event); }, 77};
};

TEST_F(Trace, ALeaseIsASliceFromTheFirstSampleThatSeesItToTheOneThatDoesNot) {
  sample(0, {});
  sample(10, {{2, {5}}});
  sample(20, {{2, {5}}});
  EXPECT_THAT(written("\"X\""), IsEmpty());
  sample(30, {{2, {}}});
  EXPECT_THAT(written("\"X\""), ElementsAre(slice("reads v5", 10, 20, 1002, 1, 2)));
  sample(40, {});
  EXPECT_THAT(written("\"X\""), IsEmpty());
  EXPECT_EQ(trace_.leases(), 1U);
}

TEST_F(Trace, AWriteIsOne) {
  sample(10, {{1, {}, true}});
  sample(20, {{1, {}, false}});
  EXPECT_THAT(written("\"X\""), ElementsAre(slice("writes", 10, 10, 1001, 1, 1)));
}

TEST_F(Trace, VersionsThatAreHeldAtOnceHaveLinesOfTheirOwn) {
  sample(10, {{2, {5}}});
  sample(20, {{2, {5, 6}}});
  sample(30, {{2, {6, 7}}});
  sample(40, {});
  EXPECT_THAT(written("\"X\""), ElementsAre(slice("reads v5", 10, 20, 1002, 1, 2),
                                            slice("reads v6", 20, 20, 1002, 2, 2),
                                            slice("reads v7", 30, 10, 1002, 1, 2)));
}

TEST_F(Trace, ProcessesAndLinesHaveTheirNamesOnce) {
  sample(10, {{2, {5, 6}}});
  sample(20, {{2, {6, 7}}, {3, {7}}});
  EXPECT_THAT(
      written("\"M\""),
      ElementsAre(HasSubstr("\"process_name\", \"ph\": \"M\", \"pid\": 77, \"tid\": 0, \"args\": "
                            "{\"name\": \"memleased\"}"),
                  HasSubstr("\"pid\": 1002, \"tid\": 0, \"args\": {\"name\": \"program\"}"),
                  HasSubstr("\"pid\": 1002, \"tid\": 1, \"args\": {\"name\": \"sim/u\"}"),
                  HasSubstr("\"pid\": 1002, \"tid\": 2, \"args\": {\"name\": \"sim/u #2\"}"),
                  HasSubstr("\"pid\": 1003, \"tid\": 0"), HasSubstr("\"pid\": 1003, \"tid\": 3")));
}

TEST_F(Trace, WhatIsHeldAtItsEndEndsThere) {
  sample(10, {{2, {5}}});
  trace_.end(15);
  EXPECT_THAT(written("\"X\""), ElementsAre(slice("reads v5", 10, 5, 1002, 1, 2)));
}

TEST_F(Trace, VersionsAreCountedFromTheirFirstChange) {
  sample(10, {{1, {}}}, 3);
  sample(20, {{1, {}}}, 3);
  EXPECT_THAT(written("\"C\""), IsEmpty());
  sample(30, {{1, {}}}, 8);
  EXPECT_THAT(events_,
              ElementsAre(HasSubstr("\"C\", \"ts\": 20, \"pid\": 77, \"tid\": 0, \"args\": "
                                    "{\"version\": 3}"),
                          HasSubstr("\"C\", \"ts\": 30, \"pid\": 77, \"tid\": 0, \"args\": "
                                    "{\"version\": 8}"),
                          HasSubstr("\"M\", \"pid\": 1001, \"tid\": 0"),
                          HasSubstr("{\"name\": \"sim/u versions\"}"),
                          HasSubstr("\"name\": \"v8\", \"cat\": \"version\", \"ph\": \"i\", "
                                    "\"s\": \"t\", \"ts\": 30, \"pid\": 1001, \"tid\": 1, "
                                    "\"args\": {\"array\": \"sim/u\", \"published\": 5}")));
  EXPECT_EQ(trace_.versions(), 5U);
}

TEST_F(Trace, AnEventBelongsToItsProcessWhereTheTraceHasThat) {
  sample(10, {{2, {5}}});
  v1::HistoryEvent event;
  event.set_array("sim/u");
  event.set_pid(1002);
  trace_.happened(12, "reclaimed", event);
  event.set_pid(4);
  trace_.happened(13, "created", event);
  EXPECT_THAT(
      written("\"event\""),
      ElementsAre(HasSubstr("\"reclaimed sim/u\", \"cat\": \"event\", \"ph\": \"i\", \"s\": "
                            "\"p\", \"ts\": 12, \"pid\": 1002"),
                  HasSubstr("\"pid\": 77")));
}

}  // namespace
}  // namespace memlease::ctl
