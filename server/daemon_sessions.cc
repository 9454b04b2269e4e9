// The daemon as the attach channel sees it.
#include "server/core/refusals.h"
#include "server/daemon.h"
#include "server/rpc/open_array.h"
#include "wire/error.h"

namespace memlease::server {

absl::StatusOr<NewSession> Daemon::open_session(const PeerIdentity& peer) {
  loop_.cancel(idle_timer_);
  absl::StatusOr<NewSession> opened;
  with_broker([&](Broker& broker) { opened = broker.open_session(peer); });
  const bool lacks_memory = wire::code_of(opened.status()) == wire::ErrorCode::kOutOfMemory;
  if (!opened.ok() && lacks_memory && may_be_relieved()) {
    relief_.look(reserve_left());
    opened = memory_is_coming_back();
  }
  call_errors_.count(opened.status());
  if (opened.ok()) {
    history_log_.write_session(peer.uid, "session opened",
                               {{"session", wire::to_int(opened->session)},
                                {"pid", peer.pid},
                                {"uid", peer.uid},
                                {"command", peer.command}});
  }
  watch_idleness();
  return opened;
}

absl::StatusOr<FileGrant> Daemon::fetch_file(wire::SessionId session, wire::FileId file,
                                             bool writable) {
  const wire::MutexLock lock(mutex_);
  return broker_.fetch_file(session, file, writable);
}

absl::StatusOr<OpenedArray> Daemon::open_array(wire::SessionId session, wire::OpeningCall call,
                                               const std::string& request) {
  return call == wire::OpeningCall::kOpen ? server::open_array(*this, session, request)
                                          : server::create_array(*this, session, request);
}

bool Daemon::hang_up(wire::SessionId session, Farewell farewell) {
  bool exit_awaited = true;
  uid_t uid = 0;
  with_broker([&](Broker& broker) {
    uid = broker.sessions().find(session)->peer.uid;
    exit_awaited = broker.hang_up(session, farewell);
  });
  history_log_.write_session(uid, "session hung up",
                             {{"session", wire::to_int(session)}, {"farewell", name_of(farewell)}});
  watch_ends();
  return exit_awaited;
}

void Daemon::exited(wire::SessionId session) {
  with_broker([&](Broker& broker) { broker.exited(session); });
  watch_ends();
}

bool Daemon::program_replaced(wire::SessionId session) {
  bool ended = false;
  with_broker([&](Broker& broker) { ended = broker.program_replaced(session); });
  if (ended) watch_ends();
  return ended;
}

}  // namespace memlease::server
