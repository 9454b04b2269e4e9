// Every call that names an array or a file of one, by each kind of user, for each mode: what owner,
// group and mode say, and no more. Who may not read an array is answered as if there were none, to
// the letter.
#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "server/rpc/open_array.h"
#include "tests/server/rpc/services.h"
#include "tests/support/goal.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using Control = v1::Control::Stub;
using Admin = v1::Admin::Stub;

enum class Right : std::uint8_t { kNone, kRead, kWrite };

Right right_of(std::uint32_t bits) {
  if ((bits & 04) == 0) return Right::kNone;  // writing needs reading
  return (bits & 02) == 0 ? Right::kRead : Right::kWrite;
}

// An array as somebody names it, who may know its numbers or guess them.
struct Named {
  std::string name;
  std::uint32_t mode;
  std::uint64_t id;
  std::uint32_t segment, board;
};
const Named kMissing{"none", 0600, 4'000'000'001, 260'000'001, 260'000'002};

constexpr uid_t kOwner = 1000;
// Of every Debian: who calls without a session has the groups that the system says.
constexpr gid_t kGroup = 65534;
constexpr uid_t kMember = 65534;

class AccessTable : public ::testing::Test {
 protected:
  struct User {
    std::string what;
    server::PeerIdentity peer;
    std::function<Right(std::uint32_t mode)> right;
    std::unique_ptr<Connection> connection;
    server::Session* session = nullptr;
  };

  AccessTable() {
    add("the owner", kOwner, kGroup, [](std::uint32_t) { return Right::kWrite; });
    add("a member", kMember, kGroup, [](std::uint32_t mode) { return right_of(mode >> 3); });
    add("a stranger", kStranger, kStranger, [](std::uint32_t mode) { return right_of(mode); });
    add("root", 0, 0, [](std::uint32_t) { return Right::kWrite; });
  }
  void add(const std::string& what, uid_t uid, gid_t gid,
           const std::function<Right(std::uint32_t)>& right) {
    auto peer = peer_of(uid);
    peer.gid = gid;
    User& user = users_.emplace_back(User{what, peer, right, {}, nullptr});
    user.connection = std::make_unique<Connection>(host_, uid);
    user.session = &host_.world.connect(peer);
  }

  // A code and what was said, with what stands for the array in place of its numbers and name.
  template <typename Stub, typename Request, typename Reply>
  std::string ask(User& user,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                  const Request& request, Reply& reply, const Named& named) {
    grpc::ClientContext context;
    const bool has_session = std::is_same_v<Stub, Control>;
    return words(
        user.connection->ask(context, method, request, reply, has_session ? user.session : nullptr),
        named);
  }
  static std::string words(const absl::Status& status, const Named& named) {
    if (status.ok()) return "OK";
    std::string said = fmt::format("{}: {} {}", wire::name_of(wire::code_of(status)),
                                   wire::message_of(status), wire::hint_of(status));
    for (const auto& [what, stands] : {std::pair{fmt::format("'{}'", named.name), "NAME"},
                                       {fmt::format("\\b{}\\b", named.segment), "NUMBER"},
                                       {fmt::format("\\b{}\\b", named.board), "NUMBER"},
                                       {fmt::format("\\b{}\\b", named.id), "NUMBER"}}) {
      said = std::regex_replace(said, std::regex(what), stands);
    }
    return said;
  }

  static wire::ArraySpec spec(const std::string& name, std::uint32_t mode) {
    auto spec = spec_of(name, mode, 2);
    spec.max_slots = 3;
    spec.lifetime = wire::Lifetime::kPersistent;
    return spec;
  }

  // ---- Calls. By name; what they have opened they leave.

  void leave(User& user, std::uint64_t id) {
    ASSERT_TRUE(host_.world.broker.leave(*user.session, wire::ArrayId{id}, 1).ok());
  }
  std::string open(User& user, const Named& named) {
    v1::OpenRequest request;
    request.set_name(named.name);
    v1::OpenReply reply;
    const std::string said = ask(user, &Control::Open, request, reply, named);
    if (said == "OK") leave(user, reply.array_id());
    return said;
  }
  std::string open_by_frame(User& user, const Named& named) {
    v1::OpenRequest request;
    request.set_name(named.name);
    const auto opened = server::open_array(host_, user.session->id, request.SerializeAsString());
    v1::OpenReply reply;
    if (opened.ok() && reply.ParseFromString(opened->answer)) leave(user, reply.array_id());
    return words(opened.status(), named);
  }
  std::string create(User& user, const Named& named, bool exist_ok) {
    v1::CreateRequest request;
    *request.mutable_spec() = wire::to_proto(spec(named.name, named.mode));
    request.set_exist_ok(exist_ok);
    v1::OpenReply reply;
    const std::string said = ask(user, &Control::Create, request, reply, named);
    if (said == "OK") leave(user, reply.array_id());
    return said;
  }
  template <typename Stub>
  std::string withdraw(User& user, const Named& named,
                       grpc::Status (Stub::*method)(grpc::ClientContext*, const v1::NameRequest&,
                                                    v1::Empty*)) {
    v1::NameRequest request;
    request.set_name(named.name);
    v1::Empty reply;
    return ask(user, method, request, reply, named);
  }
  std::string look_up(User& user, const Named& named) {
    v1::LookUpRequest request;
    request.set_name(named.name);
    v1::LookUpReply reply;
    EXPECT_EQ(ask(user, &Control::LookUp, request, reply, named), "OK");
    return reply.exists() ? "there" : "not there";
  }
  std::string list(User& user, const Named& named) {
    v1::ListReply reply;
    EXPECT_EQ(ask(user, &Control::List, v1::ListRequest(), reply, named), "OK");
    return found(reply.names(), named.name);
  }
  std::string list_arrays(User& user, const Named& named) {
    v1::ListArraysReply reply;
    EXPECT_EQ(ask(user, &Admin::ListArrays, v1::ListArraysRequest(), reply, named), "OK");
    std::vector<std::string> names;
    for (const auto& array : reply.arrays()) names.push_back(array.spec().name());
    return found(names, named.name);
  }
  std::string history(User& user, const Named& named) {
    v1::HistoryReply reply;
    EXPECT_EQ(ask(user, &Admin::History, v1::HistoryRequest(), reply, named), "OK");
    std::vector<std::string> names;
    for (const auto& event : reply.events()) names.push_back(event.array());
    return found(names, named.name);
  }
  std::string sample(User& user, const Named& named) {
    v1::SampleReply reply;
    EXPECT_EQ(ask(user, &Admin::Sample, v1::SampleRequest(), reply, named), "OK");
    return found(reply.array_ids(), named.id);
  }
  template <typename Container, typename Value>
  static std::string found(const Container& all, const Value& value) {
    return std::find(all.begin(), all.end(), value) != all.end() ? "there" : "not there";
  }

  // By number.
  template <typename Reply>
  std::string by_id(User& user, const Named& named,
                    grpc::Status (Control::*method)(grpc::ClientContext*, const v1::ArrayRequest&,
                                                    Reply*)) {
    v1::ArrayRequest request;
    request.set_array_id(named.id);
    Reply reply;
    return ask(user, method, request, reply, named);
  }
  std::string replica(User& user, const Named& named, bool by_number) {
    v1::ReplicaRequest request;
    request.set_array_id(named.id);
    if (by_number) {
      request.set_number(0);
    } else {
      request.set_device("GPU-1");
    }
    v1::OpenReply reply;
    return ask(user, &Control::OpenReplica, request, reply, named);
  }
  std::string confirm(User& user, const Named& named) {
    v1::ConfirmWriterRequest request;
    request.set_array_id(named.id);
    request.set_offer(1);
    v1::Empty reply;
    return ask(user, &Control::ConfirmWriter, request, reply, named);
  }
  std::string add_slot(User& user, const Named& named) {
    v1::AddSlotRequest request;
    request.set_array_id(named.id);
    request.set_slots(2);
    v1::Empty reply;
    return ask(user, &Control::AddSlot, request, reply, named);
  }
  std::string leave_it(User& user, const Named& named) {
    v1::LeaveRequest request;
    v1::Departure& departure = *request.add_departures();
    departure.set_array_id(named.id);
    departure.set_opens(1);
    v1::Empty reply;
    return ask(user, &Control::Leave, request, reply, named);
  }
  std::string import_memory(User& user, const Named& named) {
    v1::FileRequest request;
    request.set_file_id(named.segment);
    v1::ImportMemoryReply reply;
    return ask(user, &Control::ImportMemory, request, reply, named);
  }
  std::string list_holders(User& user, const Named& named) {
    v1::ListHoldersRequest request;
    request.set_name(named.name);
    v1::HoldersReply reply;
    return ask(user, &Admin::ListHolders, request, reply, named);
  }
  std::string fetch(User& user, const Named& named, std::uint32_t file, bool to_write) {
    const auto grant =
        host_.world.broker.fetch_file(user.session->id, wire::FileId{file}, to_write);
    if (!grant.ok()) return words(grant.status(), named);
    return grant->writable ? "writable" : "readable";
  }

  void expect(const std::string& call, const std::string& said, const std::string& expected) {
    ++cells_;
    EXPECT_EQ(said, expected) << call;
  }
  void expect_code(const std::string& call, const std::string& said, const std::string& code) {
    expect(call, said.substr(0, said.find(':')), code);
  }
  Named make(const std::string& name, std::uint32_t mode) {
    const auto id = host_.world.create(*users_.front().session, spec(name, mode));
    EXPECT_TRUE(host_.world.broker.leave(*users_.front().session, id, 1).ok());
    const auto& array = *host_.world.broker.catalog().find(id);
    return {name, mode, wire::to_int(id), wire::to_int(array.slots[0].file),
            wire::to_int(array.board_at.file)};
  }

  FakeServiceHost host_;
  std::vector<User> users_;
  std::uint64_t cells_ = 0;
};

TEST_F(AccessTable, IsWhatOwnerGroupAndModeSay) {
  host_.prepare_device("GPU-1").IgnoreError();
  std::uint32_t arrays = 0;
  for (std::uint32_t group = 0; group <= 06; group += 02) {
    for (std::uint32_t others = 0; others <= 06; others += 02) {
      const std::uint32_t mode = 0600 | (group << 3) | others;
      const auto make_next = [&] { return make(fmt::format("a/{}", ++arrays), mode); };
      Named array = make_next();
      for (User& user : users_) {
        SCOPED_TRACE(fmt::format("{} on mode {:o}", user.what, mode));
        const Right right = user.right(mode);
        const bool reads = right != Right::kNone;
        const bool writes = right == Right::kWrite;
        const std::string seen = reads ? "there" : "not there";

        // A name.
        const auto named = [&](const std::string& call, const auto& of, const std::string& code) {
          const std::string said = of(array);
          reads ? expect_code(call, said, code) : expect(call, said, of(kMissing));
        };
        named("Open", [&](const Named& a) { return open(user, a); }, "OK");
        named("OPEN", [&](const Named& a) { return open_by_frame(user, a); }, "OK");
        named("ListHolders", [&](const Named& a) { return list_holders(user, a); }, "OK");
        expect("LookUp", look_up(user, array), seen);
        expect("List", list(user, array), seen);
        expect("ListArrays", list_arrays(user, array), seen);
        expect("History", history(user, array), seen);
        expect("Sample", sample(user, array), seen);
        // That a name is taken must be told.
        expect_code("Create", create(user, array, false), "AlreadyExists");
        expect_code("Create, exist_ok", create(user, array, true), reads ? "OK" : "AlreadyExists");

        // A number that is guessed: nothing, for whoever has not opened the array.
        const auto guessed = [&](const std::string& call, const auto& of) {
          expect(call, of(array), of(kMissing));
        };
        guessed("Subscribe", [&](const Named& a) { return by_id(user, a, &Control::Subscribe); });
        guessed("AcquireWriter",
                [&](const Named& a) { return by_id(user, a, &Control::AcquireWriter); });
        guessed("ConfirmWriter", [&](const Named& a) { return confirm(user, a); });
        guessed("CancelWriter",
                [&](const Named& a) { return by_id(user, a, &Control::CancelWriter); });
        guessed("WriteElsewhere",
                [&](const Named& a) { return by_id(user, a, &Control::WriteElsewhere); });
        guessed("Holders", [&](const Named& a) { return by_id(user, a, &Control::Holders); });
        guessed("AddSlot", [&](const Named& a) { return add_slot(user, a); });
        guessed("OpenReplica", [&](const Named& a) { return replica(user, a, false); });
        guessed("OpenReplica by number", [&](const Named& a) { return replica(user, a, true); });
        guessed("Leave", [&](const Named& a) { return leave_it(user, a); });

        // A file that is guessed.
        const auto file = [&](const std::string& call, const auto& of, const std::string& what) {
          expect(call, of(array), reads ? what : of(kMissing));
        };
        const std::string most = writes ? "writable" : "readable";
        file(
            "FETCH to write", [&](const Named& a) { return fetch(user, a, a.segment, true); },
            most);
        file(
            "FETCH to read", [&](const Named& a) { return fetch(user, a, a.segment, false); },
            "readable");
        file(
            "FETCH of the board", [&](const Named& a) { return fetch(user, a, a.board, true); },
            "readable");
        reads ? expect_code("ImportMemory", import_memory(user, array), "Unsupported")
              : expect("ImportMemory", import_memory(user, array), import_memory(user, kMissing));

        // What who has it open may do.
        if (reads) {
          host_.world.open(*user.session, array.name);
          expect("Subscribe, open", by_id(user, array, &Control::Subscribe), "OK");
          expect("Holders, open", by_id(user, array, &Control::Holders), "OK");
          const std::string may_write = writes ? "OK" : "Denied";
          expect_code("AcquireWriter, open", by_id(user, array, &Control::AcquireWriter),
                      may_write);
          expect_code("AddSlot, open", add_slot(user, array), "Busy");
          expect_code("WriteElsewhere, open", by_id(user, array, &Control::WriteElsewhere),
                      writes ? "InvalidArgument" : "Denied");
          expect_code("OpenReplica, open", replica(user, array, false), may_write);
          leave(user, array.id);
        }

        // Withdrawing takes a right to write.
        const std::string withdrawn = writes ? "OK" : "Denied";
        named(
            "Withdraw", [&](const Named& a) { return withdraw(user, a, &Control::Withdraw); },
            withdrawn);
        if (writes) array = make_next();
        named(
            "WithdrawArray",
            [&](const Named& a) { return withdraw(user, a, &Admin::WithdrawArray); }, withdrawn);
        if (writes) array = make_next();
      }
      ASSERT_TRUE(host_.world.broker.withdraw(users_.front().peer, array.name).ok());
    }
  }
  EXPECT_GE(cells_, 1000U);
  reached("{} cells: {} users, 16 modes", cells_, users_.size());
}

}  // namespace
}  // namespace memlease::testing
