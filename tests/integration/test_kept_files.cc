// Who keeps a descriptor of what the daemon lent to him: what has gone costs the daemon nothing,
// and what he may still use stays.
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/channel/attach_client.h"
#include "client/rpc/control_stub.h"
#include "client/session/interrupt.h"
#include "gtest/gtest.h"
#include "tests/integration/raw_control.h"
#include "tests/support/eventually.h"
#include "tests/support/private_daemon.h"
#include "wire/array_spec.h"

namespace memlease::testing {
namespace {

using internal::kNoInterrupts;
using internal::SharedFile;

constexpr std::uint64_t kBytes = std::uint64_t{4} << 20;

// A session that hoards, as the client library does not.
class Hoarder {
 public:
  explicit Hoarder(const std::string& directory)
      : attached_(*internal::AttachClient::connect(directory)),
        control_(*internal::ControlSocket::find(directory), credential_of(*attached_)) {}

  // The files of a new array: its segment and its board, and the session's page with a row.
  std::vector<SharedFile> files_of_new_array() {
    wire::ArraySpec spec;
    spec.name = "a";
    spec.shape = {kBytes / 4};  // of float32
    spec.slots = 1;
    const auto opened = control_.create(spec, {}, false, {}, kNoInterrupts);
    if (!opened.ok()) return failed(opened.status());
    id_ = opened->id;
    const auto row = control_.subscribe(id_, kNoInterrupts);
    if (!row.ok()) return failed(row.status());
    const std::array wanted{opened->slots.front().file, opened->board_record.file, row->row.file};
    auto files = attached_->fetch_all(wanted, kNoInterrupts);
    return files.ok() ? *std::move(files) : failed(files.status());
  }
  void withdraw_and_leave() {
    EXPECT_TRUE(control_.withdraw("a", kNoInterrupts).ok());
    const std::array all{internal::Departure{id_, 1, 0}};
    EXPECT_TRUE(control_.leave(all, 0, kNoInterrupts).ok());
  }
  void goodbye() { attached_->goodbye(); }

 private:
  static std::vector<SharedFile> failed(const absl::Status& status) {
    ADD_FAILURE() << status;
    return {};
  }

  std::unique_ptr<internal::AttachClient> attached_;
  internal::ControlStub control_;
  wire::ArrayId id_{0};
};

// Of memory that these files have taken.
std::uint64_t bytes_of(const std::vector<SharedFile>& files) {
  std::uint64_t bytes = 0;
  for (const SharedFile& file : files) {
    struct stat info{};
    EXPECT_EQ(::fstat(file.fd.get(), &info), 0);
    bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

// As other users have them.
std::vector<SharedFile> for_reading(const std::vector<SharedFile>& files) {
  std::vector<SharedFile> all;
  for (const SharedFile& file : files) {
    const std::string path = "/proc/self/fd/" + std::to_string(file.fd.get());
    all.emplace_back().fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  return all;
}

TEST(KeptFiles, OfArraysThatHaveGoneAreEmptyForReaders) {
  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  Hoarder hoarder(daemon.directory());
  std::vector<SharedFile> hoard;
  for (int round = 0; round < 3; ++round) {
    auto kept = for_reading(hoarder.files_of_new_array());
    ASSERT_EQ(kept.size(), 3U);
    EXPECT_GT(bytes_of(kept), kBytes);
    hoarder.withdraw_and_leave();
    kept.pop_back();  // the session's page is there for the next one
    for (SharedFile& file : kept) hoard.push_back(std::move(file));
  }
  EXPECT_TRUE(eventually([&] { return bytes_of(hoard) == 0; })) << bytes_of(hoard);
  EXPECT_EQ(daemon.unsettled(1), "");
}

TEST(KeptFiles, OfASessionThatHasSaidGoodbyeAreEmptyForReaders) {
  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  Hoarder hoarder(daemon.directory());
  const auto kept = for_reading(hoarder.files_of_new_array());
  EXPECT_GT(bytes_of(kept), kBytes);
  hoarder.goodbye();
  EXPECT_TRUE(eventually([&] { return bytes_of(kept) == 0; })) << bytes_of(kept);
}

// Who can write them can stop whoever takes their pages: the daemon must not.
TEST(KeptFiles, StayWithWhoeverCanWriteThem) {
  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  Hoarder hoarder(daemon.directory());
  const auto files = hoarder.files_of_new_array();
  const std::uint64_t bytes = bytes_of(files);
  hoarder.goodbye();
  EXPECT_EQ(daemon.unsettled(), "");
  EXPECT_TRUE(eventually([&] { return bytes_of(files) < bytes; })) << "nobody can write a board";
  EXPECT_GE(bytes_of(files), kBytes);
}

TEST(KeptFiles, StayWhenTheDaemonEnds) {
  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  Hoarder hoarder(daemon.directory());
  const auto files = hoarder.files_of_new_array();
  const std::uint64_t bytes = bytes_of(files);
  EXPECT_GT(bytes, kBytes);
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_EQ(bytes_of(files), bytes);
}

}  // namespace
}  // namespace memlease::testing
