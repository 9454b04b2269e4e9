#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "client/api/connect_session.h"
#include "client/channel/attach_client.h"
#include "client/cuda/cuda_importer.h"
#include "client/daemon_starter.h"
#include "client/rpc/control_socket.h"
#include "client/rpc/control_stub.h"
#include "client/session/interrupt.h"
#include "client/sessions.h"
#include "client/socket/connect_socket.h"
#include "client/socket/directory.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"
#include "wire/place.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

constexpr std::chrono::seconds kStartTimeout{5};
// A daemon that is ending waits 25 s for leases, unless it was started otherwise.
constexpr std::chrono::seconds kEndTimeout{30};
// One without leases ends sooner.
constexpr std::chrono::seconds kSilence{1};

// What ends the waits of one connect(), ConnectOptions::timeout and the interrupt check; and who is
// told of them.
class ConnectWait {
 public:
  explicit ConnectWait(const ConnectOptions& options)
      : options_(options), limit_(options.timeout.from_now()) {}

  // Asked by whatever waits.
  absl::Status check(const std::string& directory) const {
    if (limit_ && !within(*limit_)) {
      const std::chrono::duration<double> waited = *limit_;
      return wire::make_error(
          ErrorCode::kTimeout,
          fmt::format("no connection to the daemon in {} within {:g} s: it {}", directory,
                      waited.count(),
                      is_ending(directory) ? "is shutting down" : "has not answered yet"),
          "Give a longer timeout. One that is shutting down waits for leases first: memleasectl "
          "holders shows whose.");
    }
    return call_check(options_.check_interrupt);
  }
  // For the wait until a daemon has ended: once, as ConnectOptions::on_wait has it.
  absl::Status tell(const std::string& directory) {
    if (told_ || !options_.on_wait || within(kSilence)) return absl::OkStatus();
    told_ = true;
    const std::chrono::nanoseconds limit = limit_.value_or(kEndTimeout);
    const std::string text = fmt::format(
        "the daemon in {0} is shutting down, and waits for leases (memleasectl --directory={0} "
        "holders shows whose); connect() waits for its end, {1}",
        directory,
        limit == kForever
            ? "however long that takes"
            : fmt::format("{:g} s at most", std::chrono::duration<double>(limit).count()));
    return call_check([&] { options_.on_wait(text); });
  }
  bool within(std::chrono::nanoseconds time) const {
    return std::chrono::steady_clock::now() - begin_ < time;
  }
  // For an answer; check() ends a wait sooner.
  std::chrono::nanoseconds longest_answer() const {
    return std::max<std::chrono::nanoseconds>(kAnswerTimeout, limit_.value_or(kAnswerTimeout));
  }
  bool goes_on(std::chrono::seconds by_default) const {
    return within(limit_.value_or(by_default));
  }

 private:
  const ConnectOptions& options_;
  const std::optional<std::chrono::nanoseconds> limit_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool told_ = false;
};

absl::StatusOr<std::shared_ptr<ArrayTable>> attach(const std::string& directory,
                                                   const ConnectWait& wait) {
  if (auto status = check_directory(directory); !status.ok()) return status;
  if (is_ending(directory)) {
    return wire::make_error(ErrorCode::kDaemonUnavailable,
                            fmt::format("the daemon in {} is shutting down", directory),
                            "Connect again once it has been started again. It waits for leases "
                            "first: memleasectl holders shows whose.");
  }
  crash_point("attach.begin");
  auto attached = AttachClient::connect(
      directory, [&] { return wait.check(directory); }, wait.longest_answer());
  crash_point("attach.welcomed");
  if (!attached.ok()) return attached.status();
  auto socket = ControlSocket::find(directory);
  if (!socket.ok()) return socket.status();
  const wire::SessionId id = (*attached)->session_id();
  // What speaks for the session in a call: its number, then its token.
  const std::uint32_t number = wire::to_int(id);
  const auto& token = (*attached)->token();
  std::string credential(sizeof number + token.size(), '\0');
  std::memcpy(credential.data(), &number, sizeof number);
  std::memcpy(credential.data() + sizeof number, token.data(), token.size());
  const wire::Incarnation& run = (*attached)->incarnation();
  std::string incarnation(run.begin(), run.end());
  auto control =
      std::make_unique<ControlStub>(*std::move(socket), std::move(credential), attached->get());
  auto session = std::make_unique<Session>(directory, id, std::move(*attached), std::move(control),
                                           std::move(incarnation));
  return std::make_shared<ArrayTable>(std::move(session), CudaImporters::instance());
}

constexpr std::chrono::milliseconds kNextLook{5};
constexpr std::chrono::milliseconds kNextTry{100};
constexpr int kTriesOfOneStart = 20;

// Without a slash at the end; the process may change its working directory later.
std::string absolute_path(const std::string& directory) {
  std::error_code failed;
  std::string path = std::filesystem::absolute(directory, failed).string();
  if (failed) return directory;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::StatusOr<std::shared_ptr<ArrayTable>> session_in(const std::string& directory,
                                                       const ConnectWait& wait) {
  return Sessions::instance().get(
      directory, [&] { return attach(directory, wait); }, [&] { return wait.check(directory); });
}

bool nobody_there(const absl::Status& status) {
  return wire::code_of(status) == ErrorCode::kDaemonUnavailable;
}

absl::Status does_not_end(const std::string& directory) {
  return wire::make_error(
      ErrorCode::kTimeout,
      fmt::format("the daemon in {} is shutting down, and has not ended within {} s", directory,
                  kEndTimeout.count()),
      "It waits for leases: memleasectl holders shows whose. A longer timeout waits longer.");
}

// The session of the daemon that comes after one which is ending and whose sockets stay, as a
// service manager's do: it takes nobody, until the next one listens there.
absl::StatusOr<std::shared_ptr<ArrayTable>> session_of_next(const std::string& directory,
                                                            ConnectWait& wait) {
  for (;;) {
    auto session = session_in(directory, wait);
    if (session.ok() || !nobody_there(session.status()) ||
        !connect_socket(directory, wire::kAttachSocket, SOCK_SEQPACKET).ok()) {
      return session;
    }
    if (auto status = wait.check(directory); !status.ok()) return status;
    if (!wait.goes_on(kEndTimeout)) return does_not_end(directory);
    if (auto status = wait.tell(directory); !status.ok()) return status;
    std::this_thread::sleep_for(kNextTry);
  }
}

// `said`: by the daemon that was started, if anything.
absl::Status with_what_it_said(const absl::Status& status, const std::string& said) {
  if (said.empty() || interrupt_of(status) != nullptr) return status;
  return wire::make_error(
      wire::code_of(status),
      fmt::format("{}; the one that was started has said: {}", wire::message_of(status), said),
      wire::hint_of(status));
}

absl::StatusOr<std::shared_ptr<ArrayTable>> find_session(const ConnectOptions& options) {
  std::vector<std::string> candidates = candidate_directories(options.directory);
  if (is_address(candidates.front()) && ::access(candidates.front().c_str(), F_OK) != 0) {
    return wire::make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' is an address, and a daemon is named by its directory",
                    candidates.front()),
        "A daemon serves its own machine alone. Without a directory, connect() finds the user's or "
        "the system's daemon; a directory with such a name begins with \"./\".");
  }
  for (std::string& directory : candidates) directory = absolute_path(directory);
  ConnectWait wait(options);
  absl::StatusOr<std::shared_ptr<ArrayTable>> session;
  for (const std::string& directory : candidates) {
    session = options.start ? session_of_next(directory, wait) : session_in(directory, wait);
    if (session.ok() || !nobody_there(session.status())) return session;
  }
  if (!options.start) {
    return wire::make_error(ErrorCode::kDaemonUnavailable,
                            fmt::format("no daemon answers in {}: {}", fmt::join(candidates, ", "),
                                        wire::message_of(session.status())),
                            "Start one (memleased), or let connect() start it.");
  }
  // The first candidate is the given or the user's directory; the system's daemon is not ours to
  // start. If there is one already, it does not listen yet, or is ending: then another is needed.
  const auto interrupt = [&] { return wait.check(candidates.front()); };
  std::string said;
  do {
    while (is_ending(candidates.front()) && wait.goes_on(kEndTimeout)) {
      if (auto status = interrupt(); !status.ok()) return status;
      if (auto status = wait.tell(candidates.front()); !status.ok()) return status;
      std::this_thread::sleep_for(kNextLook);
    }
    auto started = start_daemon(candidates.front(), options.daemon, interrupt);
    if (!started.ok()) return started.status();
    said = *std::move(started);
    for (int tries = 0; tries < kTriesOfOneStart; ++tries) {
      session = session_in(candidates.front(), wait);
      if (session.ok() || !nobody_there(session.status())) return session;
      if (auto status = interrupt(); !status.ok()) return with_what_it_said(status, said);
      std::this_thread::sleep_for(kNextLook);
    }
  } while (wait.goes_on(is_ending(candidates.front()) ? kEndTimeout : kStartTimeout));
  if (auto status = interrupt(); !status.ok()) return with_what_it_said(status, said);
  return with_what_it_said(session.status(), said);
}

}  // namespace

bool any_lease() {
  const auto sessions = Sessions::instance().all();
  return std::any_of(sessions.begin(), sessions.end(),
                     [](const auto& session) { return session->in_use(); });
}

void keep_session(const std::shared_ptr<ArrayTable>& arrays) { Sessions::instance().keep(arrays); }

ImporterSource& process_importers() { return CudaImporters::instance(); }

absl::StatusOr<std::shared_ptr<ArrayTable>> connect_session(const ConnectOptions& options) {
  auto session = find_session(options);
  // What a daemon says that cannot start. It is not to be waited for, nor another one to be
  // started.
  if (wire::code_of(session.status()) != ErrorCode::kClosed) return session;
  return wire::make_error(ErrorCode::kDaemonUnavailable, wire::message_of(session.status()),
                          wire::hint_of(session.status()));
}

}  // namespace memlease::internal
