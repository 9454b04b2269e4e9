#include "tests/support/fake_session_host.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "wire/error.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

absl::StatusOr<server::NewSession> FakeSessionHost::open_session(const server::PeerIdentity& peer) {
  if (!refusal.ok()) return refusal;
  peers.push_back(peer);
  const wire::SessionId session{static_cast<std::uint32_t>(peers.size())};
  record("open", session);
  return server::NewSession{session, token_of(session)};
}

absl::StatusOr<server::FileGrant> FakeSessionHost::fetch_file(wire::SessionId session,
                                                              wire::FileId file,
                                                              bool /*writable*/) {
  record("fetch", session);
  const auto found = files.find(to_int(file));
  if (found == files.end()) {
    return wire::make_error(wire::ErrorCode::kNotFound, fmt::format("no file {}", to_int(file)),
                            "Ask for another.");
  }
  const std::string& content = found->second;
  wire::UniqueFd fd(::memfd_create("file", MFD_CLOEXEC));
  EXPECT_EQ(::pwrite(fd.get(), content.data(), content.size(), 0),
            static_cast<ssize_t>(content.size()));
  const bool writable = to_int(file) % 2 == 0;
  if (!writable) {
    fd.reset(::open(fmt::format("/proc/self/fd/{}", fd.get()).c_str(), O_RDONLY | O_CLOEXEC));
  }
  return server::FileGrant{wire::SharedFd(std::move(fd)), wire::FileKind::kBoard, content.size(),
                           writable};
}

absl::StatusOr<server::OpenedArray> FakeSessionHost::open_array(wire::SessionId session,
                                                                wire::OpeningCall call,
                                                                const std::string& request) {
  record(call == wire::OpeningCall::kCreate ? "create" : "array", session);
  std::this_thread::sleep_for(open_takes);
  server::OpenedArray opened{request, {}};
  if (files.contains(1)) {
    auto grant = fetch_file(session, wire::FileId{1}, false);
    if (!grant.ok()) return grant.status();
    opened.files.push_back({wire::FileId{1}, *std::move(grant)});
  }
  return opened;
}

wire::Token FakeSessionHost::token_of(wire::SessionId session) {
  wire::Token token;
  token.fill(static_cast<std::uint8_t>(0xa0 + to_int(session)));
  return token;
}

bool FakeSessionHost::has(const std::string& event) const {
  return std::ranges::find(events, event) != events.end();
}

void FakeSessionHost::record(const std::string& what, wire::SessionId session) {
  events.push_back(fmt::format("{} {}", what, to_int(session)));
  on_change_();
}

}  // namespace memlease::testing
