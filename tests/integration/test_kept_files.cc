// Who keeps a descriptor of what the daemon lent to him: what has gone costs the daemon nothing,
// and what he may still use stays.
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/channel/attach_client.h"
#include "client/rpc/control_stub.h"
#include "client/session/interrupt.h"
#include "gtest/gtest.h"
#include "memlease/client.h"
#include "memlease/v1/admin.pb.h"
#include "tests/integration/raw_control.h"
#include "tests/support/eventually.h"
#include "tests/support/in_build.h"
#include "tests/support/options_for.h"
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
    const internal::WantedFile wanted[] = {{opened->slots.front().file, internal::Access::kWrite},
                                           {opened->board_record.file},
                                           {row->row.file}};
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

// Who can write them can stop whoever takes their pages, which the daemon must not wait for.
TEST(KeptFiles, OfArraysThatHaveGoneAreChargedWhileSomebodyCanWriteThem) {
  PrivateDaemon daemon({"--quota-bytes=12MiB", "--warm-bytes=0", "--log-level=warning"});
  Hoarder hoarder(daemon.directory());
  std::vector<SharedFile> hoard;
  const auto segment_bytes = [&] {
    const auto status = daemon.admin().status();
    EXPECT_TRUE(status.ok()) << status.status();
    for (const auto& one : status->spending()) {
      if (one.what() == "segment_bytes") return one.used();
    }
    return std::uint64_t{0};
  };
  const auto kept_bytes = [&] { return daemon.admin().status()->kept_bytes(); };
  for (std::uint64_t round = 1; round <= 4; ++round) {
    auto files = hoarder.files_of_new_array();
    ASSERT_EQ(files.size(), 3U);
    hoarder.withdraw_and_leave();
    hoard.push_back(std::move(files.front()));
    EXPECT_EQ(bytes_of(hoard), round * kBytes);
    EXPECT_EQ(segment_bytes(), round * kBytes) << "what he has withdrawn he still pays";
    EXPECT_EQ(kept_bytes(), round * kBytes);
  }
  hoard.clear();
  EXPECT_EQ(daemon.unsettled(1), "");
  EXPECT_EQ(kept_bytes(), 0U);
  EXPECT_EQ(segment_bytes(), 0U);
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

// The library keeps nothing: who has closed an array, or found that it has gone, has no bytes of it
// mapped any more, but for the views that live.
CreateOptions host_array(const std::string& name) {
  CreateOptions options;
  options.name = name;
  options.dtype = dtype_of<double>();
  options.shape = {kBytes / 8};
  return options;
}

std::size_t mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  std::size_t segments = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memlease-segment") != std::string::npos) ++segments;
  }
  return segments;
}

TEST(KeptFiles, ALibraryUnmapsWhatItsProgramHasClosed) {
  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  const auto client = Client::connect(options_for(daemon));
  auto array = client.create(host_array("a"));
  array.write().publish();
  EXPECT_EQ(mapped_segments(), 2U) << "for reading, and for writing";
  auto lease = std::make_optional(array.read());
  array.close();
  EXPECT_EQ(mapped_segments(), 2U) << "a view lives";
  lease.reset();
  client.exists("a");  // the end of a lease calls nobody
  EXPECT_EQ(mapped_segments(), 0U);
}

TEST(KeptFiles, ALibraryUnmapsWhatItFindsWithdrawn) {
  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  const auto client = Client::connect(options_for(daemon));
  auto own = client.create(host_array("own"));
  own.write().publish();
  client.withdraw("own");
  EXPECT_EQ(mapped_segments(), 0U);
  auto other = client.create(host_array("other"));
  other.write().publish();
  ASSERT_EQ(run_program({in_build("bin/memleasectl"), "--directory=" + daemon.directory(),
                         "withdraw", "other"})
                .exit_code,
            0);
  EXPECT_THROW(static_cast<void>(other.read()), Withdrawn);
  EXPECT_EQ(mapped_segments(), 0U);
  EXPECT_EQ(daemon.unsettled(1), "");
}

}  // namespace
}  // namespace memlease::testing
