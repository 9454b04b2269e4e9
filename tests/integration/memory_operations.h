// What a daemon is asked to do while its memory fails: kinds of calls, each in several states of
// the daemon. Used by test_failing_memory.cc. Sessions are made and call as the client library's
// own parts do, as a process has one session only with the library as a whole.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/channel/attach_client.h"
#include "client/rpc/control_stub.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "wire/array_spec.h"
#include "wire/attributes.h"
#include "wire/session_pages.h"

namespace memlease::testing {

using internal::OpenAnswer;

// One session: what its process would have of it.
class BareSession {
 public:
  static absl::StatusOr<std::unique_ptr<BareSession>> attach(const std::string& directory);
  ~BareSession();
  BareSession(const BareSession&) = delete;
  BareSession& operator=(const BareSession&) = delete;

  absl::StatusOr<OpenAnswer> create(const wire::ArraySpec& spec,
                                    const wire::Attributes& attributes = {}, bool exist_ok = false,
                                    internal::OwnerUid owner = {});
  absl::StatusOr<OpenAnswer> open(const std::string& name, internal::OwnerUid owner = {});
  // Ends up as the array's writer, if nobody is at work. What was written before is lost.
  absl::Status become_writer(wire::ArrayId array);
  // Counts a hold of the slot in the reader row, until the session ends.
  absl::Status hold(wire::RowRef row, std::uint32_t slots, std::uint32_t slot);
  absl::Status leave(wire::ArrayId array);
  absl::Status fetch(const OpenAnswer& opened);
  internal::ControlPort& calls() { return *control_; }

 private:
  explicit BareSession(std::unique_ptr<internal::AttachClient> attached)
      : attached_(std::move(attached)) {}

  struct Page {
    void* data;
    std::size_t bytes;
    wire::ReaderRow* row;
    std::uint32_t slot;
  };

  std::unique_ptr<internal::AttachClient> attached_;
  std::unique_ptr<internal::ControlStub> control_;
  std::vector<Page> held_;
};

wire::ArraySpec spec_of_memory(const std::string& name, std::uint32_t slots = 3);

// A daemon with two sessions, as one operation finds it. At its end everybody has left, and no
// array is there.
class Scene {
 public:
  explicit Scene(PrivateDaemon& of) : daemon(of) {}
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  // Connected when they are asked for first.
  BareSession& first() { return connected(first_); }
  BareSession& second() { return connected(second_); }
  // Both, and a call of each, so that what follows is no first call.
  void connect();
  // By the first session; kept in `opened`.
  wire::ArrayId create(const std::string& name, std::uint32_t slots = 3);
  wire::ArrayId create(const wire::ArraySpec& spec, const wire::Attributes& attributes = {});
  void create_many(int count);
  // By the second session.
  wire::ArrayId open(const std::string& name);

  PrivateDaemon& daemon;
  std::vector<OpenAnswer> opened;
  std::unique_ptr<BareSession> third;
  std::optional<Peer> peer;
  std::uint32_t evicted = 0;  // its session

  void end_first() { first_.reset(); }

 private:
  BareSession& connected(std::unique_ptr<BareSession>& session) const;

  std::unique_ptr<BareSession> first_;
  std::unique_ptr<BareSession> second_;
};

struct Operation {
  std::string name;
  std::function<void(Scene&)> prepare;
  std::function<absl::Status(Scene&)> act;
  // That there are once the daemon has done what nobody waits for; none: it does nothing behind the
  // answer.
  std::optional<std::uint64_t> sessions = {};
};
using Operations = std::vector<Operation>;

// "connect", "create", "open", "arrays", "names", "errors", "ctl", "ends".
Operations operations_of(const std::string& group);

// The groups: in memory_operations.cc, and in memory_calls.cc.
Operations connections();
Operations creations();
Operations openings();
Operations calls_about_arrays();
Operations calls_about_names();
Operations calls_in_vain();
Operations calls_of_ctl();
Operations ends_of_sessions();

// For them.
inline void connects(Scene& scene) { scene.connect(); }
wire::Attributes some_attributes();

}  // namespace memlease::testing
