// A core behind the attach channel that opens sessions 1, 2, ... and hands out what `files` says,
// and keeps what it was asked. For one thread, the loop's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/session_host.h"
#include "wire/attach_frame.h"
#include "wire/ids.h"

namespace memlease::testing {

class FakeSessionHost : public server::SessionHost {
 public:
  explicit FakeSessionHost(std::function<void()> on_change) : on_change_(std::move(on_change)) {}

  absl::StatusOr<server::NewSession> open_session(const server::PeerIdentity& peer) override;
  absl::StatusOr<server::FileGrant> fetch_file(wire::SessionId session, wire::FileId file,
                                               bool writable) override;
  // Answers with the request, and with file 1 if there is one.
  absl::StatusOr<server::OpenedArray> open_array(wire::SessionId session, wire::OpeningCall call,
                                                 const std::string& request) override;
  bool hang_up(wire::SessionId session, server::Farewell farewell) override {
    record(farewell == server::Farewell::kNone ? "hang_up" : std::string(name_of(farewell)),
           session);
    return true;  // it has more to give back
  }
  bool program_replaced(wire::SessionId session) override {
    record("replaced", session);
    return ends_with_program;
  }
  void exited(wire::SessionId session) override { record("exited", session); }

  static wire::Token token_of(wire::SessionId session);
  bool has(const std::string& event) const;

  absl::Status refusal;                     // of open_session, unless ok
  std::chrono::milliseconds open_takes{0};  // of open_array
  bool ends_with_program = true;
  std::map<std::uint32_t, std::string> files;  // even ids are handed out writable
  std::vector<server::PeerIdentity> peers;
  std::vector<std::string> events;  // "open 1", "fetch 1", then "hang_up 1", "exit 1" or
                                    // "goodbye 1", then "exited 1" or "replaced 1"

 private:
  void record(const std::string& what, wire::SessionId session);
  const std::function<void()> on_change_;
};

}  // namespace memlease::testing
