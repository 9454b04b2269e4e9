// Calls of the kernel that fail in a running daemon, one at a time: what it was about to do is done
// all the same, or is refused and has changed nothing, and nobody else notices.
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "client/admin/admin_stub.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/failing_calls.h"
#include "tests/support/goal.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct CallFailure {
  const char* name;
  KernelCall call;
  int error;
};
void PrintTo(const CallFailure& failure, std::ostream* out) { *out << failure.name; }

// What a kernel may say, and what a running daemon comes by. Not eventfd(2): gRPC 1.51 ends the
// process that gets none when its first server starts. Nor epoll_ctl(2): gRPC does not watch the
// connection then, whose calls have no answer for 30 s.
const CallFailure kCallFailures[] = {
    {"AcceptWithoutFiles", KernelCall::kAccept, EMFILE},
    {"AcceptWithoutMemory", KernelCall::kAccept, ENOMEM},
    {"AcceptOfNobody", KernelCall::kAccept, ECONNABORTED},
    {"AcceptInterrupted", KernelCall::kAccept, EINTR},
    {"Duplicate", KernelCall::kDuplicate, EMFILE},
    {"EpollWait", KernelCall::kEpollWait, EINTR},
    {"Fallocate", KernelCall::kFallocate, ENOSPC},
    {"FallocateInterrupted", KernelCall::kFallocate, EINTR},
    {"Fchmod", KernelCall::kFchmod, EPERM},
    {"Fstat", KernelCall::kFstat, ENOMEM},
    {"Ftruncate", KernelCall::kFtruncate, ENOMEM},
    {"Getsockopt", KernelCall::kGetsockopt, ENOMEM},
    {"GetsockoptWithoutFiles", KernelCall::kGetsockopt, EMFILE},
    {"Ioctl", KernelCall::kIoctl, ENOTTY},
    {"MemfdCreate", KernelCall::kMemfdCreate, ENOMEM},
    {"MemfdCreateWithoutFiles", KernelCall::kMemfdCreate, EMFILE},
    {"Mmap", KernelCall::kMmap, ENOMEM},
    {"Open", KernelCall::kOpen, EMFILE},
    {"PidfdOpen", KernelCall::kPidfdOpen, EMFILE},
    {"Pipe", KernelCall::kPipe, EMFILE},
    {"Poll", KernelCall::kPoll, EINTR},
    {"Pwrite", KernelCall::kPwrite, ENOMEM},
    {"Read", KernelCall::kRead, EINTR},
    {"ReadShort", KernelCall::kRead, kShortResult},
    {"Recv", KernelCall::kRecv, EINTR},
    {"RecvWithoutMemory", KernelCall::kRecv, ENOMEM},
    {"RecvShort", KernelCall::kRecv, kShortResult},
    {"Recvmsg", KernelCall::kRecvmsg, EAGAIN},
    {"RecvmsgInterrupted", KernelCall::kRecvmsg, EINTR},
    {"RecvmsgWithoutMemory", KernelCall::kRecvmsg, ENOMEM},
    {"RecvmsgReset", KernelCall::kRecvmsg, ECONNRESET},
    {"Seal", KernelCall::kSeal, EBUSY},
    {"Send", KernelCall::kSend, ENOBUFS},
    {"SendInterrupted", KernelCall::kSend, EINTR},
    {"SendToNobody", KernelCall::kSend, EPIPE},
    {"SendShort", KernelCall::kSend, kShortResult},
    {"Sendmsg", KernelCall::kSendmsg, EAGAIN},
    {"SendmsgInterrupted", KernelCall::kSendmsg, EINTR},
    {"SendmsgWithoutMemory", KernelCall::kSendmsg, ENOBUFS},
    {"SendmsgToNobody", KernelCall::kSendmsg, EPIPE},
    {"Setsockopt", KernelCall::kSetsockopt, ENOMEM},
    {"Socketpair", KernelCall::kSocketpair, EMFILE},
    {"Splice", KernelCall::kSplice, EAGAIN},
    {"SpliceWithoutMemory", KernelCall::kSplice, ENOMEM},
    {"SpliceShort", KernelCall::kSplice, kShortResult},
    {"TimerfdSettime", KernelCall::kTimerfdSettime, EINTR},
    {"WatchFile", KernelCall::kWatchFile, ENOSPC},
    {"Write", KernelCall::kWrite, EINTR},
    {"WriteWithoutSpace", KernelCall::kWrite, ENOSPC},
    {"WriteShort", KernelCall::kWrite, kShortResult},
};

enum class Who { kOwner, kOther, kRoot, kOperator };
struct Command {
  Who who;
  std::string text;  // a command of the peer's, or one of "die" and "status"
};

// An array comes, something is done with it, and it goes.
struct KernelOperation {
  const char* name;
  std::vector<Command> before;
  Command does;
  std::vector<Command> after;
};

const Command kCreate{Who::kOwner, "create a 3 600 64 session"};
const Command kWithdraw{Who::kOwner, "withdraw a"};
const Command kPutByOwner{Who::kOwner, "put a 5000"};
const Command kOpenByOther{Who::kOther, "open a"};
const Command kReadByOther{Who::kOther, "read a 0 5000"};
const Command kReleaseByOther{Who::kOther, "release a"};
const Command kCloseByOther{Who::kOther, "close a"};
const Command kConnectOther{Who::kOther, "connect"};

const KernelOperation kOperations[] = {
    {"connect", {{Who::kOther, "disconnect"}}, kConnectOther, {}},
    {"connect as root", {{Who::kRoot, "disconnect"}}, {Who::kRoot, "connect"}, {}},
    {"call first", {{Who::kOther, "disconnect"}, kConnectOther}, {Who::kOther, "list"}, {}},
    {"call first as root",
     {{Who::kRoot, "disconnect"}, {Who::kRoot, "connect"}},
     {Who::kRoot, "list"},
     {}},
    {"create", {}, kCreate, {kWithdraw}},
    {"create a large one", {}, {Who::kOwner, "create a 1 600 1048576 session"}, {kWithdraw}},
    {"create for others", {}, {Who::kOwner, "create a 3 644 64 session"}, {kWithdraw}},
    {"create as root", {}, {Who::kRoot, "create a 3 600 64 session"}, {{Who::kRoot, "withdraw a"}}},
    {"create one that stays", {}, {Who::kOwner, "create a 3 600 64 persistent"}, {kWithdraw}},
    {"open", {kCreate}, kOpenByOther, {kCloseByOther, kWithdraw}},
    {"read", {kCreate, kPutByOwner}, kReadByOther, {kReleaseByOther, kCloseByOther, kWithdraw}},
    {"write", {kCreate}, {Who::kOwner, "write a 5000"}, {{Who::kOwner, "drop a"}, kWithdraw}},
    {"publish",
     {kCreate, {Who::kOwner, "write a 5000"}, {Who::kOwner, "fill a"}},
     {Who::kOwner, "publish a"},
     {kWithdraw}},
    {"take over",
     {kCreate, kPutByOwner, kOpenByOther},
     {Who::kOther, "put a 5000"},
     {kCloseByOther, kWithdraw}},
    {"grow",
     {{Who::kOwner, "create a 2:12 600 64 session"},
      kPutByOwner,
      kReadByOther,
      kPutByOwner,
      {Who::kOther, "read a 1 5000"}},
     kPutByOwner,
     {kReleaseByOther, kCloseByOther, kWithdraw}},
    {"wait for a name", {kCreate}, {Who::kOther, "wait_for a 5000"}, {kCloseByOther, kWithdraw}},
    {"look for a name", {kCreate}, {Who::kOther, "exists a"}, {kWithdraw}},
    {"list", {}, {Who::kOther, "list"}, {}},
    {"list as root", {}, {Who::kRoot, "list"}, {}},
    {"status", {}, {Who::kOperator, "status"}, {}},
    {"close", {kCreate, kPutByOwner, kReadByOther, kReleaseByOther}, kCloseByOther, {kWithdraw}},
    {"withdraw", {kCreate}, kWithdraw, {}},
    {"withdraw what is read",
     {kCreate, kPutByOwner, kReadByOther},
     kWithdraw,
     {kReleaseByOther, kCloseByOther}},
    {"say goodbye",
     {kCreate, kPutByOwner, kReadByOther, kReleaseByOther, kCloseByOther},
     {Who::kOther, "disconnect"},
     {kConnectOther, kWithdraw}},
    {"a reader's death", {kCreate, kPutByOwner, kReadByOther}, {Who::kOther, "die"}, {kWithdraw}},
    {"a creator's death", {kCreate, kPutByOwner}, {Who::kOwner, "die"}, {}},
};

constexpr Who kPeers[] = {Who::kOwner, Who::kOther, Who::kRoot};

class FailingKernelCalls : public ::testing::TestWithParam<CallFailure> {
 protected:
  static constexpr int kMostCalls = 100;  // of one kind in one operation

  FailingKernelCalls() {
    for (const Who who : kPeers) begin(who);
  }

  // With each call of the kind failing in turn, until the operation makes no more of them.
  void try_each(const KernelOperation& operation) {
    const auto most = static_cast<int>(goal(1, kMostCalls));
    for (int nth = 1; nth <= most && !HasFatalFailure(); ++nth) {
      SCOPED_TRACE(fmt::format("{}, call {}", operation.name, nth));
      if (!try_one(operation, nth)) return;
    }
    EXPECT_FALSE(is_proving()) << operation.name << " never came to its end";
  }
  void finish() {
    peers_.clear();
    EXPECT_EQ(daemon_.unsettled(), "");
    const std::size_t most = memfds_ + PrivateDaemon::kSpareFiles;
    EXPECT_TRUE(eventually([&] { return daemon_.memfds() <= most; })) << daemon_.memfds();
    // gRPC may keep what a call needs: 4. A file takes two.
    const std::size_t most_files = files_ + 4 + 2 * PrivateDaemon::kSpareFiles;
    EXPECT_TRUE(eventually([&] { return daemon_.open_files() <= most_files; }))
        << daemon_.open_files() << " and at first " << files_;
  }

  int failed_ = 0;
  int done_all_the_same_ = 0;
  int lost_ = 0;                         // sessions
  std::map<std::string, int> refusals_;  // by their codes

 private:
  void begin(Who who) {
    auto& peer = peers_[who];
    peer.reset();
    const uid_t uid = who == Who::kRoot ? 0 : 4001;
    peer = std::make_unique<Peer>(daemon_.directory(), Peer::User{uid, uid});
    const Answer answer = peer->ask("connect");
    EXPECT_TRUE(answer.ok()) << answer.describe();
  }

  // Whether a call of it failed.
  bool try_one(const KernelOperation& operation, int nth) {
    for (const Command& command : operation.before) expect_done(command);
    calls_.arm(GetParam().call, GetParam().error, nth);
    const Answer answer = run(operation.does);
    calls_.disarm();
    const bool failed = calls_.has_failed();
    failed_ += failed ? 1 : 0;
    if (answer.ok()) {
      for (const Command& command : operation.after) expect_done(command);
    } else {
      EXPECT_TRUE(failed) << answer.describe();
      refused(operation, answer);
    }
    for (const Who who : kPeers) expect_nothing_left(who);
    return failed;
  }
  void refused(const KernelOperation& operation, const Answer& answer) {
    ++refusals_[answer.code];
    // Timeout: gRPC does not watch a connection then, and the caller's deadline ends the call.
    EXPECT_THAT(answer.code, AnyOf("OutOfMemory", "Busy", "Internal", "QuotaExceeded", "DaemonLost",
                                   "DaemonUnavailable", "NoFreeSlot", "Timeout"))
        << answer.describe();
    EXPECT_NE(answer.text, "");
    const Answer again = run(operation.does);
    if (again.code == "DaemonLost") return begin_again(operation);
    if (!again.ok()) {
      // It was done, and its answer was lost on the way.
      ++done_all_the_same_;
      EXPECT_THAT(again.describe(), AnyOf(StartsWith("NotFound: there is no array 'a'"),
                                          HasSubstr("by an array that this process itself has")));
    }
    for (const Command& command : operation.after) expect_done(command);
  }
  // A session is lost with its connection to attach.sock.
  void begin_again(const KernelOperation& operation) {
    ++lost_;
    for (const Who who : kPeers) begin(who);
    run(kWithdraw);  // one that stays
    EXPECT_TRUE(eventually([&] { return peers_.at(Who::kRoot)->ask("list").text.empty(); }));
    for (const Command& command : operation.before) expect_done(command);
    expect_done(operation.does);
    for (const Command& command : operation.after) expect_done(command);
  }
  // That there is no array, and the peer is fit for the next try, connected anew if need be.
  void expect_nothing_left(Who who) {
    const Command list{who, "list"};
    Answer answer = run(list);
    for (int i = 0; i < 2 && answer.code == "DaemonLost" && calls_.has_failed(); ++i) {
      if (i == 1) begin(who);
      answer = run(list);
    }
    EXPECT_EQ(answer.describe(), "ok ");
  }
  // A connection that was cut after the answer shows at the next call.
  void expect_done(const Command& command) {
    Answer answer = run(command);
    if (answer.code == "DaemonLost" && calls_.has_failed()) answer = run(command);
    EXPECT_TRUE(answer.ok()) << command.text << ": " << answer.describe();
  }
  Answer run(const Command& command) {
    if (command.who == Who::kOperator) {
      // A stub does not connect again.
      auto stub = internal::AdminStub::connect(daemon_.directory());
      const auto status = stub.ok() ? (*stub)->status() : stub.status();
      if (status.ok()) return {Answer::Kind::kOk, "", ""};
      return {Answer::Kind::kError, std::string(wire::name_of(wire::code_of(status.status()))),
              wire::message_of(status.status())};
    }
    if (command.text == "die") return die(command.who);
    return peers_.at(command.who)->ask(command.text);
  }
  // Done once the daemon has closed what the process had.
  Answer die(Who who) {
    // The page that is kept ready is made a millisecond after the last one was taken.
    std::size_t before = 0;
    EXPECT_TRUE(eventually([&] {
      const std::size_t moment_ago = daemon_.memfds();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      before = daemon_.memfds();
      return before == moment_ago;
    }));
    peers_.at(who)->kill();
    const bool closed = eventually([&] { return daemon_.memfds() < before; });
    calls_.disarm();
    begin(who);
    return closed ? Answer{Answer::Kind::kOk, "", ""} : Answer{};
  }

  FailingCalls calls_;
  PrivateDaemon daemon_{{"--socket-mode=0666", "--log-level=info", "--warm-bytes=0"},
                        geteuid(),
                        "bin/memleased",
                        calls_.environment()};
  const std::size_t memfds_ = daemon_.memfds();
  const std::size_t files_ = daemon_.open_files();
  std::map<Who, std::unique_ptr<Peer>> peers_;
};
INSTANTIATE_TEST_SUITE_P(, FailingKernelCalls, ::testing::ValuesIn(kCallFailures),
                         [](const auto& test) { return test.param.name; });

TEST_P(FailingKernelCalls, AreToldOrMadeUpForAndLeaveNothing) {
  const auto index = static_cast<std::size_t>(
      std::ranges::find(kCallFailures, GetParam().name, &CallFailure::name) - kCallFailures);
  // In a test each eighth operation, with each failure others.
  const std::size_t step = goal(8, 1);
  for (std::size_t i = index % step; i < std::size(kOperations); i += step) {
    try_each(kOperations[i]);
  }
  finish();
  EXPECT_TRUE(failed_ > 0 || !is_proving()) << "none of these calls is made at all";
  reached("{}: {} calls failed in {} operations; refused: {}, though done: {}; sessions lost: {}",
          GetParam().name, failed_, std::size(kOperations) / step, refusals_, done_all_the_same_,
          lost_);
}

}  // namespace
}  // namespace memlease::testing
